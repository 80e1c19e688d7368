# SPDX-License-Identifier: Apache-2.0
"""Add the notices of requests that fit after all.

Revision: 0025, after 0024.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

TABLE = "sched_decision_notices"

LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    if TABLE in sa.inspect(op.get_bind()).get_table_names():
        return
    op.create_table(
        TABLE,
        sa.Column("created_at", sa.DateTime),
        sa.Column("updated_at", sa.DateTime),
        sa.Column("decision_uuid", sa.String(36), primary_key=True),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("pending", LongText, nullable=False),
        sa.Column("ended_at", sa.DateTime),
        mysql_engine="InnoDB",
    )
