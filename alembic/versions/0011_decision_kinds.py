"""Keep with a decision its kind, its policy and its flavor, and find decisions by them.

Policy and flavor of the decisions made before are read from what is kept of them. Whether those
claimed what they chose is not known any more: they count as ``select``.

Revision: 0011, after 0010.
"""

import json
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

TABLE = "sched_decisions"
MANY = 500


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
    for column in (
        sa.Column("kind", sa.String(16), nullable=False, server_default="select"),
        sa.Column("policy", exact(255)),
        sa.Column("flavor", exact(255)),
    ):
        if column.name not in columns:
            op.add_column(TABLE, column)
        if (index := f"{TABLE}_{column.name}_idx") not in indexes:
            op.create_index(index, TABLE, [column.name, "id"])
    fill()


def fill() -> None:
    """Write down policy and flavor of the decisions that have none yet, some at a time."""
    connection = op.get_bind()
    table = sa.table(TABLE, *map(sa.column, ("id", "request", "selections", "policy", "flavor")))
    last = 0
    query = sa.select(table).where(table.c.policy.is_(None)).order_by(table.c.id).limit(MANY)
    change = (
        sa.update(table)
        .where(table.c.id == sa.bindparam("b_id"))
        .values(policy=sa.bindparam("b_policy"), flavor=sa.bindparam("b_flavor"))
    )
    while rows := connection.execute(query.where(table.c.id > last)).all():
        last = rows[-1].id
        connection.execute(
            change,
            [
                {
                    "b_id": row.id,
                    "b_policy": text_of(read(row.selections), "policy"),
                    "b_flavor": text_of(text_of(read(row.request), "flavor"), "name"),
                }
                for row in rows
            ],
        )


def read(document: str) -> Any:
    """Return a document as JSON; None where it is not JSON."""
    try:
        return json.loads(document)
    except ValueError:
        return None


def text_of(document: Any, key: str) -> Any:
    """Return what an object has under a key: a text that fits its column, or an object."""
    value = document.get(key) if isinstance(document, dict) else None
    return value[:255] if isinstance(value, str) else value if isinstance(value, dict) else None
