# SPDX-License-Identifier: Apache-2.0
"""Add the table of ended instances, for traces.

Revision: 0030, after 0029.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0030"
down_revision = "0029"

TABLE = "sched_ended_instances"


def upgrade() -> None:
    # An interrupted upgrade is repeated, and MariaDB commits each change of a table.
    inspector = sa.inspect(op.get_bind())
    if inspector.has_table(TABLE):
        return
    long_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    op.create_table(
        TABLE,
        sa.Column("created_at", sa.DateTime),
        sa.Column("updated_at", sa.DateTime),
        sa.Column("id", sa.Integer, primary_key=True, nullable=False),
        sa.Column("uuid", sa.String(36), nullable=False),
        sa.Column("ended_at", sa.DateTime, nullable=False),
        sa.Column("project_id", _make_exact_text(255)),
        sa.Column("user_id", _make_exact_text(255)),
        sa.Column("flavor", long_text),
        sa.Column("image", long_text),
        sa.Column("server_group", sa.String(36)),
        sa.Column("flavor_digest", _make_exact_text(64)),
        sa.Column("request", long_text),
        sa.Index(f"{TABLE}_ended_at_idx", "ended_at"),
        mysql_engine="InnoDB",
    )


def _make_exact_text(length: int) -> sa.String:
    exact = mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin")
    return sa.String(length).with_variant(exact, "mysql", "mariadb")
