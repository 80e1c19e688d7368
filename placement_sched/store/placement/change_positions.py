"""Positions in the log of changes, what was committed since one, and the marks that are kept."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from itertools import repeat
from typing import Any

import orjson
import sqlalchemy as sa
from sqlalchemy import Connection

from placement_sched.db.change_triggers import EVERYTHING, NAMES
from placement_sched.db.tables import change_marks
from placement_sched.store.placement.change_gaps import UNDECIDED, Settling

#: The time of the database, in UTC, with microseconds where it keeps them.
_NOW = {
    "postgresql": "timezone('UTC', clock_timestamp())",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
}
_NOW_ON_MARIADB = "UTC_TIMESTAMP(6)"
#: The least places of a statement for numbers that are looked for again; the next has as many times
#: more.
_PLACES = 8


@dataclass(frozen=True, slots=True)
class LogPosition:
    """What of the log has been read. ``mark`` is the newest mark that was there.

    ``last`` is the highest number that was seen (on PostgreSQL the first that was not given out),
    and ``awaited`` are lower ones that may still come. ``anchor`` is the rest of the row ``last``.
    ``server`` stands for the database and its last start: where these are others, the log was
    restored, or the server may have lost what it had committed.
    """

    server: str
    mark: int
    last: int
    awaited: frozenset[int] = frozenset()
    anchor: tuple[object, ...] = ()
    settling: Settling = UNDECIDED

    def as_text(self) -> str:
        """Return what a mark keeps of it."""
        return orjson.dumps({"last": self.last, "awaited": sorted(self.awaited)}).decode()


@dataclass(frozen=True, slots=True)
class Changes:
    """What was committed since a position, and the next position.

    ``providers`` are the ids of providers to read again, among them those that are gone. ``names``:
    names of traits, resource classes or aggregates were written. ``in_doubt``: the log does not
    say; a new position is to be taken, and then everything to be read again.
    """

    providers: frozenset[int]
    names: bool
    position: LogPosition
    in_doubt: bool = False


def places_of(awaited: Collection[int]) -> int:
    """Return how many places for numbers a statement has that asks for these again.

    Few different ones, so that few statements are prepared.
    """
    places = _PLACES if awaited else 0
    while places < len(awaited):
        places *= _PLACES
    return places


def in_places(awaited: Collection[int]) -> dict[str, str]:
    """Return the parameters of :func:`or_in_places` for these numbers; 0 is that of no row.

    As texts, whose type is the same each time: with another type a statement is prepared again.
    """
    numbers = [*awaited, *repeat(0, places_of(awaited) - len(awaited))]
    return {f"awaited_{place}": str(number) for place, number in enumerate(numbers)}


def or_in_places(places: int, placeholder: str) -> str:
    """Return the words that add rows by their numbers to a condition; ``{}`` is a place's name."""
    if not places:
        return ""
    names = (placeholder.format(f":awaited_{place}") for place in range(places))
    return f" OR id IN ({', '.join(names)})"


def in_doubt(position: LogPosition) -> Changes:
    """Return that the log does not say what changed since ``position``."""
    return Changes(frozenset(), names=True, position=position, in_doubt=True)


def changes(written: set[int], position: LogPosition) -> Changes:
    """Return the changes that the log's provider ids mean, up to ``position``."""
    if EVERYTHING in written:
        return in_doubt(position)
    return Changes(frozenset(written - {NAMES}), NAMES in written, position)


@dataclass(frozen=True, slots=True)
class Mark:
    """A position as it was written down. Each later position has been shown all that it has."""

    id: int
    created_at: datetime
    last: int
    awaited: frozenset[int]


def marks(connection: Connection) -> tuple[Mark, ...]:
    """Return all marks, oldest first: few."""
    rows = connection.execute(_ALL).all()
    return tuple(_mark(*row) for row in rows)


def newest_mark(connection: Connection) -> Mark | None:
    """Return the newest mark, None where there is none."""
    row = connection.execute(_NEWEST).first()
    return None if row is None else _mark(*row)


def add_mark(connection: Connection, position: LogPosition) -> None:
    """Write down a position."""
    values = {"created_at": now(connection), "position": position.as_text()}
    connection.execute(sa.insert(change_marks).values(values))


def remove_marks_before(connection: Connection, mark: Mark) -> None:
    """Remove the marks that are older than one: readers that have read less are then in doubt."""
    connection.execute(sa.delete(change_marks).where(change_marks.c.id < mark.id))


def time_there(connection: Connection) -> datetime:
    """Return the database's own time, as marks have it."""
    found: datetime = connection.execute(sa.select(now(connection))).scalar_one()
    return found


def now(connection: Connection) -> sa.ColumnElement[datetime]:
    """Return an expression for the database's own time."""
    words = _NOW.get(connection.dialect.name, _NOW_ON_MARIADB)
    return sa.literal_column(words, change_marks.c.created_at.type)


def _mark(number: int, created_at: datetime, position: str) -> Mark:
    found: dict[str, Any] = orjson.loads(position)
    return Mark(number, created_at, found["last"], frozenset(found["awaited"]))


_COLUMNS = change_marks.c
_ALL = sa.select(_COLUMNS.id, _COLUMNS.created_at, _COLUMNS.position).order_by(_COLUMNS.id)
_NEWEST = _ALL.order_by(None).order_by(_COLUMNS.id.desc()).limit(1)
