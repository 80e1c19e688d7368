# SPDX-License-Identifier: Apache-2.0
"""Background sync with nova's databases, and refresh before requests."""

from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Event, Lock
from time import monotonic

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Error, format_error, format_one_line
from placement_sched.model.clock import Clock, utcnow
from placement_sched.nova.databases import NovaDatabaseUnavailable
from placement_sched.nova.sync import SyncIssue, SyncReport, SyncTotals
from placement_sched.nova.sync.cells import FollowedCell, NovaCells
from placement_sched.nova.sync.compute_nodes import NodeSync
from placement_sched.nova.sync.instances import InstanceSync
from placement_sched.nova.sync.lost_records import LossDetector
from placement_sched.nova.sync.services import AggregateSync, GroupSync, ServiceSync
from placement_sched.operations import Progress
from placement_sched.store.compute import compute_nodes
from placement_sched.store.compute.instances import list_names_on_hosts

LOG = log.getLogger(__name__)

#: Maximum number of issues that a process logs.
MAX_LOGGED = 1000
#: Seconds between two attempts after a failure of a database.
RETRY_INTERVAL = 1.0


def _ignore_progress(_done: int, _total: int | None) -> None:
    pass


class Follower:
    """The sync of this service's records with nova's databases.

    Any number of threads and processes may sync. Only ``sched_*`` tables are written, never tables
    of placement or nova. :meth:`close` closes the connection pools.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock = utcnow) -> None:
        """Raise :class:`ConfigurationError` for an unusable API database URL."""
        self.database = database
        self.settings = settings
        self.clock = clock
        self._cells = NovaCells(database, settings, clock)
        self._services = ServiceSync(self._cells)
        self._nodes = NodeSync(self._cells, self._services)
        self._aggregates = AggregateSync(self._cells)
        self._groups = GroupSync(self._cells)
        self._instances = InstanceSync(self._cells)
        self._losses = LossDetector(self._cells)
        # Full syncs and rounds (syncs of changes) exclude each other. A refresh before a request
        # does not wait for them, because each write checks that the records are unchanged.
        self._turn = Lock()
        self._refreshing = SharedSync(self._refresh)
        self._full_due = self._round_due = monotonic()
        self._epoch = database.epoch
        self._logged_issues: set[SyncIssue] = set()
        #: Number of issues in the last full sync: objects that are not recorded as nova has them.
        self.left_out = 0

    def sync_all(self, progress: Progress = _ignore_progress) -> SyncReport:
        """Read all of nova's databases, and record the differences.

        The records of a cell whose database does not answer are kept, and the report lists the cell
        in ``away``. Raises :class:`Unavailable` if nova's API database, or the database of this
        service, does not answer.
        """
        return self._reconcile_all(progress, dry=False)

    def compare(self, progress: Progress = _ignore_progress) -> SyncReport:
        """Compare like :meth:`sync_all` without writing, and list differences."""
        with self._cells.read_only():
            return self._reconcile_all(progress, dry=True)

    def _reconcile_all(self, progress: Progress, *, dry: bool) -> SyncReport:
        begun = monotonic()
        totals = SyncTotals(naming=dry)
        with self._turn:
            self._cells.load()
            self._cells.follow(totals, dry=dry)
            if not dry:
                self._cells.run_for_each_cell(self._services.record_row_counts, totals=totals)
            self._services.reconcile(totals, dry=dry)
            instances = self._instances.count()
            total, done = instances + totals.read["services"], 0

            def count(number: int) -> None:
                nonlocal done
                done += number
                progress(done, max(total, done))

            self._nodes.delete_other_cells(totals, dry=dry)
            self._cells.run_for_each_cell(
                lambda cell: self._nodes.reconcile_all(cell, totals, count, dry=dry), totals=totals
            )
            self._aggregates.follow(totals, is_full=True, dry=dry)
            self._groups.follow(totals, is_full=True, dry=dry)
            self._instances.reconcile_all(totals, instances, count, dry=dry)
            with self.database.read() as connection:
                hosts = {host for host, _ in compute_nodes.map_names_by_uuid(connection).values()}
            for host in sorted(hosts - self._cells.mapped_hosts.keys()):
                reason = "it is mapped to no cell: run nova-manage cell_v2 discover_hosts"
                totals.add_issue(f"host {host}", reason)
            if not dry:
                self._cells.record_read()
                self.left_out = len(totals.issues)
                with suppress(NovaDatabaseUnavailable):
                    self._losses.accept()
        return totals.build_report(monotonic() - begun)

    def sync_changes(self) -> SyncReport:
        """Record the changes since the last sync: errors as :meth:`sync_all`."""
        begun = monotonic()
        totals = SyncTotals()
        away: NovaDatabaseUnavailable | None = None
        joined: tuple[str, ...] = ()
        with self._turn:
            try:
                self._cells.load()
                self._cells.follow(totals)
                self._aggregates.follow(totals)
                joined = self._groups.follow(totals)
            except NovaDatabaseUnavailable as failure:
                # The loaded cells are read nevertheless, or their hosts would seem down.
                away = failure
            # Instances and hosts are read concurrently, because both mostly wait for databases.
            with ThreadPoolExecutor(1, "nova-instances") as executor:
                instances = executor.submit(self._follow_instances, joined, totals)
                self._services.sync_heartbeats(totals)
                self._sync_hosts(totals, is_round=True)
                instances.result()
            self._cells.record_read()
        if away is not None:
            raise away
        return totals.build_report(monotonic() - begun)

    def _follow_instances(self, joined: Collection[str], totals: SyncTotals) -> None:
        self._cells.run_for_each_cell(
            lambda cell: self._instances.follow(cell, totals), totals=totals
        )
        if self._cells.cell0 is not None:  # instances may have moved there
            with suppress(NovaDatabaseUnavailable):
                self._instances.follow(self._cells.cell0, totals)
        self._instances.reconcile(joined, totals)

    def refresh(self) -> None:
        """Sync services, compute nodes and server groups before a request.

        Concurrent callers share a sync that begins after their calls. If a database of nova does
        not answer, its records stay unchanged, and no error is raised. Raises :class:`Unavailable`
        if the database of this service does not answer.
        """
        self._refreshing.wait_for_sync()

    def _refresh(self) -> None:
        totals = SyncTotals()
        with suppress(NovaDatabaseUnavailable):
            self._cells.load_new()
        with suppress(NovaDatabaseUnavailable):
            self._cells.retry_reopened_cells()
            self._sync_hosts(totals, is_round=False)
            self._groups.follow(totals)

    def _sync_hosts(self, totals: SyncTotals, *, is_round: bool) -> None:
        with self.database.read() as connection:
            scan = self._services.begin_scan(connection)

        def read(cell: FollowedCell) -> None:
            with cell.database.read() as connection:
                row_counts = scan.read_cell(cell, connection)
                changed = self._nodes.find_changed(cell, connection, row_counts, is_round=is_round)
            self._nodes.follow(cell, changed, totals, is_round=is_round)
            cell.row_counts = row_counts

        self._cells.run_for_each_cell(read, patient=is_round, totals=totals)
        self._services.follow(scan, totals)

    def read_all(self) -> None:
        """Run :meth:`sync_all`, log its issues, and restart its interval."""
        findings = self.sync_all()
        self._full_due = monotonic() + self.settings.scheduler.nova_full_sync_interval
        self._log_new_issues(findings)

    def sync_due(self) -> float:
        """Run a full sync, or a round (a sync of changes), if it is due.

        A full sync is due at once if records were lost. A round runs early if a cell that is away
        may be back. Never raises: a failure is logged, and the sync is repeated. Returns the
        seconds until the next sync is due, which are at least :data:`RETRY_INTERVAL` after a
        failure.
        """
        options = self.settings.scheduler
        now = monotonic()
        previous, self._epoch = self._epoch, self.database.epoch
        if previous not in {None, self._epoch}:
            # Records may be lost in a failover, although nothing has changed in nova since.
            self._full_due = now
        has_succeeded = True
        if now >= self._full_due:
            if has_succeeded := self._attempt(self.sync_all):
                self._full_due = monotonic() + options.nova_full_sync_interval
            self._round_due = monotonic() + options.nova_sync_interval
        elif now >= min(self._round_due, self._cells.next_attempt):
            has_succeeded = self._attempt(self.sync_changes)
            if has_succeeded and self._has_lost_records():
                self._full_due = now
            self._round_due = now + options.nova_sync_interval
        due = min(self._full_due, self._round_due, self._cells.next_attempt)
        return max(0.0 if has_succeeded else RETRY_INTERVAL, due - monotonic())

    def _has_lost_records(self) -> bool:
        try:
            lost = self._losses.find_lost()
        except Error as failure:
            LOG.debug("records are not counted: %s", format_error(failure))
            return False
        if lost:
            LOG.warning(
                "the database of this service has lost records (%s): all of nova is read again. "
                "If the database was made again, wait until each nova-compute has reported its "
                "inventory, and run nova-manage placement heal_allocations and sync_aggregates",
                ", ".join(f"{noun}: {number}" for noun, number in lost.items()),
            )
        return bool(lost)

    def _attempt(self, step: Callable[[], SyncReport]) -> bool:
        try:
            findings = step()
        except NovaDatabaseUnavailable:
            return False  # logged already
        except Error as failure:
            LOG.warning("nova's databases cannot be read: %s", format_error(failure))
            return False
        except Exception:
            LOG.exception("nova's databases cannot be read")
            return False
        self._log_new_issues(findings)
        return True

    def _log_new_issues(self, findings: SyncReport) -> None:
        new = [issue for issue in findings.issues if issue not in self._logged_issues]
        for issue in new[: MAX_LOGGED - len(self._logged_issues)]:
            self._logged_issues.add(issue)
            LOG.warning("%s", issue)

    def read_aggregates(self, ids: Collection[int]) -> None:
        """Sync aggregates whose change or deletion is in a cast of nova."""
        with suppress(NovaDatabaseUnavailable):
            self._aggregates.reconcile(SyncTotals(), ids)

    def read_instances(self, uuids: Collection[str]) -> None:
        """Sync the instances with these uuids, except in cells that are away."""
        with suppress(NovaDatabaseUnavailable):
            if not self._cells.is_loaded:
                self._cells.load()
            self._instances.reconcile(uuids, SyncTotals())

    def compare_instances(self, host: str, uuids: Collection[str]) -> None:
        """Sync instances of a host that are recorded but not listed, or reverse."""
        with self.database.read() as connection:
            recorded = {each.uuid for each in list_names_on_hosts(connection, [host])}
        if differing := recorded ^ set(uuids):
            self.read_instances(differing)

    def close(self) -> None:
        """Close all connections to nova's databases, before a fork and at the end."""
        self._cells.close()


class SharedSync:
    """Sync that concurrent callers share, for any number of threads."""

    def __init__(self, read: Callable[[], None]) -> None:
        self._read = read
        self._lock = Lock()
        self._begun = self._done = 0

    def wait_for_sync(self) -> None:
        """Wait for a sync that began after this call, and raise its error."""
        latest = self._begun
        with self._lock:
            if self._done > latest:
                return
            number = self._begun = self._begun + 1
            self._read()
            self._done = number


def repeat_steps(steps: Iterable[Callable[[], object]], stopping: Event, message: str) -> bool:
    """Repeat each step until it succeeds, and return whether all succeeded.

    The result is False if the service is stopping. A failure is logged with ``message``, and only
    once if it repeats.
    """
    last_failure = ""
    for step in steps:
        while not stopping.is_set():
            failure = ""
            try:
                step()
            except NovaDatabaseUnavailable as away:
                failure = f"nova's databases cannot be read: {format_one_line(away)}"
            except Error as error:
                failure = format_error(error)
            if not failure:
                break
            if failure != last_failure:  # logged outside the handler
                LOG.warning("%s: %s", message, failure)
            last_failure = failure
            stopping.wait(RETRY_INTERVAL)
    return not stopping.is_set()
