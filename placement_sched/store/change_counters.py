"""Change counters: how one process learns that another changed what it remembers.

A writer bumps the counter of a subject in the transaction that changes the subject; a reader keeps
what it made of the subject together with the version it read *before* loading it, and loads again
once the version is another.

On MariaDB and MySQL a lock must change a row to be a lock: the nodes of a Galera cluster (or of
MySQL's group replication) learn of no lock, but let only one of two transactions be committed
that changed the same row, and start the other one again (doc/decisions/0022). A bump changes a row
of itself. Who holds a subject changes one of its *shares*, so that many may hold it at once, and a
bump changes all of them.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, Connection, Integer, Update, func, select, text, update

from placement_sched.db import sql
from placement_sched.db.failover import History, history_of
from placement_sched.db.sql import certifies, insert_missing
from placement_sched.db.tables import change_counters

T = TypeVar("T")
#: The version of a subject, in the history of the database that it is of.
SubjectVersion = tuple[History, int]

_COLUMNS = change_counters.c
#: The subjects that may be held: only they have shares.
HELD = frozenset({"host_aggregates", "resource_classes"})
#: How many shares one subject has: two that hold it on different nodes meet in one of so many.
_SHARES = 16
#: A share's version says only that the row changed: it begins again before the column is full.
_ROUND = 1_000_000


def version(connection: Connection, subject: str) -> int:
    """Return the version of a subject; 0 before its first change."""
    found = connection.scalar(select(_COLUMNS.version).where(_COLUMNS.subject == subject))
    return int(found or 0)


class VersionedCache(Generic[T]):
    """A value that one process keeps as long as the version of a subject is the same.

    Each use reads the version, one row, and loads the value again only if it is another. It is read
    before the value: a change that comes between is loaded under the older version, so that the
    next use loads once more. ``load`` takes a connection and the version.
    """

    def __init__(self, subject: str, load: Callable[[Connection, SubjectVersion], T]) -> None:
        self._subject, self._load = subject, load
        self._known: tuple[SubjectVersion, T] | None = None

    def current(self, connection: Connection) -> T:
        """Return the value as it is now."""
        now = history_of(connection), version(connection, self._subject)
        known = self._known
        if known is None or known[0] != now:
            known = self._known = now, self._load(connection, now)
        return known[1]

    @property
    def last(self) -> T | None:
        """The value that was loaded last; None if there is none yet."""
        return self._known and self._known[1]


def versions(connection: Connection, prefix: str) -> dict[str, int]:
    """Return the versions of all subjects that begin so, by subject, where they ever changed."""
    begins_so = _COLUMNS.subject.startswith(prefix, autoescape=True)
    found = connection.execute(select(_COLUMNS.subject, _COLUMNS.version).where(begins_so))
    return dict(map(tuple, found.all()))


def bump(connection: Connection, subject: str) -> None:
    """Raise the version of a subject.

    The row stays locked until the transaction ends, so writers that bump first take turns, and
    what they read afterwards no other of them changes under their hands.
    """
    rise = _rise(connection, [subject])
    if not connection.execute(rise).rowcount:
        insert_missing(connection, change_counters, [{"subject": subject, "version": 0}])
        connection.execute(rise)


def bump_all(connection: Connection, subjects: Sequence[str]) -> None:
    """Raise the versions of several subjects, as :func:`bump` does; one is one statement."""
    if not subjects:
        return
    if len(subjects) == 1:
        bump(connection, subjects[0])
        return
    some = _COLUMNS.subject.in_(subjects)
    # In one order for all writers, so that no two wait for each other.
    locked = select(_COLUMNS.subject).where(some).order_by(_COLUMNS.subject).with_for_update()
    there = set(connection.scalars(locked))
    missing = [{"subject": one, "version": 0} for one in subjects if one not in there]
    insert_missing(connection, change_counters, missing)
    connection.execute(_rise(connection, subjects))


def _rise(connection: Connection, subjects: Iterable[str]) -> Update:
    """Return what raises the versions of subjects, and changes the shares of those that hold."""
    rows = list(subjects)
    if certifies(connection):
        rows += [share for subject in HELD.intersection(rows) for share in _shares(subject)]
    rise = update(change_counters).where(_COLUMNS.subject.in_(rows))
    return rise.values(version=_COLUMNS.version + 1)


def _shares(subject: str) -> list[str]:
    return [f"{subject}/held/{number}" for number in range(_SHARES)]


def hold(connection: Connection, subject: str) -> int:
    """Return the version of a subject and keep it from being bumped until the transaction ends.

    For code that derives something from the subject and must not miss a change that is under way.
    Several may hold at once.
    """
    query = select(_COLUMNS.version).where(_COLUMNS.subject == subject).with_for_update(read=True)
    found = connection.scalar(query)
    if found is None:
        insert_missing(connection, change_counters, [{"subject": subject, "version": 0}])
        found = connection.scalar(query)
    share(connection, subject)
    return int(found or 0)


def share(connection: Connection, subject: str) -> None:
    """Let no other node bump a subject meanwhile, where a lock keeps writers here from it.

    Does nothing where locks are all that is needed.
    """
    if not certifies(connection):
        return
    if subject not in HELD:
        raise AssertionError(f"{subject} has no shares: name it in HELD")
    mine = random.choice(_shares(subject))  # noqa: S311 - so that few meet
    change = update(change_counters).where(_COLUMNS.subject == mine)
    if not connection.execute(change.values(version=(_COLUMNS.version + 1) % _ROUND)).rowcount:
        # A bump changes those shares that are there: the first to hold changes what all do.
        rows = [{"subject": one, "version": 0} for one in (subject, *_shares(subject))]
        insert_missing(connection, change_counters, rows)
        connection.execute(_rise(connection, [subject]))


def exclude(connection: Connection, subjects: Iterable[str]) -> None:
    """Let no other node bump, share or exclude these subjects meanwhile; else as :func:`share`."""
    if certifies(connection):
        bump_all(connection, sorted(set(subjects)))


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
