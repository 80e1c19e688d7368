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
from sqlalchemy.exc import DBAPIError

from placement_sched.db.change_triggers import LOGGED, TURNS, missing_triggers
from placement_sched.db.tables import change_marks, change_turns, provider_changes
from placement_sched.model.naming import in_short
from placement_sched.store.placement import change_numbers, change_snapshots
from placement_sched.store.placement.change_gaps import free_turns
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
    if not there or there[-1].created_at + spacing <= now:
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
    """Return why the log of changes cannot be relied upon; None where it can."""
    inspector = sa.inspect(connection)
    tables = (provider_changes, change_marks, change_turns)
    if not all(inspector.has_table(table.name) for table in tables):
        return "its tables are not there (placement-sched db sync)"
    if lacking := missing_triggers(connection):
        return f"the database lacks the triggers {in_short(sorted(lacking))}"
    if connection.dialect.name == "postgresql":
        standby = connection.exec_driver_sql("SELECT pg_is_in_recovery()").scalar_one()
        return "the server is a standby" if standby else None
    return None if connection.dialect.name == "sqlite" else _why_not_on_mariadb(connection)


def _why_not_on_mariadb(connection: Connection) -> str | None:
    variables = {
        str(name).lower(): str(value).upper()
        for name, value in connection.exec_driver_sql(
            "SHOW VARIABLES WHERE Variable_name IN ('wsrep_on', 'wsrep_provider', "
            "'auto_increment_increment', 'read_only')"
        )
    }
    # The rows of other nodes come in no order of their numbers, and take no turns here.
    if variables.get("wsrep_on") == "ON" and variables.get("wsrep_provider") != "NONE":
        return "the server is a node of a Galera cluster"
    if variables.get("auto_increment_increment") != "1":
        return "auto_increment_increment is not 1: other servers write, too"
    if variables.get("read_only", "OFF") != "OFF":
        return "the server is read-only: another one writes"
    cascading = connection.execute(_CASCADING, {"tables": LOGGED}).scalars().all()
    if cascading:
        return f"triggers do not see what the foreign keys {in_short(cascading)} change"
    try:
        turns = free_turns(connection)
    except DBAPIError as failure:
        return f"the server cannot skip locked rows ({failure.orig})"
    there = connection.execute(sa.select(sa.func.count()).select_from(change_turns)).scalar_one()
    return None if there == TURNS >= len(turns) else f"{change_turns.name} has other rows"


_CASCADING = sa.text(
    "SELECT constraint_name FROM information_schema.referential_constraints "
    "WHERE constraint_schema = DATABASE() AND table_name IN :tables AND "
    "(update_rule NOT IN ('RESTRICT', 'NO ACTION') OR delete_rule NOT IN ('RESTRICT', 'NO ACTION'))"
).bindparams(sa.bindparam("tables", expanding=True))
