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
    """A single computation in a thread, which stores its result.

    A lease prevents a second computation at the same time, in any process.
    """

    thread_name = VIOLATION_THREAD
    failure = "the violations were not computed"

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self._lease = Lease(scheduler.database, VIOLATION_THREAD, _LEASE)

    def start(self) -> None:
        """Start the thread, or raise :class:`Conflict` while another runs.

        Raises :class:`Forbidden` if the database shows a file, in which nothing can be stored.
        """
        if self._scheduler.database.shows_file:
            raise Forbidden("this server shows a file and stores no result")
        if not self._lease.is_held():
            raise Conflict("the violations are being computed: read the result when it is ready")
        self()

    def run_round(self) -> None:
        """Compute and store the violations, and release the lease."""
        try:
            now = self._scheduler.clock()
            report = report_violations(
                self._scheduler, progress=lambda _done, _total: self._renew()
            )
            self._scheduler.database.write(
                lambda connection: store.replace_violations(connection, report, now)
            )
        finally:
            self._lease.release()

    def _renew(self) -> None:
        self._lease.is_held()
