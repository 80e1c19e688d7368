"""Keeps the log of changes short: what every process has read by now is deleted."""

from threading import Lock
from time import monotonic

from oslo_log import log

from placement_sched.db.transaction import Database
from placement_sched.errors import Error, sentence
from placement_sched.store.placement import change_log

LOG = log.getLogger(__name__)

#: Seconds between two deletions by one process.
PAUSE = 60.0


class LogUpkeep:
    """Deletes old rows of the log of changes now and then; for any number of threads.

    Called before every request and between requests, it costs one look at the clock as a rule.
    Failures are logged, and tried again later.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = Lock()
        self._next = monotonic() + PAUSE

    def __call__(self) -> None:
        """Delete what is old, where there is a log and it is time to."""
        if not self._database.logs_changes or monotonic() < self._next:
            return
        if not self._turn.acquire(blocking=False):
            return
        try:
            self._next = monotonic() + PAUSE
            with self._database.read() as connection:
                if change_log.is_kept(connection):
                    change_log.trim(connection, change_log.begin(connection))
        except Error as failure:
            LOG.warning("the log of changes was not trimmed: %s", sentence(failure))
        finally:
            self._turn.release()
