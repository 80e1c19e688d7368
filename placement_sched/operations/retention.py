"""Keeps the log of changes short, and the marks of transactions: what is old is deleted."""

from datetime import datetime
from functools import partial
from threading import Lock
from time import monotonic

from oslo_log import log

from placement_sched.db.leases import Lease
from placement_sched.db.transaction import Connection, Database, forget_old_marks
from placement_sched.errors import Error, sentence
from placement_sched.model.decision import DecisionsWanted
from placement_sched.operations import Progress
from placement_sched.store import decisions
from placement_sched.store.placement import change_log

LOG = log.getLogger(__name__)

#: Seconds between two deletions.
PAUSE = 60.0
#: For so many seconds one process does it for all.
LEASE = 150


class LogUpkeep:
    """Deletes old rows of the log of changes, and old marks, now and then; for any thread.

    Called before every request and between requests, it costs one look at the clock as a rule. One
    process of all servers does it, as long as it lives. Failures are logged, and tried again later.
    """

    #: The database's time when this process last looked for old marks.
    _looked: datetime | None = None

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lease = Lease(database, "log upkeep", LEASE)
        self._turn = Lock()
        self._next = monotonic() + PAUSE

    def __call__(self) -> None:
        """Delete what is old, where there is any and it is time to."""
        database = self._database
        if not (database.logs_changes or database.marks_commits) or monotonic() < self._next:
            return
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._next = monotonic() + PAUSE
            if not self._lease.is_held():
                return
            with database.read() as connection:
                if database.marks_commits:
                    self._looked = forget_old_marks(connection, self._looked)
                if database.logs_changes and change_log.why_not_kept(connection) is None:
                    change_log.trim(connection)
        except Error as failure:
            LOG.warning("old rows were not deleted: %s", sentence(failure))
        finally:
            self._turn.release()


#: How many are deleted in one transaction.
AT_ONCE = 500


def purge_decisions(
    database: Database, wanted: DecisionsWanted, progress: Progress, *, dry_run: bool = False
) -> int:
    """Delete the decisions wanted, the oldest first; return how many.

    ``wanted.until`` says up to which time. With ``dry_run`` they are counted only. It can be
    interrupted and run again: what was deleted until then is gone.
    """
    until = wanted.until
    if until is None:
        raise AssertionError("decisions are deleted up to a time")
    with database.read() as connection:
        number = decisions.count(connection, wanted)
    if dry_run:
        return number
    # Of all decisions up to a time, what nova did beside those that were not recorded goes as well.
    narrower = None if wanted == DecisionsWanted(until=until) else wanted
    deleted = 0
    while True:
        progress(deleted, max(number, deleted))
        batch_count = database.write(partial(_purge, until=until, wanted=narrower))
        deleted += batch_count
        if batch_count < AT_ONCE:
            return deleted


def _purge(connection: Connection, until: datetime, wanted: DecisionsWanted | None) -> int:
    return decisions.purge(connection, until, AT_ONCE, wanted)
