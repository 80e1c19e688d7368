# SPDX-License-Identifier: Apache-2.0
"""Add the journal of runs of plans.

MariaDB commits each change, so an interrupted upgrade may have made some of them.

Revision: 0024, after 0023.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None

RUNS, MOVES = "sched_plan_runs", "sched_plan_moves"

Name = sa.String(255).with_variant(
    mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)
LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    existing = set(sa.inspect(op.get_bind()).get_table_names())
    if RUNS not in existing:
        op.create_table(
            RUNS,
            sa.Column("created_at", sa.DateTime),
            sa.Column("updated_at", sa.DateTime),
            sa.Column("id", sa.Integer, primary_key=True, nullable=False),
            sa.Column("uuid", sa.String(36), nullable=False),
            sa.Column("kind", sa.String(16), nullable=False),
            sa.Column("state", sa.String(16), nullable=False),
            sa.Column("method", sa.String(16), nullable=False),
            sa.Column("parallel", sa.Integer, nullable=False),
            sa.Column("user_id", Name),
            sa.Column("executor", sa.String(36), nullable=False),
            sa.Column("request", LongText, nullable=False),
            sa.Column("stuck", LongText, nullable=False),
            sa.UniqueConstraint("uuid", name=f"uniq_{RUNS}0uuid"),
            mysql_engine="InnoDB",
        )
    if MOVES not in existing:
        op.create_table(
            MOVES,
            sa.Column("run_uuid", sa.String(36), nullable=False),
            sa.Column("instance_uuid", sa.String(36), nullable=False),
            sa.Column("position", sa.Integer, nullable=False),
            sa.Column("source", Name, nullable=False),
            sa.Column("target", Name, nullable=False),
            sa.Column("state", sa.String(16), nullable=False),
            sa.Column("decision_uuid", sa.String(36)),
            sa.Column("started_at", sa.DateTime),
            sa.Column("finished_at", sa.DateTime),
            sa.Column("error", LongText),
            sa.PrimaryKeyConstraint("run_uuid", "instance_uuid"),
            mysql_engine="InnoDB",
        )
