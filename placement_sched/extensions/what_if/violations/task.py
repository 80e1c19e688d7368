# SPDX-License-Identifier: Apache-2.0
"""Computation of the violations in the background of a server."""

from placement_sched.db.leases import Lease
from placement_sched.errors import Conflict, Forbidden
from placement_sched.extensions.what_if import store
from placement_sched.extensions.what_if.violations.report import report_violations
from placement_sched.operations.periodic import PeriodicTask
from placement_sched.scheduler.scheduler import Scheduler

#: The name of the thread that checks the servers, and the seconds of its lease, which is renewed.
VIOLATION_THREAD, _LEASE = "violations", 300


class ViolationRun(PeriodicTask):
    """A computation in a thread, which stores its result.

    With a lease, only a single process computes at a time.
    """

    thread_name = VIOLATION_THREAD
    failure = "the violations were not computed"

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._lease = Lease(scheduler.database, VIOLATION_THREAD, _LEASE)

    def start(self) -> None:
        """Start the thread, or raise :class:`Conflict` while another runs."""
        if self._scheduler.database.shows_file:
            raise Forbidden("this server shows a file and stores no result")
        if not self._lease.is_held():
            raise Conflict("the violations are being computed, read the result later")
        self()

    def run_round(self) -> None:
        """Compute and store the violations, and release the lease."""
        scheduler = self._scheduler
        try:
            report = report_violations(scheduler, None, self._renew)
            scheduler.database.write(
                lambda connection: store.replace_violations(connection, report)
            )
        finally:
            self._lease.release()

    def _renew(self, _done: int, _total: int | None) -> None:
        self._lease.is_held()
