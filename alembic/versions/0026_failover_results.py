# SPDX-License-Identifier: Apache-2.0
"""Add the table of the last failover result.

Revision: 0026, after 0025.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None

TABLE = "sched_failover_results"

Moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    # An interrupted upgrade on MariaDB may have created the table.
    if not sa.inspect(op.get_bind()).has_table(TABLE):
        op.create_table(
            TABLE,
            sa.Column("id", sa.Integer, primary_key=True, nullable=False, autoincrement=False),
            sa.Column("result", LongText, nullable=False),
            sa.Column("computed_at", Moment, nullable=False),
            mysql_engine="InnoDB",
        )
