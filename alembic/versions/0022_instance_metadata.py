# SPDX-License-Identifier: Apache-2.0
"""Add the launch time and the metadata of instances.

MariaDB commits each column, so an interrupted upgrade may have added some of them.

Revision: 0022, after 0021.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None

TABLE = "sched_instances"

LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    existing = {column["name"] for column in sa.inspect(op.get_bind()).get_columns(TABLE)}
    for column in (
        sa.Column("launched_at", sa.DateTime),
        sa.Column("metadata", LongText),
        sa.Column("system_metadata", LongText),
    ):
        if column.name not in existing:
            op.add_column(TABLE, column)
