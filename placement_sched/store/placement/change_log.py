# SPDX-License-Identifier: Apache-2.0
"""Change log: which providers were written, and when.

Triggers (``db/triggers.py``) write the log in the transactions of all services. A reader
that has loaded all providers keeps them current::

    position = change_log.begin(connection)
    ...  # load all providers
    changes = change_log.read(connection, position)
    ...  # load changes.providers again, and continue from changes.position

A row gets its id when it is written, not when its transaction commits, and each node of a Galera
cluster assigns its own ids. A row may therefore appear with a lower id than rows that were read
before. Each reading starts :data:`OVERLAP` seconds before the newest row, and drops rows that were
already read. The rows of longer transactions are late rows. Every few seconds
:func:`read_late_rows` detects them: it compares the number of all rows of the last hour with the
number of rows read. A long transaction of this service ends with a row that makes readers call
:func:`read_late_rows` at once.

If a row that was read is missing later, it was lost in a failover or by a restored backup, or has
not reached this node of a cluster yet. Connections must commit each statement, as in
``Database.read``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from time import monotonic
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import Connection

from placement_sched.db.sql import FrequentStatement, build_time
from placement_sched.db.tables import provider_changes
from placement_sched.db.triggers import (
    EVERYTHING,
    LONG,
    NAMES,
    find_missing_triggers,
    find_unsupported_reason,
)
from placement_sched.model.names import shorten_names

#: Seconds of the log that each reading repeats.
OVERLAP = 3.0
#: Seconds of the log that :func:`read_late_rows` compares, and seconds between two points that the
#: comparison may start from.
LATE_OVERLAP, LATE_STEP = 3600.0, 300.0
#: From this many rows or characters on, all providers are loaded again. The number of characters
#: is less than group_concat_max_len, which sessions on MariaDB set.
MAX_ROWS, MAX_CHARACTERS = 20_000, 1_000_000
#: Retention of rows, longer than any reader needs them.
KEEP = timedelta(hours=3)
#: Number of rows that one statement deletes, and maximum number of statements per call.
BATCH, BATCHES = 5000, 20

_COLUMNS = provider_changes.c
#: All rows as one text, as drivers written in Python are slow for each value. With two bounds,
#: because PostgreSQL expects a third of the table for one bound.
_ROWS = (
    "SELECT {} FROM sched_provider_changes "
    "WHERE id BETWEEN CAST(:first AS {}) AND 9223372036854775807"
)
_STATEMENTS = {
    kind: FrequentStatement(sa.text(_ROWS.format(texts, number)))
    for kind, texts, number in (
        ("postgresql", "string_agg(concat_ws(' ', id, provider_id, created_at), ',')", "bigint"),
        ("sqlite", "group_concat(id || ' ' || provider_id || ' ' || created_at)", "integer"),
        ("mysql", "GROUP_CONCAT(id, ' ', provider_id, ' ', created_at + 0)", "SIGNED"),
    )
}
_NEWEST = sa.select(sa.func.max(_COLUMNS.id))


@dataclass(frozen=True, slots=True)
class LogPosition:
    """The position of a reader in the change log.

    ``rows`` maps the rows already read above the id ``after``, as texts, to their ids. ``steps``
    are recent readings: pairs of a time by the monotonic clock and the highest id at that time.

    ``points`` serve to detect late rows: a time, an id, and the number of rows read up to this id
    since the first point, about an hour ago. ``count`` is this number for the id ``after``.
    """

    after: int
    rows: Mapping[str, int]
    steps: tuple[tuple[float, int], ...]
    points: tuple[tuple[float, int, int], ...]
    count: int = 0


@dataclass(frozen=True, slots=True)
class Changes:
    """The changes after a position, and the position to continue from.

    ``providers`` are the ids of the providers to load again, including deleted providers. The other
    attributes are flags. ``names``: traits, resource classes or aggregates were written.
    ``needs_full_reload``: all providers must be loaded again. ``lacks_rows``: rows that an earlier
    call read are missing. ``has_late_rows``: a long transaction has ended, whose rows
    :func:`read_late_rows` finds.
    """

    position: LogPosition
    providers: frozenset[int] = frozenset()
    names: bool = False
    needs_full_reload: bool = False
    lacks_rows: bool = False
    has_late_rows: bool = False

    @property
    def is_empty(self) -> bool:
        """Return whether nothing must be loaded again."""
        return not (self.providers or self.names or self.needs_full_reload)

    def merge(self, late: "Changes") -> "Changes":
        """Combine these changes with later changes, at the position of ``late``."""
        return replace(
            late,
            providers=self.providers | late.providers,
            names=self.names or late.names,
            needs_full_reload=self.needs_full_reload or late.needs_full_reload,
            lacks_rows=self.lacks_rows or late.lacks_rows,
        )


class ChangeLog(Protocol):
    """Functions of this module that readers of the log use."""

    def find_defect(self, connection: Connection) -> str | None:
        """Return why the log is unreliable, or None if it is reliable."""

    def begin(self, connection: Connection) -> Any:
        """Return a position from which :meth:`read` reports all later commits."""

    def read(self, connection: Connection, position: Any) -> Changes:
        """Return the changes committed after a position, with a single statement."""

    def read_late_rows(self, connection: Connection, position: Any) -> Changes:
        """Return changes that :meth:`read` missed because of long transactions."""


def begin(connection: Connection) -> LogPosition:
    """Return the position for later changes, before providers are loaded."""
    now = monotonic()
    start = _find_last_id_before(connection, LATE_OVERLAP)
    # After a transaction that wrote very many providers, its newest rows are enough.
    newest = connection.scalar(_NEWEST) or 0
    after = max(start, _find_last_id_before(connection, OVERLAP), newest - MAX_ROWS // 2)
    rows = {row: _parse_id(row) for row in _read_rows(connection, after + 1)}
    count = _count(connection, start, after)
    last = max(rows.values(), default=after)
    return LogPosition(after, rows, ((now, last),), ((now, start, 0),), count)


def read(connection: Connection, position: LogPosition) -> Changes:
    """Return the changes after a position, except late rows."""
    rows = _read_rows(connection, position.after + 1)
    if len(rows) >= MAX_ROWS or sum(map(len, rows)) >= MAX_CHARACTERS:
        return Changes(position, needs_full_reload=True)
    new = {row: _parse_id(row) for row in rows if row not in position.rows}
    if len(rows) - len(new) < len(position.rows):
        return Changes(position, lacks_rows=True)
    if not new and len(rows) <= 1:
        return Changes(position)
    providers = (int(row.split(" ", 2)[1]) for row in new)
    return _build_changes(_advance(position, {**position.rows, **new}), providers)


def read_late_rows(connection: Connection, position: LogPosition) -> Changes:
    """Return changes of transactions that were longer than :data:`OVERLAP`.

    A single statement detects late rows. If it finds late rows, all providers in the log of the
    last hour are returned.
    """
    _, start, _ = position.points[0]
    if _count(connection, start, position.after) == position.count:
        return Changes(position)
    query = sa.select(_COLUMNS.provider_id, sa.func.count()).group_by(_COLUMNS.provider_id)
    in_range = query.where(_COLUMNS.id > start, _COLUMNS.id <= position.after)
    counts: dict[int, int] = dict(map(tuple, connection.execute(in_range)))
    points = ((monotonic(), start, 0),)
    return _build_changes(replace(position, points=points, count=sum(counts.values())), counts)


def _build_changes(position: LogPosition, providers: Iterable[int]) -> Changes:
    written = frozenset(providers)
    if EVERYTHING in written:
        return Changes(position, needs_full_reload=True)
    return Changes(
        position,
        providers=written - {NAMES, LONG},
        names=NAMES in written,
        has_late_rows=LONG in written,
    )


def _advance(position: LogPosition, rows: Mapping[str, int]) -> LogPosition:
    now, last = monotonic(), max(rows.values())
    steps, points, after = list(position.steps), list(position.points), position.after
    if steps[-1][1] != last:
        steps.append((now, last))
    while len(steps) > 1 and now - steps[1][0] >= OVERLAP:
        steps.pop(0)
    if now - steps[0][0] >= OVERLAP:
        # The newest row stays, so that a lost log is noticed.
        after = max(after, min(steps[0][1], last - 1))
    remaining = {row: key for row, key in rows.items() if key > after}
    count = position.count + len(rows) - len(remaining)
    if now - points[-1][0] >= LATE_STEP:
        points.append((now, after, count))
    if len(points) > 1 and now - points[1][0] >= LATE_OVERLAP:
        points.pop(0)
        dropped = points[0][2]
        points = [(at, key, number - dropped) for at, key, number in points]
        count -= dropped
    return LogPosition(after, remaining, tuple(steps), tuple(points), count)


def _read_rows(connection: Connection, first: int) -> list[str]:
    kind = connection.dialect.name
    # As text, because PostgreSQL prepares a statement for each type of integer.
    parameters = {"first": str(first)}
    ((rows,),) = _STATEMENTS.get(kind, _STATEMENTS["mysql"]).fetch_rows(connection, parameters)
    return rows.split(",") if rows else []


def _parse_id(row: str) -> int:
    return int(row.partition(" ")[0])


def _count(connection: Connection, after: int, last: int) -> int:
    query = sa.select(sa.func.count()).select_from(provider_changes)
    count = connection.scalar(query.where(_COLUMNS.id > after, _COLUMNS.id <= last))
    return count or 0


def _find_last_id_before(connection: Connection, seconds: float) -> int:
    """Return the id of the last row that is at least ``seconds`` old, or 0.

    This id is less than the id of the newest row. Rows with higher ids may still be uncommitted.
    """
    is_old = sa.text(f"created_at < {build_time(connection, -seconds)}")
    last = sa.select(_COLUMNS.id).where(is_old).order_by(_COLUMNS.id.desc()).limit(1)
    newest = connection.scalar(_NEWEST) or 1
    return min(connection.scalar(last) or 0, newest - 1)


def trim(connection: Connection, keep: timedelta = KEEP) -> int:
    """Delete rows older than ``keep``, and return their number.

    The newest row stays. Several processes may call this function concurrently. Each statement
    takes some milliseconds.
    """
    last = _find_last_id_before(connection, keep.total_seconds())
    is_old = _COLUMNS.id <= last
    if connection.dialect.name in {"mysql", "mariadb"}:
        statement = sa.delete(provider_changes).where(is_old)
        statement = statement.with_dialect_options(mysql_limit=BATCH)
    else:
        oldest = sa.select(_COLUMNS.id).where(is_old).order_by(_COLUMNS.id).limit(BATCH)
        statement = sa.delete(provider_changes).where(_COLUMNS.id.in_(oldest))
    deleted = 0
    for _ in range(BATCHES):
        count = connection.execute(statement).rowcount
        deleted += count
        if count < BATCH:
            break
    return deleted


def find_defect(connection: Connection) -> str | None:
    """Return why the change log is unreliable and how to fix it, or None."""
    if not sa.inspect(connection).has_table(provider_changes.name):
        return "the table of the change log is missing. Run placement-sched db sync"
    if (reason := find_unsupported_reason(connection)) is not None:
        return reason
    if lacking := find_missing_triggers(connection):
        return (
            f"the database lacks the triggers {shorten_names(sorted(lacking))}. "
            "Run placement-sched db sync, which shows the reason if it cannot make them"
        )
    return None
