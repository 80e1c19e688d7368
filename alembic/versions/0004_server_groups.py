"""Create the table of server groups, and find their members fast.

Revision: 0004, after 0003.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

GROUPS = "sched_server_groups"
MEMBERS = "sched_instances_server_group_idx"


def exact(length: int) -> sa.String:
    """Return a text type whose comparisons distinguish case on MariaDB too."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    there = sa.inspect(op.get_bind())
    if GROUPS not in there.get_table_names():
        op.create_table(
            GROUPS,
            sa.Column("created_at", sa.DateTime()),
            sa.Column("updated_at", sa.DateTime()),
            sa.Column("id", sa.Integer(), primary_key=True),
            sa.Column("uuid", sa.String(36), nullable=False),
            sa.Column("name", exact(255), nullable=False),
            sa.Column("policy", sa.String(32), nullable=False),
            sa.Column("max_server_per_host", sa.Integer()),
            sa.Column("project_id", exact(255)),
            sa.Column("user_id", exact(255)),
            sa.UniqueConstraint("uuid", name="uniq_sched_server_groups0uuid"),
            sa.Index("sched_server_groups_project_id_idx", "project_id"),
            mysql_engine="InnoDB",
        )
    if MEMBERS not in {index["name"] for index in there.get_indexes("sched_instances")}:
        op.create_index(MEMBERS, "sched_instances", ["server_group"])
