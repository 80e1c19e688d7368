# SPDX-License-Identifier: Apache-2.0
"""Periodic computation of the failover capacity."""

from time import monotonic

from oslo_log import log

from placement_sched.db.leases import Lease
from placement_sched.errors import Error, format_error
from placement_sched.extensions.what_if.failover.report import (
    FailoverQuery,
    report_failover_capacity,
)
from placement_sched.model.document import Json
from placement_sched.operations.periodic import PeriodicTask
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store import figures

LOG = log.getLogger(__name__)

#: The name of the thread that computes the failover capacity, and the seconds of its lease.
FAILOVER_THREAD, _LEASE = "failover capacity", 300


def build_tasks(scheduler: Scheduler) -> list[PeriodicTask]:
    """Build the periodic tasks of a server (hook ``periodic_tasks``)."""
    return [FailoverTask(scheduler)]


class FailoverTask(PeriodicTask):
    """Periodic task that computes the failover capacity and stores the result.

    A lease selects a single process of all servers, which computes every ``[scheduler]
    failover_interval`` seconds. The interval also applies after a failed computation.
    """

    thread_name = FAILOVER_THREAD
    failure = "the failover capacity was not computed"
    #: Seconds between two checks of whether a computation is due.
    pause = 5.0

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._lease = Lease(scheduler.database, FAILOVER_THREAD, _LEASE)

    @property
    def _interval(self) -> float:
        return float(self._scheduler.live.get_settings().scheduler.failover_interval)

    def is_due(self) -> bool:
        """Return whether the interval is set."""
        return self._interval > 0

    def run_round(self) -> None:
        """Compute the failover capacity if the last stored result is too old."""
        try:
            with self._scheduler.database.read() as connection:
                result = self._scheduler.caches.failover.get_current(connection)
        except Error as failure:
            LOG.debug("cannot read the failover result: %s", format_error(failure))
            return
        is_young = (
            result is not None and result.compute_age(self._scheduler.clock()) < self._interval
        )
        if is_young or not self._lease.is_held():
            return
        try:
            store_result(self._scheduler)
        except BaseException:
            self._next = monotonic() + self._interval
            raise


def store_result(scheduler: Scheduler) -> Json:
    """Compute and store the configured failover capacity, and return it.

    Raises the errors of :func:`report_failover_capacity`.
    """
    options = scheduler.live.get_settings().scheduler
    query = FailoverQuery(
        host_failures=options.failover_host_failures,
        within=options.failover_within or None,
        seconds=options.failover_budget,
    )
    report = report_failover_capacity(scheduler, query)
    scheduler.database.write(lambda connection: figures.replace_failover_result(connection, report))
    return report
