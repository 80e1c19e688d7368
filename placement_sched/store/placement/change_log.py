"""The log of changes: which providers were written since a moment, whatever service wrote them.

Triggers write it in the writers' transactions (``db/change_triggers.py``). What has read the whole
cloud keeps it up to date by reading again the providers that the log names::

    position = change_log.begin(connection)
    ...  # read the whole cloud
    changes = change_log.since(connection, position)
    ...  # read changes.providers again, and go on from changes.position

No committed change is missed, in whatever order transactions end. The connections must commit each
statement, as those of ``Database.read`` do.

Rows are deleted after an hour. That goes by *marks*, positions that were written down at a time:
what a mark was shown may go once the mark is old enough, and a reader whose position is older than
the oldest mark that is left is in doubt.
"""

from datetime import timedelta

import sqlalchemy as sa
from sqlalchemy import Connection

from placement_sched.db.change_triggers import TURNS, missing_triggers, why_unsupported
from placement_sched.db.tables import change_marks, change_turns, provider_changes
from placement_sched.model.naming import in_short
from placement_sched.store.placement import change_numbers, change_snapshots
from placement_sched.store.placement.change_positions import (
    Changes,
    LogPosition,
    Mark,
    add_mark,
    marks,
    remove_marks_before,
    time_there,
)

__all__ = ["Changes", "LogPosition", "begin", "is_kept", "since", "trim", "why_not_kept"]

#: How long rows stay at least, and how often a mark is made.
KEEP, SPACING = timedelta(hours=1), timedelta(minutes=10)
#: Rows that one statement deletes, and the most statements of one call.
BATCH, BATCHES = 5000, 20


def begin(connection: Connection) -> LogPosition:
    """Return a position to read changes from, to be taken before everything is read.

    On MariaDB the first of all waits for the transactions that are at work, half a minute at most.
    """
    if connection.dialect.name == "postgresql":
        return change_snapshots.begin(connection)
    return change_numbers.begin(connection)


def since(connection: Connection, position: LogPosition) -> Changes:
    """Return what was committed since a position was returned: as a rule by one statement."""
    if connection.dialect.name == "postgresql":
        return change_snapshots.since(connection, position)
    return change_numbers.since(connection, position)


def trim(
    connection: Connection,
    position: LogPosition,
    *,
    keep: timedelta = KEEP,
    spacing: timedelta = SPACING,
) -> int:
    """Delete rows that are old, some at a time, and make a mark if it is time to; return how many.

    ``position`` is one that was returned a moment ago. For upkeep between requests, by any number
    of processes: each delete takes some milliseconds.
    """
    there, now = marks(connection), time_there(connection)
    # A newest mark of the future was made before the clock of the database went back.
    if not there or not timedelta() <= now - there[-1].created_at < spacing:
        add_mark(connection, position)
    old = [mark for mark in there if mark.created_at + keep <= now]
    if not old:
        return 0
    # First the marks: a reader that needs what is deleted then is in doubt already.
    remove_marks_before(connection, old[-1])
    deleted = 0
    for _ in range(BATCHES):
        count = _delete_shown(connection, old[-1])
        deleted += count
        if count < BATCH:
            break
    return deleted


def _delete_shown(connection: Connection, mark: Mark) -> int:
    """Delete some of the rows that a mark was shown, but the last, by which it is known."""
    columns = provider_changes.c
    shown = sa.and_(columns.id < mark.last, columns.id.not_in(sorted(mark.awaited)))
    if connection.dialect.name in {"mysql", "mariadb"}:
        some = sa.delete(provider_changes).where(shown).with_dialect_options(mysql_limit=BATCH)
        return connection.execute(some).rowcount
    oldest = sa.select(columns.id).where(shown).order_by(columns.id).limit(BATCH)
    return connection.execute(sa.delete(provider_changes).where(columns.id.in_(oldest))).rowcount


def is_kept(connection: Connection) -> bool:
    """Return whether each change is in the log, and can be read from it exactly."""
    return why_not_kept(connection) is None


def why_not_kept(connection: Connection) -> str | None:
    """Return why the log of changes cannot be relied upon, and what to do; None where it can."""
    inspector = sa.inspect(connection)
    tables = (provider_changes, change_marks, change_turns)
    if not all(inspector.has_table(table.name) for table in tables):
        return "the tables of the log of changes are not there; run placement-sched db sync"
    if (reason := why_unsupported(connection)) is not None:
        return reason
    if lacking := missing_triggers(connection):
        return (
            f"the database lacks the triggers {in_short(sorted(lacking))}; run placement-sched db "
            "sync, which says why where it cannot make them"
        )
    if connection.dialect.name in {"postgresql", "sqlite"}:
        return None
    there = connection.execute(sa.select(sa.func.count()).select_from(change_turns)).scalar_one()
    return None if there == TURNS else f"{change_turns.name} has other rows"
