# SPDX-License-Identifier: Apache-2.0
"""Periodic computation of the failover capacity."""

from threading import Lock, Thread
from time import monotonic

from oslo_log import log

from placement_sched.db.leases import Lease
from placement_sched.errors import Error, sentence
from placement_sched.model.document import Json
from placement_sched.model.figures import FailoverResult
from placement_sched.model.request_stats import begin_stats
from placement_sched.scheduler.failover.report import FailoverQuery, failover_capacity
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store import failover_results

LOG = log.getLogger(__name__)

#: The name of the thread that computes.
THREAD_NAME = "failover capacity"
#: Seconds that a process holds the lease.
_LEASE = 300
#: Seconds between two checks of whether a computation is due.
_PAUSE = 5.0


class FailoverTask:
    """Periodic task that computes the failover capacity and stores the result.

    Any thread may call the task. Most calls only read the clock. A lease selects a single process
    of all servers, which computes in a thread, every ``[scheduler] failover_interval`` seconds.
    Failures are logged, and retried after the interval.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lease = Lease(scheduler.database, THREAD_NAME, _LEASE)
        self._turn = Lock()
        self._next = 0.0
        self._failed_at: float | None = None

    def __call__(self) -> None:
        """Start a computation if it is due."""
        interval = self._scheduler.live.settings().scheduler.failover_interval
        if not interval or monotonic() < self._next or not self._turn.acquire(blocking=False):
            return
        self._next = monotonic() + min(_PAUSE, interval)
        is_started = False
        try:
            if self._is_due(interval) and self._lease.is_held():
                Thread(target=self._compute, name=THREAD_NAME, daemon=True).start()
                is_started = True
        finally:
            if not is_started:
                self._turn.release()

    def _is_due(self, interval: float) -> bool:
        failed_at = self._failed_at
        if failed_at is not None and monotonic() - failed_at < interval:
            return False
        try:
            result = self.last_result()
        except Error as failure:
            LOG.debug("the failover result was not read: %s", sentence(failure))
            return False
        return result is None or result.age(self._scheduler.clock()) >= interval

    def last_result(self) -> FailoverResult | None:
        """Return the last result of any process, or None."""
        with self._scheduler.database.read() as connection:
            return self._scheduler.memory.failover.current(connection)

    def _compute(self) -> None:
        self._failed_at = None
        try:
            store_result(self._scheduler)
        except Error as failure:
            self._failed_at = monotonic()
            LOG.warning("the failover capacity was not computed: %s", sentence(failure))
        except Exception:
            self._failed_at = monotonic()
            LOG.exception("the failover capacity was not computed")
        finally:
            begin_stats()
            self._turn.release()


def store_result(scheduler: Scheduler) -> Json:
    """Compute the failover capacity as configured, store the result and return it.

    Raises the errors of :func:`failover_capacity`.
    """
    options = scheduler.live.settings().scheduler
    query = FailoverQuery(
        host_failures=options.failover_host_failures,
        within=options.failover_within or None,
        seconds=options.failover_budget,
    )
    answer = failover_capacity(scheduler, query)
    scheduler.database.write(lambda connection: failover_results.replace(connection, answer))
    return answer
