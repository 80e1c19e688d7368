"""The log of changes on PostgreSQL, where a position is a snapshot.

Rows have the numbers of their transactions. A snapshot has not seen those from its xmax on, nor
those that were in progress: https://www.postgresql.org/docs/current/functions-info.html. Numbers
of 64 bits are never used again, and one of a transaction that was rolled back is just never there.
"""

from functools import cache
from typing import Any

from sqlalchemy import Connection, text

from placement_sched.db.frequent_statements import FrequentStatement
from placement_sched.store.placement.change_positions import (
    Changes,
    LogPosition,
    add_mark,
    changes,
    in_doubt,
    in_places,
    or_in_places,
    places_of,
)

# The timeline changes when another server takes over, which may lack what was committed last; the
# start, when this one may have lost it (synchronous_commit); the table, when it was made again.
_SERVER = (
    "CASE WHEN pg_is_in_recovery() THEN '' ELSE "
    "left(pg_walfile_name(pg_current_wal_insert_lsn()), 8) || ' ' || "
    "extract(epoch FROM pg_postmaster_start_time())::text || ' ' || "
    "'sched_provider_changes'::regclass::oid::text END"
)
_HEAD = (
    f"SELECT pg_current_snapshot()::text, {_SERVER}, "  # noqa: S608
    "(SELECT min(id) FROM sched_provider_change_marks), "
    "(SELECT max(id) FROM sched_provider_change_marks)"
)
# Between two bounds, for PostgreSQL takes one bound of unknown value for a third of the table, and
# would read all of it.
_SINCE = (
    "{}, (SELECT string_agg(provider_id::text, ',') FROM sched_provider_changes "
    "WHERE id BETWEEN CAST(:last AS bigint) AND 9223372036854775807{})"
)


@cache
def _since(places: int) -> FrequentStatement:
    """Return the question for all after a number, and for as many rows as there are ``places``.

    One by one: for an array PostgreSQL expects ten rows where none or one come, finds its plan for
    any values more expensive than another, and so plans again for each request.
    """
    return FrequentStatement(text(_SINCE.format(_HEAD, or_in_places(places, "CAST({} AS bigint)"))))


def begin(connection: Connection) -> LogPosition:
    """Return the snapshot of this moment."""
    row = connection.exec_driver_sql(_HEAD).one()
    if row[2] is None:
        add_mark(connection, _position(row))
        row = connection.exec_driver_sql(_HEAD).one()
    return _position(row)


def since(connection: Connection, position: LogPosition) -> Changes:
    """Return what a snapshot did not see and is committed, by one statement."""
    awaited = position.awaited
    parameters = {"last": str(position.last), **in_places(awaited)}
    (row,) = _since(places_of(awaited)).rows(connection, parameters)
    _, server, oldest, newest, written = row
    known = oldest is not None and oldest <= position.mark <= newest
    if not known or not server or server != position.server:
        return in_doubt(position)
    after = _position(row)
    if after.last < position.last:
        return in_doubt(position)
    return changes(set(map(int, written.split(","))) if written else set(), after)


def _position(row: Any) -> LogPosition:
    _xmin, xmax, running = row[0].split(":")
    awaited = frozenset(map(int, running.split(","))) if running else frozenset[int]()
    return LogPosition(server=row[1], mark=row[3] or 0, last=int(xmax), awaited=awaited)
