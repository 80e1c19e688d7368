"""Locks of rows that stay as they are, as other nodes of a cluster see them.

A lock is unknown to other nodes; what they know of each other is which rows a transaction has
changed. So a transaction that has locked a row, and may leave it as it is, changes it and changes
it back: both are sent to the other nodes, which let only one of two such transactions be committed,
and no reader sees a difference (doc/decisions/0022).
"""

from typing import Any

from sqlalchemy import Column, Connection, Integer, func, text, update

from placement_sched.db import sql

_SECOND = text("INTERVAL 1 SECOND")


def certify(connection: Connection, column: Column[Any], rows: sql.Condition) -> None:
    """Let other nodes see the lock of rows that the caller has locked; else it does nothing.

    ``column`` has numbers or times; where it has none, 0 or the present time remains there.
    """
    if not sql.certifies(connection):
        return
    step, least = (1, 0) if isinstance(column.type, Integer) else (_SECOND, func.utc_timestamp())
    known: Any = func.coalesce(column, least)
    for other in (known + step, known - step):
        connection.execute(update(column.table).where(rows).values({column.name: other}))
