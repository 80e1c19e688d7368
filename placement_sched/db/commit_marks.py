# SPDX-License-Identifier: Apache-2.0
"""Commit marks: rows that show whether a transaction was committed.

The response to COMMIT may be lost (doc/decisions/0014). A writing transaction therefore inserts a
row with its own key, the mark::

    mark_commit(connection, mark)   # sets commit_with, the INSERT and the COMMIT
    connection.commit()             # sends commit_with (replace_commits)
    is_done(read, mark)             # after a lost response

:func:`is_done` inserts the missing mark as rejected, so that the transaction can no longer commit.
"""

import random
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Engine, delete, select, text

from placement_sched.db import sql
from placement_sched.db.tables import commit_marks
from placement_sched.errors import CommitUnknown, Unavailable

#: Seconds after which the result of a lost COMMIT is no longer queried.
MAX_COMMIT_QUERY_TIME = 10.0
#: Maximum pause between two such queries, in seconds.
_MAX_PAUSE = 0.5
#: Minutes after which commit marks are deleted: marks of committed transactions, and of
#: transactions that can no longer be committed.
MINUTES_OF_COMMITTED, MINUTES_OF_REJECTED = 15, 24 * 60
#: Marks deleted by a statement, and maximum number of statements in a call.
_BATCH, _MAX_BATCHES = 5000, 20

_INTO = "INTO sched_commit_marks (id, created_at, done)"
# Keys of marks ascend, so that inserts of short-lived rows stay at the end of the index.
_INSERT_MARK = {
    # A transaction without an id has written nothing and may be repeated.
    "postgresql": f"INSERT {_INTO} SELECT '%s', timezone('UTC', now()), 1 "
    "WHERE txid_current_if_assigned() IS NOT NULL",
    "mysql": f"INSERT {_INTO} VALUES ('%s', UTC_TIMESTAMP(6), 1)",  # noqa: S608 - new_mark
}
_INSERT_REJECTION = {
    # Always a write, so that its COMMIT waits for a synchronous standby. The standby may lack the
    # existing mark if the server was restarted while the mark's COMMIT waited.
    "postgresql": "INSERT INTO sched_commit_marks (id, created_at, done) "
    "VALUES (:mark, timezone('UTC', now()), 0) "
    "ON CONFLICT (id) DO UPDATE SET done = sched_commit_marks.done",
    # For an unchanged row MariaDB writes no ROW event, and waits for no replica.
    "mysql": "INSERT INTO sched_commit_marks (id, created_at, done) "
    "VALUES (:mark, UTC_TIMESTAMP(6), 0) "
    "ON DUPLICATE KEY UPDATE created_at = created_at + INTERVAL 1 MICROSECOND",
}
# A mark beyond the age limit is old, or was written before the database's clock was set forward. A
# mark in the future was written before the clock was set back. Old marks must also be older than
# the last call, because a newer mark may still be queried.
_FIND_OLD_MARKS = text(
    "SELECT id FROM sched_commit_marks WHERE created_at < :last AND "
    "(created_at < :done AND done = 1 OR created_at < :rejected) OR created_at > :ahead "
    "ORDER BY id LIMIT :most"
)

#: Opens a connection that commits each statement.
_Read = Callable[[], AbstractContextManager[Connection]]


def create_mark() -> str:
    """Create a unique commit mark for a transaction: later marks are larger."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def mark_commit(connection: Connection, mark: str) -> None:
    """Make the COMMIT of this transaction also insert ``mark``.

    Only a transaction that has written gets a mark: the driver class of MariaDB records it, and
    PostgreSQL's INSERT checks it itself.
    """
    dialect = connection.dialect.name
    driver: Any = connection.connection.driver_connection
    if dialect == "postgresql" or driver.has_written:
        driver.commit_with = f"{_INSERT_MARK[dialect] % mark}; COMMIT"


def replace_commits(engine: Engine) -> None:
    """Make an engine send the SQL in ``commit_with`` for COMMIT, if set.

    ``commit_with`` and ``has_written`` are attributes of the driver's connection, and are reset at
    the end of each transaction.
    """
    dialect: Any = engine.dialect
    commit, rollback, error = dialect.do_commit, dialect.do_rollback, dialect.loaded_dbapi.Error

    def do_commit(connection: Any) -> None:
        driver = connection.dbapi_connection
        if query := getattr(driver, "commit_with", None):
            try:
                with closing(connection.cursor()) as cursor:
                    cursor.execute(query)
            except error:  # COMMIT was not executed
                with suppress(error):
                    do_rollback(connection)
                raise
        else:
            commit(connection)
        driver.commit_with, driver.has_written = None, False

    def do_rollback(connection: Any) -> None:
        driver = connection.dbapi_connection
        driver.commit_with, driver.has_written = None, False
        rollback(connection)

    dialect.do_commit, dialect.do_rollback = do_commit, do_rollback


def is_done(read: _Read, mark: str) -> bool:
    """Return whether the transaction with a commit mark was committed.

    If the result is False, the transaction can no longer be committed. Raises
    :class:`CommitUnknown` if the database does not answer in time.
    """
    until = time.monotonic() + MAX_COMMIT_QUERY_TIME
    pause = 0.01
    while True:
        try:
            with read() as connection:
                reject = text(_INSERT_REJECTION[connection.dialect.name])
                connection.execute(reject, {"mark": mark})
                is_committed = select(commit_marks.c.done).where(commit_marks.c.id == mark)
                return bool(connection.scalars(is_committed).one())
        except Unavailable as failure:
            if time.monotonic() >= until:
                raise CommitUnknown(
                    "the connection to the database was lost during COMMIT, and it is not known "
                    f"whether the transaction was committed: {failure.detail}"
                ) from failure
        time.sleep(random.uniform(0.5, 1) * pause)  # noqa: S311 - jitter
        pause = min(2 * pause, _MAX_PAUSE)


def forget_old_marks(connection: Connection, last: datetime | None) -> datetime:
    """Delete old commit marks in batches, and return the database's time.

    Call it for maintenance between requests, with a connection that commits each statement, and at
    most once a minute. ``last`` is the time that the previous call returned. With None nothing is
    deleted.
    """
    now: datetime = connection.scalar(text(f"SELECT {sql.build_time(connection)}"))
    if last is None:
        return now
    rejected_age = timedelta(minutes=MINUTES_OF_REJECTED)
    times = {"last": last, "done": now - timedelta(minutes=MINUTES_OF_COMMITTED)}
    times |= {"rejected": now - rejected_age, "ahead": max(now, last) + rejected_age}
    for _ in range(_MAX_BATCHES):
        # Found without a lock, so that the statement waits for no running transaction.
        ids = connection.execute(_FIND_OLD_MARKS, {**times, "most": _BATCH}).scalars().all()
        if ids:
            connection.execute(delete(commit_marks).where(commit_marks.c.id.in_(ids)))
        if len(ids) < _BATCH:
            break
    return now
