"""Create the tables of the log of changes of providers.

The triggers that write it are made or removed by each sync, as the options want it.

Revision: 0014, after 0013.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    there = sa.inspect(connection).get_table_names()
    if "sched_provider_changes" not in there:
        op.create_table(
            "sched_provider_changes",
            sa.Column(
                "id",
                sa.BigInteger(),
                primary_key=True,
                nullable=False,
                autoincrement=connection.dialect.name in {"mysql", "mariadb"},
            ),
            sa.Column(
                "provider_id", sa.Integer(), primary_key=True, nullable=False, autoincrement=False
            ),
            sa.Column("created_at", moment),
            mysql_engine="InnoDB",
        )
    if "sched_provider_change_marks" not in there:
        op.create_table(
            "sched_provider_change_marks",
            sa.Column("id", sa.Integer(), primary_key=True, nullable=False),
            sa.Column("created_at", moment),
            sa.Column(
                "position",
                sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb"),
                nullable=False,
            ),
            sqlite_autoincrement=True,
            mysql_engine="InnoDB",
        )
    if "sched_provider_change_turns" not in there:
        op.create_table(
            "sched_provider_change_turns",
            sa.Column("id", sa.Integer(), primary_key=True, nullable=False, autoincrement=False),
            mysql_engine="InnoDB",
        )
