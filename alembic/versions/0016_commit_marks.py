"""Create the table of the transactions that were committed lately.

Revision: 0016, after 0015.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

TABLE = "sched_commit_marks"


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    if TABLE in sa.inspect(op.get_bind()).get_table_names():
        return
    moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.create_table(
        TABLE,
        sa.Column("id", sa.String(32), primary_key=True, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("done", sa.Integer(), nullable=False),
        mysql_engine="InnoDB",
    )
