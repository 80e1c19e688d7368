# SPDX-License-Identifier: Apache-2.0
"""Change counters: versions that show changes by other processes.

A writer increments (bumps) the counter of a subject, such as flavors, in the transaction that
changes the subject. A reader caches a value with the version that it read *before* loading the
value, and loads the value again when the version differs.

A Galera cluster (or MySQL's group replication) does not replicate locks. Of two concurrent
transactions that changed the same row, it commits only the first, and the second is retried
(doc/decisions/0013). A lock must therefore change a row. A subject has 16 more rows, its *shares*.
A transaction that locks a subject against bumps (:func:`hold_version`) changes a random share, so
that two of these transactions rarely conflict. A bump changes all shares.

Reports of 10 000 hosts per minute must not wait for a single row, and a reader must not read 1000
rows to find out that nothing changed. Hosts are therefore divided into 64 groups (parts), each with
a change counter. Every transaction that changes a node or service of a group increments its
counter. Only this service writes the tables of nodes and services, and their store modules record
each change (:func:`bump_hosts`).
"""

import random
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from sqlalchemy import Column, Connection, Integer, Update, func, select, text, update

from placement_sched.db import sql
from placement_sched.db.failover import ServerEpoch, get_epoch
from placement_sched.db.sql import insert_missing, is_certification_based
from placement_sched.db.tables import change_counters

T = TypeVar("T")
#: The version of a subject, and before it the epoch of the server (``db/failover.py``).
SubjectVersion = tuple[ServerEpoch, int]

_COLUMNS = change_counters.c
#: The subjects that :func:`hold_version` accepts: only these have shares.
SUBJECTS_WITH_SHARES = frozenset({"host_aggregates", "resource_classes"})
#: Number of shares of a subject: holders on two nodes conflict once in 16 times.
_SHARES = 16
#: Modulus of the version of a share, so that the column never overflows.
_MODULUS = 1_000_000
_SECOND = text("INTERVAL 1 SECOND")
#: Number of host groups. With this number, concurrent reports rarely wait for the same row.
HOST_PARTS = 64
_HOSTS = "hosts/"


def get_version(connection: Connection, subject: str) -> int:
    """Return the version of a subject, 0 before its first change."""
    value = connection.scalar(select(_COLUMNS.version).where(_COLUMNS.subject == subject))
    return int(value or 0)


class VersionedCache(Generic[T]):
    """Cached value that is loaded again if the version of its subject changed.

    Each use reads the version, a single row. The version is read before the value is loaded: a
    change in between is cached under the older version, so that the next use loads the value again.
    ``load`` is called with a connection and the version.
    """

    def __init__(self, subject: str, load: Callable[[Connection, SubjectVersion], T]) -> None:
        self._subject, self._load = subject, load
        self._cached: tuple[SubjectVersion, T] | None = None

    def get_current(self, connection: Connection) -> T:
        """Return the value, loaded again if the version has changed."""
        current_version = get_epoch(connection), get_version(connection, self._subject)
        cached = self._cached
        if cached is None or cached[0] != current_version:
            cached = self._cached = current_version, self._load(connection, current_version)
        return cached[1]

    @property
    def last(self) -> T | None:
        """The value loaded last, or None before the first load."""
        return self._cached and self._cached[1]


def bump(connection: Connection, subject: str) -> None:
    """Increment the version of a subject.

    The row of the version stays locked until the transaction ends. Concurrent writers are
    serialized if they bump the subject before they read.
    """
    statement = _raise_versions(connection, [subject])
    if not connection.execute(statement).rowcount:
        insert_missing(connection, change_counters, [{"subject": subject, "version": 0}])
        connection.execute(statement)


def bump_all(connection: Connection, subjects: Sequence[str]) -> None:
    """Increment the versions of several subjects, like :func:`bump`."""
    if not subjects:
        return
    if len(subjects) == 1:
        bump(connection, subjects[0])
        return
    is_named = _COLUMNS.subject.in_(subjects)
    # All writers lock in the same order, so that they cannot deadlock.
    locked = select(_COLUMNS.subject).where(is_named).order_by(_COLUMNS.subject).with_for_update()
    existing = set(connection.scalars(locked))
    missing = [{"subject": name, "version": 0} for name in subjects if name not in existing]
    insert_missing(connection, change_counters, missing)
    connection.execute(_raise_versions(connection, subjects))


