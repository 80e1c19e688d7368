"""The log of changes on SQLite and MariaDB, where each row has the next number.

On SQLite numbers are in the order of commits. On MariaDB they are given out before, and those that
are skipped are looked for again (``change_gaps.py``).
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import Connection, TextClause, text

from placement_sched.db.change_triggers import NAMES
from placement_sched.store.placement.change_gaps import outlast, settle
from placement_sched.store.placement.change_positions import (
    Changes,
    LogPosition,
    add_mark,
    changes,
    in_doubt,
    in_places,
    newest_mark,
    or_in_places,
    places_of,
)

#: More gaps, or more rows at once, than are worth reading: all is read again.
MOST_GAPS, MOST_ROWS = 1000, 50_000

# UUID_SHORT() begins with the server's number and the second of its last start: what it committed
# just before, it may have lost (innodb_flush_log_at_trx_commit).
_SERVERS = {"sqlite": "0", "mysql": "UUID_SHORT() >> 24"}
_ROWS = (
    "SELECT id, provider_id, created_at, {}, "
    "(SELECT min(id) FROM sched_provider_change_marks), "
    "(SELECT max(id) FROM sched_provider_change_marks) "
    "FROM sched_provider_changes WHERE id >= CAST(:last AS {}){} "
    "LIMIT {}"
)
_NUMBER = {"sqlite": "INTEGER", "mysql": "SIGNED"}
_ANCHORS = {
    "sqlite": (
        "INSERT INTO sched_provider_changes (id, provider_id, created_at) "  # noqa: S608
        f"SELECT coalesce(max(id), 0) + 1, {NAMES}, strftime('%Y-%m-%d %H:%M:%f', 'now') "
        "FROM sched_provider_changes"
    ),
    "mysql": (
        "INSERT INTO sched_provider_changes (provider_id, created_at) "  # noqa: S608
        f"VALUES ({NAMES}, UTC_TIMESTAMP(6))"
    ),
}
#: The server of a position after which nothing is known.
_UNKNOWN = ""


def begin(connection: Connection) -> LogPosition:
    """Return the position after all that is committed, and before all that is not."""
    position = _after_newest_mark(connection)
    if position is None:
        _make_mark(connection)
        position = _after_newest_mark(connection)
    return LogPosition(_UNKNOWN, mark=0, last=0) if position is None else position


def since(connection: Connection, position: LogPosition) -> Changes:
    """Return what was committed since a position, by one statement.

    By two, once a second, while there are gaps.
    """
    settling, ended = position.settling, frozenset[int]()
    if position.awaited:
        settling, ended = settle(connection, settling, position.awaited)
    rows = _read(connection, position.last, position.awaited)
    here = _seen(rows, position.last)
    if here is None or here.server != position.server or here.anchor != position.anchor:
        return in_doubt(position)
    if position.mark not in here.marks:
        return in_doubt(position)
    after = _advanced(connection, position, rows)
    if after is None:
        return in_doubt(position)
    after = replace(after, mark=here.marks[-1], awaited=after.awaited - ended, settling=settling)
    return changes({row[1] for row in rows if row[0] != position.last}, after)


class _Seen(NamedTuple):
    """The last row that was seen, as it is now."""

    anchor: tuple[object, ...]
    server: str
    marks: range


def _read(connection: Connection, last: int, awaited: frozenset[int]) -> Sequence[Any]:
    """Return the row ``last`` and all that are to be read."""
    kind = "sqlite" if connection.dialect.name == "sqlite" else "mysql"
    parameters = {"last": str(last), **in_places(awaited)}
    return connection.execute(_question(kind, places_of(awaited)), parameters).all()


@cache
def _question(kind: str, places: int) -> TextClause:
    number = _NUMBER[kind]
    more = or_in_places(places, f"CAST({{}} AS {number})")
    return text(_ROWS.format(_SERVERS[kind], number, more, MOST_ROWS))


def _seen(rows: Sequence[Any], last: int) -> _Seen | None:
    """Return what is in the last row that was seen; None where it is gone, or no mark is there."""
    for number, provider, at, server, oldest, newest in rows:
        if number == last and oldest is not None:
            return _Seen((provider, at), str(server), range(oldest, newest + 1))
    return None


def _advanced(
    connection: Connection, position: LogPosition, rows: Sequence[Any]
) -> LogPosition | None:
    """Return the position after ``rows``; None where they are too many, or the gaps are."""
    if len(rows) >= MOST_ROWS:
        return None
    newer = {row[0]: row for row in rows if row[0] > position.last}
    if not newer and not position.awaited:
        return position
    last = max(newer, default=position.last)
    awaited = position.awaited.difference(row[0] for row in rows)
    if connection.dialect.name != "sqlite":
        if last - position.last - len(newer) + len(awaited) > MOST_GAPS:
            return None
        awaited |= set(range(position.last + 1, last)) - newer.keys()
    anchor = tuple(newer[last][1:3]) if newer else position.anchor
    return replace(position, last=last, awaited=awaited, anchor=anchor)


def _after_newest_mark(connection: Connection) -> LogPosition | None:
    """Return the position of this moment; None where no mark is of use."""
    mark = newest_mark(connection)
    if mark is None:
        return None
    rows = _read(connection, mark.last, mark.awaited)
    here = _seen(rows, mark.last)
    if here is None:
        return None
    before = LogPosition(here.server, here.marks[-1], mark.last, mark.awaited, here.anchor)
    return _advanced(connection, before, rows)


def _make_mark(connection: Connection) -> None:
    """Make a mark where there is none: after all transactions that are at work now."""
    kind = "sqlite" if connection.dialect.name == "sqlite" else "mysql"
    number = connection.exec_driver_sql(_ANCHORS[kind]).lastrowid
    if kind == "sqlite":
        # Not a rowid: the table has a key of two columns.
        found = connection.exec_driver_sql("SELECT max(id) FROM sched_provider_changes")
        number = found.scalar_one()
    elif not outlast(connection):
        return
    add_mark(connection, LogPosition(_UNKNOWN, mark=0, last=number))
