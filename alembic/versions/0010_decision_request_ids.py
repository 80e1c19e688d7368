"""Keep the ids of the request that a decision answered, and find decisions by them.

Decisions made before have none.

Revision: 0010, after 0009.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLE = "sched_decisions"
COLUMNS = ("request_id", "global_request_id")


def exact(length: int) -> sa.String:
    """Return a text type whose comparisons are case-sensitive on MariaDB too."""
    return sa.String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def upgrade() -> None:
    # MariaDB commits each change of a table: part of them may be there after an interrupted sync.
    there = sa.inspect(op.get_bind())
    columns = {column["name"] for column in there.get_columns(TABLE)}
    indexes = {index["name"] for index in there.get_indexes(TABLE)}
    for name in COLUMNS:
        if name not in columns:
            op.add_column(TABLE, sa.Column(name, exact(255)))
        if (index := f"{TABLE}_{name}_idx") not in indexes:
            op.create_index(index, TABLE, [name])
