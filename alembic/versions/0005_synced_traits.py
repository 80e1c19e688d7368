"""Create the record of what sync_traits has put on providers.

Revision: 0005, after 0004.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # MariaDB commits every table at once: what an interrupted sync made is there already.
    if "sched_synced_traits" in sa.inspect(op.get_bind()).get_table_names():
        return
    op.create_table(
        "sched_synced_traits",
        sa.Column("created_at", sa.DateTime()),
        sa.Column("updated_at", sa.DateTime()),
        sa.Column("provider_uuid", sa.String(36), primary_key=True),
        sa.Column(
            "trait",
            sa.String(255).with_variant(
                mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
            ),
            primary_key=True,
        ),
        sa.Column("aggregate_uuid", sa.String(36), nullable=False),
        sa.Index("sched_synced_traits_aggregate_uuid_idx", "aggregate_uuid"),
        mysql_engine="InnoDB",
    )
