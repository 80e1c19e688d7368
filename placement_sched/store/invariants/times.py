"""Times as text, so that an unreadable one ends no statement, and the rows that have such a time.

SQLite keeps any text in a column of times, and PostgreSQL times that Python's do not reach.
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import Column, ColumnElement, Connection, func, select

from placement_sched.db import tables
from placement_sched.errors import one_line

#: So much of what stands in the place of a time is shown.
_LONGEST = 40
#: The first and the last time that Python has.
_FIRST, _LAST = "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"
#: What makes SQLite count the days of a month, where it would give back what it is given.
_COUNTED = "+0 days"


class Illegible(NamedTuple):
    """A row with a time that cannot be read: what it is (of), by which uuid, and why."""

    what: str
    uuid: str
    reason: str


def as_text(moment: ColumnElement[Any]) -> ColumnElement[str]:
    """Return a time as the text that :func:`read` reads."""
    return sa.cast(moment, sa.String(64))


def read(text: str | None) -> datetime | None:
    """Return the time of a text; None where there is none, or it cannot be read."""
    try:
        moment = None if text is None else datetime.fromisoformat(text)
    except ValueError:
        return None
    # One with a zone cannot be compared with the others, which are of UTC and do not say so.
    return None if moment is None or moment.tzinfo is not None else moment


def illegible(connection: Connection, most: int) -> Iterator[Illegible]:
    """Yield the rows of which a time cannot be read, at most so many of each column of times.

    An inventory and an allocation have no uuid: they go by that of their provider or consumer.
    """
    held, owned, providers = tables.allocations, tables.inventories, tables.resource_providers
    provider = (
        select(providers.c.uuid).where(providers.c.id == owned.c.resource_provider_id).limit(1)
    )
    known = (
        ("provider", providers, providers.c.uuid),
        ("inventory of provider", owned, func.coalesce(provider.scalar_subquery(), "-")),
        ("allocation of consumer", held, held.c.consumer_id),
        ("consumer", tables.consumers, tables.consumers.c.uuid),
        ("instance", tables.instances, tables.instances.c.uuid),
        ("decision", tables.decisions, tables.decisions.c.uuid),
        ("compute node", tables.compute_nodes, tables.compute_nodes.c.uuid),
        ("cell", tables.cells, tables.cells.c.uuid),
        ("host aggregate", tables.host_aggregates, tables.host_aggregates.c.uuid),
    )
    for what, table, uuid in known:
        for column in (one for one in table.columns if isinstance(one.type, sa.DateTime)):
            query = select(uuid, as_text(column)).where(_is_illegible(connection, column))
            for of, text in connection.execute(query.limit(most)).all():
                yield Illegible(what, of, f"{column.name} {shown(text)} is not a time")


def shown(text: str) -> str:
    """Return in short, and in one line, what stands in the place of a time."""
    return repr(one_line(text)[:_LONGEST])


def _is_illegible(connection: Connection, column: Column[Any]) -> ColumnElement[bool]:
    if connection.dialect.name != "sqlite":
        return sa.or_(column < sa.text(f"'{_FIRST}'"), column > sa.text(f"'{_LAST}'"))
    text = sa.type_coerce(column, sa.String)
    # A day that its month does not have becomes one of the next month, and a zone another hour.
    first = func.replace(func.substr(text, 1, 19), "T", " ")
    whole = func.strftime("%Y-%m-%d %H:%M:%S", text, _COUNTED) == first
    bare = sa.and_(func.length(text) == 10, func.strftime("%Y-%m-%d", text, _COUNTED) == text)
    fraction = func.substr(text, 20).op("NOT GLOB")("*[^.0-9]*")
    legible = sa.and_(func.typeof(text) == "text", sa.or_(sa.and_(whole, fraction), bare))
    # What has no time at all, as SQLite sees it, makes this null: neither true nor false.
    return sa.and_(column.is_not(None), func.coalesce(legible, sa.false()).is_(sa.false()))
