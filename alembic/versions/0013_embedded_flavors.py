"""Let the flavors of instances be kept once for all that share them, by the digests of their texts.

What is kept with an instance stays there until the instance changes.

Revision: 0013, after 0012.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

FLAVORS = "sched_embedded_flavors"
INSTANCES = "sched_instances"


def exact(length: int) -> sa.String:
    """Return a text type whose comparisons are case-sensitive on MariaDB too."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def upgrade() -> None:
    # MariaDB commits each change of a table: what an interrupted sync made is there already.
    there = sa.inspect(op.get_bind())
    if FLAVORS not in there.get_table_names():
        op.create_table(
            FLAVORS,
            sa.Column("digest", exact(64), primary_key=True, nullable=False),
            sa.Column(
                "flavor",
                sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb"),
                nullable=False,
            ),
            mysql_engine="InnoDB",
        )
    columns = {column["name"] for column in there.get_columns(INSTANCES)}
    if "flavor_digest" not in columns:
        op.add_column(INSTANCES, sa.Column("flavor_digest", exact(64)))
