# SPDX-License-Identifier: Apache-2.0
"""Add the kind and the subject of the reason to recorded decisions.

Null means unknown: decisions of earlier releases have only texts.

Revision: 0028, after 0027.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0028"
down_revision = "0027"

TABLE = "sched_decisions"
INDEX = "sched_decisions_reason_kind_idx"


def upgrade() -> None:
    exact_text = sa.String(255).with_variant(
        mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )
    # An interrupted upgrade is repeated, and MariaDB commits each change of a table.
    inspector = sa.inspect(op.get_bind())
    existing = {each["name"] for each in inspector.get_columns(TABLE)}
    for column in (
        sa.Column("reason_kind", sa.String(64)),
        sa.Column("reason_subject", exact_text),
    ):
        if column.name not in existing:
            op.add_column(TABLE, column)
    if INDEX not in {each["name"] for each in inspector.get_indexes(TABLE)}:
        op.create_index(INDEX, TABLE, ["reason_kind", "id"])
