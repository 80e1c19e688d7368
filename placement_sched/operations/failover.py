# SPDX-License-Identifier: Apache-2.0
"""Periodic computation of the failover capacity."""

from time import monotonic

from oslo_log import log

from placement_sched.db.leases import Lease
from placement_sched.errors import Error, sentence
from placement_sched.model.document import Json
from placement_sched.operations.periodic import PeriodicTask
from placement_sched.scheduler.failover.report import FailoverQuery, failover_capacity
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store import failover_results

LOG = log.getLogger(__name__)

#: The name of the thread that computes.
THREAD_NAME = "failover capacity"
#: Seconds that a process holds the lease.
_LEASE = 300


class FailoverTask(PeriodicTask):
    """Periodic task that computes the failover capacity and stores the result.

    A lease selects a single process of all servers, which computes every ``[scheduler]
    failover_interval`` seconds. A failed computation is also repeated after the interval.
    """

    thread_name = THREAD_NAME
    failure = "the failover capacity was not computed"
    #: Seconds between two checks of whether a computation is due.
    pause = 5.0

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._lease = Lease(scheduler.database, THREAD_NAME, _LEASE)

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
    scheduler.database.write(lambda connection: failover_results.replace(connection, answer))
    return answer
