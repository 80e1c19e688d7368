"""Create the table of how often clients have written, by which answers of standbys are judged.

Revision: 0018, after 0017.
"""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

TABLE = "sched_last_writes"


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    if TABLE in sa.inspect(op.get_bind()).get_table_names():
        return
    op.create_table(
        TABLE,
        sa.Column("place", sa.Integer(), primary_key=True, nullable=False, autoincrement=False),
        sa.Column("share", sa.Integer(), primary_key=True, nullable=False, autoincrement=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        mysql_engine="InnoDB",
    )
