# SPDX-License-Identifier: Apache-2.0
"""Add the tables of load from Prometheus.

Revision: 0029, after 0028.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0029"
down_revision = "0028"

VALUES, REPORTS = "sched_load_values", "sched_load_reports"
INDEX = "sched_load_values_subject_idx"


def upgrade() -> None:
    exact_text = sa.String(255).with_variant(
        mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )
    long_text = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
    moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
    # An interrupted upgrade is repeated, and MariaDB commits each change of a table.
    op.create_table(
        VALUES,
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("query", sa.String(32), nullable=False),
        sa.Column("subject", exact_text, nullable=False),
        sa.Column("state", sa.String(32), nullable=False),
        sa.Column("value", sa.Double),
        sa.Column("smoothed", sa.Double),
        sa.Column("measured_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("kind", "query", "subject"),
        if_not_exists=True,
        mysql_engine="InnoDB",
    )
    if INDEX not in {each["name"] for each in sa.inspect(op.get_bind()).get_indexes(VALUES)}:
        op.create_index(INDEX, VALUES, ["subject"])
    op.create_table(
        REPORTS,
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("query", sa.String(32), nullable=False),
        sa.Column("report", long_text, nullable=False),
        sa.Column("collected_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("kind", "query"),
        if_not_exists=True,
        mysql_engine="InnoDB",
    )