def _raise_versions(connection: Connection, subjects: Iterable[str]) -> Update:
    rows = list(subjects)
    if is_certification_based(connection):
        rows += [
            share
            for subject in SUBJECTS_WITH_SHARES.intersection(rows)
            for share in _shares(subject)
        ]
    statement = update(change_counters).where(_COLUMNS.subject.in_(rows))
    return statement.values(version=_COLUMNS.version + 1)


def _shares(subject: str) -> list[str]:
    return [f"{subject}/held/{number}" for number in range(_SHARES)]


def hold_version(connection: Connection, subject: str) -> int:
    """Return the version of a subject, and lock it against bumps.

    The lock lasts until the transaction ends. Code that derives data from a subject takes it, so
    that it misses no concurrent change. Several transactions may hold a subject at the same time.
    """
    query = select(_COLUMNS.version).where(_COLUMNS.subject == subject).with_for_update(read=True)
    value = connection.scalar(query)
    if value is None:
        insert_missing(connection, change_counters, [{"subject": subject, "version": 0}])
        value = connection.scalar(query)
    prevent_remote_bumps(connection, subject)
    return int(value or 0)


def prevent_remote_bumps(connection: Connection, subject: str) -> None:
    """Prevent other nodes from bumping a subject until the transaction ends.

    The caller must already hold a lock against writers on this node. Does nothing on databases
    whose locks are sufficient.
    """
    if not is_certification_based(connection):
        return
    if subject not in SUBJECTS_WITH_SHARES:
        raise AssertionError(f"Subject {subject} has no share rows: add it to SUBJECTS_WITH_SHARES")
    chosen = random.choice(_shares(subject))  # noqa: S311 - so that conflicts are rare
    change = update(change_counters).where(_COLUMNS.subject == chosen)
    if not connection.execute(change.values(version=(_COLUMNS.version + 1) % _MODULUS)).rowcount:
        # A bump changes only existing shares, so the first holder changes the subject's row too.
        rows = [{"subject": name, "version": 0} for name in (subject, *_shares(subject))]
        insert_missing(connection, change_counters, rows)
        connection.execute(_raise_versions(connection, [subject]))


def prevent_remote_access(connection: Connection, subjects: Iterable[str]) -> None:
    """Prevent bumps and locks by others, like :func:`prevent_remote_bumps`."""
    if is_certification_based(connection):
        bump_all(connection, sorted(set(subjects)))


def make_lock_visible(connection: Connection, column: Column[Any], rows: sql.Condition) -> None:
    """Make the caller's lock of rows effective on other Galera nodes.

    Changes ``column`` (numbers or times) and changes it back. NULL becomes 0 or the current time.
    Does nothing on databases whose locks are sufficient.
    """
    if not sql.is_certification_based(connection):
        return
    step, default = (1, 0) if isinstance(column.type, Integer) else (_SECOND, func.utc_timestamp())
    current: Any = func.coalesce(column, default)
    for value in (current + step, current - step):
        connection.execute(update(column.table).where(rows).values({column.name: value}))


def compute_host_part(host: str) -> int:
    """Return the number of a host's group (part), which never changes."""
    return zlib.crc32(host.encode()) % HOST_PARTS


def map_host_versions(connection: Connection) -> Mapping[int, int]:
    """Map the groups of hosts that have ever changed to their versions.

    Data read afterwards is current as long as the versions of its groups are the same.
    """
    query = select(_COLUMNS.subject, _COLUMNS.version)
    rows = connection.execute(query.where(_COLUMNS.subject.startswith(_HOSTS, autoescape=True)))
    return {int(subject.removeprefix(_HOSTS)): version for subject, version in rows.all()}


def bump_hosts(connection: Connection, hosts: Iterable[str]) -> None:
    """Record that nodes or services of hosts change in this transaction."""
    parts = {compute_host_part(host) for host in hosts}
    bump_all(connection, [f"{_HOSTS}{part}" for part in sorted(parts)])
