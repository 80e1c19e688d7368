# SPDX-License-Identifier: Apache-2.0
"""Deletion of old rows: change log, transaction ids, decisions."""

from datetime import datetime
from functools import partial

from placement_sched.db.leases import Lease
from placement_sched.db.transaction import Database, forget_old_marks
from placement_sched.model.decision import DecisionQuery
from placement_sched.operations import Progress
from placement_sched.operations.periodic import PAUSE, PeriodicTask
from placement_sched.store import decisions
from placement_sched.store.placement import change_log

#: Seconds for which a process holds the lease.
LEASE = 150
#: Maximum number of decisions deleted per transaction.
_BATCH = 500


class LogRetention(PeriodicTask):
    """Periodic deletion of old rows of the change log and transaction ids.

    A lease selects a single process of all servers.
    """

    failure = "old rows were not deleted"
    #: Time of the database when this process last deleted transaction ids.
    _checked_at: datetime | None = None

    def __init__(self, database: Database) -> None:
        super().__init__(delay=PAUSE)
        self._database = database
        self._lease = Lease(database, "log upkeep", LEASE)

    def is_due(self) -> bool:
        """Return whether the database has any of these rows."""
        return self._database.logs_changes or self._database.marks_commits

    def run_round(self) -> None:
        """Delete old rows, unless another process holds the lease."""
        if not self._lease.is_held():
            return
        database = self._database
        with database.read() as connection:
            if database.marks_commits:
                self._checked_at = forget_old_marks(connection, self._checked_at)
            if database.logs_changes and change_log.reason_without_log(connection) is None:
                change_log.trim(connection)


def purge_decisions(
    database: Database, wanted: DecisionQuery, progress: Progress, *, dry_run: bool = False
) -> int:
    """Delete matching decisions up to ``wanted.until``, and return their number.

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
