# SPDX-License-Identifier: Apache-2.0
"""Add the requests of instances, from which they are scheduled again.

The request of an existing instance stays null, which means unknown, until ``nova sync`` reads it.

Revision: 0027, after 0026.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0027"
down_revision = "0026"


def upgrade() -> None:
    existing = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(_TABLE)}
    # An interrupted upgrade is repeated, and MariaDB commits each change of a table.
    if "request" not in existing:
        long_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
        op.add_column(_TABLE, sa.Column("request", long_text))


_TABLE = "sched_instances"
