"""Create the records of nova's cells and of what nova did beside a shadow.

Revision: 0012, after 0011.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def exact(length: int) -> sa.types.TypeEngine[str]:
    """Return a text type whose comparisons are case-sensitive on MariaDB too."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    there = sa.inspect(op.get_bind()).get_table_names()
    if "sched_cells" not in there:
        op.create_table(
            "sched_cells",
            sa.Column("created_at", sa.DateTime()),
            sa.Column("updated_at", sa.DateTime()),
            sa.Column("id", sa.Integer(), primary_key=True, nullable=False),
            sa.Column("uuid", sa.String(36), nullable=False),
            sa.Column("name", exact(255)),
            sa.Column("disabled", sa.Integer(), nullable=False, server_default="0"),
            sa.Column("read_at", sa.DateTime()),
            sa.Column("away_since", sa.DateTime()),
            sa.Column("failure", sa.String(255)),
            sa.UniqueConstraint("uuid", name="uniq_sched_cells0uuid"),
            mysql_engine="InnoDB",
        )
    if "sched_shadow_results" not in there:
        op.create_table(
            "sched_shadow_results",
            sa.Column("created_at", sa.DateTime()),
            sa.Column("updated_at", sa.DateTime()),
            sa.Column("decision_uuid", sa.String(36), nullable=False),
            sa.Column("position", sa.Integer(), nullable=False),
            sa.Column("instance_uuid", sa.String(36), nullable=False),
            sa.Column("verdict", sa.String(32), nullable=False),
            sa.Column("our_host", exact(255)),
            sa.Column("nova_host", exact(255)),
            sa.Column("detail", sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")),
            sa.PrimaryKeyConstraint("decision_uuid", "position"),
            sa.Index("sched_shadow_results_instance_uuid_idx", "instance_uuid"),
            sa.Index("sched_shadow_results_verdict_idx", "verdict", "created_at"),
            mysql_engine="InnoDB",
        )
