"""Number the change log of providers in one way on all databases, Galera clusters included.

Its triggers and tables are made again: the triggers by the sync that runs this, the table here.
Processes of earlier releases search in the database until they are restarted.

Revision: 0019, after 0018.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

TABLE = "sched_provider_changes"
OLD_TABLES = ("sched_provider_change_turns", "sched_provider_change_marks", TABLE)
OLD_FUNCTIONS = ("sched_log_by_id", "sched_log_by_resource_provider_id", "sched_log_names")
LOGGED = (
    "allocations",
    "inventories",
    "placement_aggregates",
    "resource_classes",
    "resource_provider_aggregates",
    "resource_provider_traits",
    "resource_providers",
    "traits",
)


def upgrade() -> None:
    connection = op.get_bind()
    kind = connection.dialect.name
    # The triggers first: without the table, nothing could be written.
    if kind == "postgresql":
        for name in OLD_FUNCTIONS:
            op.execute(f"DROP FUNCTION IF EXISTS {name}() CASCADE")
    else:
        for table in LOGGED:
            for done in ("inserted", "updated", "deleted"):
                op.execute(f"DROP TRIGGER IF EXISTS sched_{table}_{done}")
    # MariaDB commits every table at once: an interrupted sync may have dropped some.
    there = sa.inspect(connection).get_table_names()
    for table in OLD_TABLES:
        if table in there:
            op.drop_table(table)
    op.create_table(
        TABLE,
        sa.Column(
            "id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            primary_key=True,
            nullable=False,
            autoincrement=True,
        ),
        sa.Column("provider_id", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb"),
            nullable=False,
        ),
        mysql_engine="InnoDB",
    )
