"""Create the table of the leases on work that one process does for all.

Revision: 0017, after 0016.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

TABLE = "sched_leases"


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    if TABLE in sa.inspect(op.get_bind()).get_table_names():
        return
    moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    op.create_table(
        TABLE,
        sa.Column("name", sa.String(64), primary_key=True, nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("expires_at", moment, nullable=False),
        mysql_engine="InnoDB",
    )
