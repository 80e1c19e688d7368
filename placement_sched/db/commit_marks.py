"""Marks that transactions leave, so that one whose COMMIT had no answer is known to be done or not.

A connection may be lost after COMMIT was sent and before it was answered. To run the work again
would meet its own first run, and be refused for that. So each transaction that has written inserts
a row into ``sched_commit_marks``, sent along with COMMIT as one query: no round trip more, and the
row is there if and only if the rest is, on whatever server the next connection leads to.

Where the answer is lost, a row of the same key is inserted that says that the transaction is *not*
done. The database lets it wait while the transaction is at work, and then one of both rows is
there: where it is ours, the COMMIT can never succeed, not even one that is still under way
(doc/decisions/0023).
"""

import random
import secrets
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, text

from placement_sched.db.tables import commit_marks
from placement_sched.errors import CommitUnknown, Unavailable

#: Seconds for which the database is asked whether a transaction is done, before that is given up.
PATIENCE = 10.0
#: The longest pause between two questions, in seconds.
_PAUSE = 0.5
#: Minutes for which marks are kept: of what is done, and of what never will be.
KEPT, REFUSED_KEPT = 15, 24 * 60
#: Marks that one statement deletes, and the most statements of one call.
_BATCH, _BATCHES = 5000, 20

_INTO = "INTO sched_commit_marks (id, created_at, done)"
# Marks are short-lived and their keys ascend, so that inserts stay at one end of the index.
_MARKED = {
    # What has no number has written nothing: it may be done again.
    "postgresql": f"INSERT {_INTO} SELECT '%s', timezone('UTC', now()), 1 "
    "WHERE txid_current_if_assigned() IS NOT NULL",
    "mysql": f"INSERT {_INTO} VALUES ('%s', UTC_TIMESTAMP(6), 1)",  # noqa: S608 - new_mark
}
_REFUSED = {
    # It writes in any case, so that its own COMMIT waits for a synchronous standby, which may lack
    # the mark that is there: the server was restarted while the mark's COMMIT waited.
    "postgresql": "INSERT INTO sched_commit_marks (id, created_at, done) "
    "VALUES (:mark, timezone('UTC', now()), 0) "
    "ON CONFLICT (id) DO UPDATE SET done = sched_commit_marks.done",
    # Where a row stays as it is, MariaDB logs no event by ROW, and waits for no replica.
    "mysql": "INSERT INTO sched_commit_marks (id, created_at, done) "
    "VALUES (:mark, UTC_TIMESTAMP(6), 0) "
    "ON DUPLICATE KEY UPDATE created_at = created_at + INTERVAL 1 MICROSECOND",
}
_DONE = text("SELECT done FROM sched_commit_marks WHERE id = :mark")
# A mark that is older than the limit is of yesterday, or made before the clock of the database was
# set forward; what is dated far ahead was made before it was set back. What may be asked for was
# made since the last look: so the times of both looks must say that a mark is not of these moments.
_OF_OLD = text(
    "SELECT id FROM sched_commit_marks WHERE created_at < :last AND "
    "(created_at < :done AND done = 1 OR created_at < :refused) OR created_at > :ahead "
    "ORDER BY id LIMIT :most"
)
_NOW = {"postgresql": "SELECT timezone('UTC', now())", "mysql": "SELECT UTC_TIMESTAMP(6)"}

#: Gives a connection that commits each statement.
_Read = Callable[[], AbstractContextManager[Connection]]


def new_mark() -> str:
    """Return a key that no other transaction has; later ones sort after it."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def mark_commit(connection: Connection, mark: str) -> None:
    """Let the transaction of a connection leave ``mark`` when it is committed."""
    driver: Any = connection.connection.driver_connection
    driver.commit_with = f"{_MARKED[connection.dialect.name] % mark}; COMMIT"


def is_done(read: _Read, mark: str) -> bool:
    """Return whether the transaction of this mark is done; where not, it never will be.

    Raises :class:`CommitUnknown` where the database does not say so in time.
    """
    until = time.monotonic() + PATIENCE
    pause = 0.01
    while True:
        try:
            with read() as connection:
                return _settled(connection, mark)
        except Unavailable as failure:
            if time.monotonic() >= until:
                raise CommitUnknown(
                    "the connection to the database was lost while the write was committed, so "
                    f"that it is not known whether it was done: {failure.detail}"
                ) from failure
        time.sleep(random.uniform(0.5, 1) * pause)  # noqa: S311 - jitter
        pause = min(2 * pause, _PAUSE)


def _settled(connection: Connection, mark: str) -> bool:
    refuse = text(_REFUSED[connection.dialect.name])
    connection.execute(refuse, {"mark": mark})
    return bool(connection.execute(_DONE, {"mark": mark}).scalar_one())


def forget_old_marks(connection: Connection, last: datetime | None) -> datetime:
    """Delete marks that are not asked for any more, some at a time; return the database's time.

    For upkeep between requests, on a connection that commits each statement. ``last`` is what was
    returned a minute ago or more; at the first time, None, nothing is deleted.
    """
    now: datetime = connection.exec_driver_sql(_NOW[connection.dialect.name]).scalar_one()
    if last is None:
        return now
    kept, refused_kept = timedelta(minutes=KEPT), timedelta(minutes=REFUSED_KEPT)
    times = {"last": last, "done": now - kept, "refused": now - refused_kept}
    times["ahead"] = max(now, last) + refused_kept
    for _ in range(_BATCHES):
        # Found first, without a lock, so that no transaction at work is waited for.
        ids = connection.execute(_OF_OLD, {**times, "most": _BATCH}).scalars().all()
        if ids:
            connection.execute(delete(commit_marks).where(commit_marks.c.id.in_(ids)))
        if len(ids) < _BATCH:
            break
    return now
