# SPDX-License-Identifier: Apache-2.0
"""Deletion of old rows: change log, transaction ids, decisions."""

from datetime import datetime
from functools import partial
from threading import Lock
from time import monotonic

from oslo_log import log

from placement_sched.db.leases import Lease
from placement_sched.db.transaction import Database, forget_old_marks
from placement_sched.errors import Error, sentence
from placement_sched.model.decision import DecisionQuery
from placement_sched.operations import Progress
from placement_sched.store import decisions
from placement_sched.store.placement import change_log

LOG = log.getLogger(__name__)

#: Seconds between two deletions.
PAUSE = 60.0
#: Seconds for which a process holds the lease.
LEASE = 150
#: Maximum number of decisions deleted per transaction.
_BATCH = 500


class LogRetention:
    """Periodic deletion of old rows of the change log and transaction ids.

    Any thread may call the task, before and between requests. Most calls only read the clock. A
    lease selects a single process of all servers. Failures are logged and retried later.
    """

    #: Time of the database when this process last deleted transaction ids.
    _checked_at: datetime | None = None

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lease = Lease(database, "log upkeep", LEASE)
        self._lock = Lock()
        self._next = monotonic() + PAUSE

    def __call__(self) -> None:
        """Delete old rows if it is due."""
        database = self._database
        if not (database.logs_changes or database.marks_commits) or monotonic() < self._next:
            return
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._next = monotonic() + PAUSE
            if not self._lease.is_held():
                return
            with database.read() as connection:
                if database.marks_commits:
                    self._checked_at = forget_old_marks(connection, self._checked_at)
                if database.logs_changes and change_log.reason_without_log(connection) is None:
                    change_log.trim(connection)
        except Error as failure:
            LOG.warning("old rows were not deleted: %s", sentence(failure))
        finally:
            self._lock.release()


def purge_decisions(
    database: Database, wanted: DecisionQuery, progress: Progress, *, dry_run: bool = False
) -> int:
    """Delete decisions up to ``wanted.until`` and return their number.

    With ``dry_run`` the decisions are only counted. The deletion can be interrupted and repeated.
    """
    until = wanted.until
    if until is None:
        raise AssertionError("decisions are deleted up to a time")
    with database.read() as connection:
        number = decisions.count(connection, wanted)
    if dry_run:
        return number
    # Without further conditions, the outcomes of nova without a decision are also deleted.
    narrower = None if wanted == DecisionQuery(until=until) else wanted
    purge = partial(decisions.purge, before=until, limit=_BATCH, wanted=narrower)
    deleted = 0
    while True:
        progress(deleted, max(number, deleted))
        batch_count = database.write(purge)
        deleted += batch_count
        if batch_count < _BATCH:
            return deleted
