"""Change counters: how one process learns that another changed what it remembers.

A writer bumps the counter of a subject in the transaction that changes the subject; a reader keeps
what it made of the subject together with the version it read *before* loading it, and loads again
once the version is another.
"""

from collections.abc import Sequence

from sqlalchemy import Connection, select, update

from placement_sched.db.sql import insert_missing
from placement_sched.db.tables import change_counters

_COLUMNS = change_counters.c


def version(connection: Connection, subject: str) -> int:
    """Return the version of a subject; 0 before its first change."""
    found = connection.scalar(select(_COLUMNS.version).where(_COLUMNS.subject == subject))
    return int(found or 0)


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
    rise = (
        update(change_counters)
        .where(_COLUMNS.subject == subject)
        .values(version=_COLUMNS.version + 1)
    )
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
    rise = update(change_counters).where(some).values(version=_COLUMNS.version + 1)
    connection.execute(rise)


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
    return int(found or 0)
