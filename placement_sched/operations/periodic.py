# SPDX-License-Identifier: Apache-2.0
"""Work that a process repeats: deletion of old rows, and the failover capacity."""

from abc import ABC, abstractmethod
from datetime import datetime
from functools import partial
from threading import Lock, Thread
from time import monotonic
from typing import ClassVar

from oslo_log import log

from placement_sched.db.leases import Lease
from placement_sched.db.transaction import Database, forget_old_marks
from placement_sched.errors import Error, sentence
from placement_sched.model.decision import DecisionQuery
from placement_sched.model.document import Json
from placement_sched.operations import Progress
from placement_sched.scheduler.failover.report import FailoverQuery, failover_capacity
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store import decisions, figures
from placement_sched.store.placement import change_log

LOG = log.getLogger(__name__)

#: Seconds between two rounds of most tasks.
PAUSE = 60.0


class PeriodicTask(ABC):
    """Work that a process repeats in rounds, at least ``pause`` seconds apart.

    Any thread may call the task, before and between requests. Most calls only read the clock. A
    round runs in a thread named ``thread_name``, or without a name in the thread of the caller.
    ``failure`` begins the log messages about failures, after which the next round tries again.
    """

    thread_name: ClassVar[str] = ""
    failure: ClassVar[str]
    pause = PAUSE

    def __init__(self, delay: float = 0.0) -> None:
        """Set the seconds until the first round."""
        self._turn = Lock()
        self._next = monotonic() + delay

    def __call__(self) -> None:
        """Run a round, or start its thread, if the round is due."""
        if monotonic() < self._next or self._turn.locked() or not self.is_due():
            return
        if self.thread_name:
            Thread(target=self._run, name=self.thread_name, daemon=True).start()
        else:
            self._run()

    def _run(self) -> None:
        """Run a round, unless another thread runs it or has just run it."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            if monotonic() < self._next:
                return
            self._next = monotonic() + self.pause
            self.run_round()
        except Error as failure:
            LOG.warning("%s: %s", self.failure, sentence(failure))
        except Exception:
            LOG.exception(self.failure)
        finally:
            self._turn.release()

    def is_due(self) -> bool:
        """Return whether there may be work.

        Called whenever the task is called after the pause.
        """
        return True

    @abstractmethod
    def run_round(self) -> None:
        """Do the work.

        May change ``_next``, the earliest time of the next round.
        """


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


#: The name of the thread that computes.
FAILOVER_THREAD = "failover capacity"
#: Seconds that a process holds the lease.
_FAILOVER_LEASE = 300


class FailoverTask(PeriodicTask):
    """Periodic task that computes the failover capacity and stores the result.

    A lease selects a single process of all servers, which computes every ``[scheduler]
    failover_interval`` seconds. A failed computation is also repeated after the interval.
    """

    thread_name = FAILOVER_THREAD
    failure = "the failover capacity was not computed"
    #: Seconds between two checks of whether a computation is due.
    pause = 5.0

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._lease = Lease(scheduler.database, FAILOVER_THREAD, _FAILOVER_LEASE)

    @property
    def _interval(self) -> float:
        return float(self._scheduler.live.settings().scheduler.failover_interval)

    def is_due(self) -> bool:
        """Return whether the interval is set."""
        return self._interval > 0

    def run_round(self) -> None:
        """Compute the failover capacity if the last result of all processes is too old."""
        try:
            with self._scheduler.database.read() as connection:
                result = self._scheduler.memory.failover.current(connection)
        except Error as failure:
            LOG.debug("cannot read the failover result: %s", sentence(failure))
            return
        is_young = result is not None and result.age(self._scheduler.clock()) < self._interval
        if is_young or not self._lease.is_held():
            return
        try:
            store_result(self._scheduler)
        except BaseException:
            self._next = monotonic() + self._interval
            raise


def store_result(scheduler: Scheduler) -> Json:
    """Compute the configured failover capacity, and store and return the result.

    Raises the errors of :func:`failover_capacity`.
    """
    options = scheduler.live.settings().scheduler
    query = FailoverQuery(
        host_failures=options.failover_host_failures,
        within=options.failover_within or None,
        seconds=options.failover_budget,
    )
    answer = failover_capacity(scheduler, query)
    scheduler.database.write(lambda connection: figures.replace_failover_result(connection, answer))
    return answer
