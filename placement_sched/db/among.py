"""Whether a column has one of many values, in the form that each database takes quickest."""

from collections.abc import Collection
from typing import TypeVar

from sqlalchemy import ColumnElement, Connection, any_, literal

from placement_sched.db.arrays import ArrayText, array_text

T = TypeVar("T", int, str)


def among(
    connection: Connection, column: ColumnElement[T], values: Collection[T]
) -> ColumnElement[bool]:
    """Return whether ``column`` is one of ``values``.

    On PostgreSQL they go as one array: a thousand parameters cost more to send and to plan than
    the rows cost to find, and each number of them would be a statement of its own to prepare.
    """
    if connection.dialect.name == "postgresql":
        return column == any_(literal(array_text(values), ArrayText(column.type)))
    return column.in_(values)
