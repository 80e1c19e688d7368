# SPDX-License-Identifier: Apache-2.0
"""Add the requests of instances and the versions of services.

Requests schedule instances again. Null means unknown: ``nova sync`` completes the existing rows of
a nova.

Revision: 0027, after 0026.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    long_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    _add_missing_column("sched_instances", sa.Column("request", long_text))
    _add_missing_column("sched_services", sa.Column("version", sa.Integer))


def _add_missing_column(table: str, column: sa.Column) -> None:
    # An interrupted upgrade is repeated, and MariaDB commits each change of a table.
    existing = {each["name"] for each in sa.inspect(op.get_bind()).get_columns(table)}
    if column.name not in existing:
        op.add_column(table, column)
