# SPDX-License-Identifier: Apache-2.0
"""Add the stage that left no host, and its reason, to decisions.

MariaDB commits each change, so an interrupted upgrade may have made some of them.

Revision: 0023, after 0022.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

TABLE = "sched_decisions"
INDEX = "sched_decisions_stage_idx"

Name = sa.String(255).with_variant(
    mysql.VARCHAR(255, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)
LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")


def upgrade() -> None:
    inspector = sa.inspect(op.get_bind())
    existing = {column["name"] for column in inspector.get_columns(TABLE)}
    for column in (sa.Column("stage", Name), sa.Column("reason", LongText)):
        if column.name not in existing:
            op.add_column(TABLE, column)
    if INDEX not in {index["name"] for index in inspector.get_indexes(TABLE)}:
        op.create_index(INDEX, TABLE, ["stage", "id"])
