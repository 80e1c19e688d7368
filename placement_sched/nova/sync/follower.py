"""Keeps what is recorded here of the cloud in step with nova's databases."""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from threading import Lock
from time import monotonic

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Error, sentence
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.instance import Instance
from placement_sched.nova.databases.connections import NovaAway
from placement_sched.nova.sync.cells import FollowedCell, NovaCells
from placement_sched.nova.sync.compute_nodes import NodeUpkeep
from placement_sched.nova.sync.findings import Account, Findings, MisfitLog
from placement_sched.nova.sync.groups_aggregates import AggregateUpkeep, GroupUpkeep
from placement_sched.nova.sync.instances import InstanceUpkeep
from placement_sched.nova.sync.services import ServiceUpkeep
from placement_sched.operations import Progress
from placement_sched.store.compute import compute_nodes

LOG = log.getLogger(__name__)


class Follower:
    """Follows nova's databases; for any number of threads, beside any number of processes.

    What it writes are this service's own tables, ``sched_*``, never placement's, and never nova's.
    A follower keeps small pools of connections; :meth:`close` closes them.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock = utcnow) -> None:
        """Follow the nova of ``[api_database] connection``.

        Raises :class:`ConfigurationError` where that is unset or not the URL of a supported
        database.
        """
        self.database = database
        self.settings = settings
        self.clock = clock
        self._cells = NovaCells(database, settings, clock)
        self._services = ServiceUpkeep(self._cells)
        self._nodes = NodeUpkeep(self._cells, self._services)
        self._aggregates = AggregateUpkeep(self._cells)
        self._groups = GroupUpkeep(self._cells)
        self._instances = InstanceUpkeep(self._cells)
        # Readings of everything and rounds take turns. What comes before a request does not wait
        # for them: all that is written is compared with what is recorded just then.
        self._turn = Lock()
        self._refreshing = SharedReading(self._refresh)
        self._full_due = self._round_due = monotonic()
        self._history = database.history
        self._misfits = MisfitLog()
        #: How many of nova's objects the last full reading could not record as they are.
        self.left_out = 0

    def full(self, progress: Progress | None = None) -> Findings:
        """Read everything, compare it with what is recorded, and write what differs.

        A cell whose database does not answer is left as it was, and named in ``away``. Raises
        :class:`Unavailable` where nova's API database, or this service's own, does not answer.
        """
        return self._everything(progress or _silent, dry=False)

    def compare(self, progress: Progress | None = None) -> Findings:
        """Read and compare as :meth:`full` does, but write nothing; ``unlike`` has it all."""
        with self._cells.only_looking():
            return self._everything(progress or _silent, dry=True)

    def _everything(self, progress: Progress, *, dry: bool) -> Findings:
        begun = monotonic()
        account = Account(naming=dry)
        with self._turn:
            self._cells.load()
            self._cells.follow(account, dry=dry)
            if not dry:
                self._cells.each(self._services.note_census, account=account)
            self._services.settle(account, dry=dry)
            instances = self._instances.count()
            done = _Counting(progress, instances + account.read["services"])
            self._nodes.forget_other_cells(account, dry=dry)
            self._cells.each(
                lambda cell: self._nodes.everything(cell, account, done, dry=dry), account=account
            )
            self._aggregates.everything(account, dry=dry)
            self._groups.everything(account, dry=dry)
            self._instances.everything(account, instances, done, dry=dry)
            self._check_mappings(account)
            if not dry:
                self._cells.note_read()
                self.left_out = len(account.misfits)
        return account.findings(monotonic() - begun)

    def _check_mappings(self, account: Account) -> None:
        """Note the hosts that nova cannot place instances on, as it does not map them to a cell."""
        with self.database.read() as connection:
            recorded = compute_nodes.cells_of_all_hosts(connection)
        for host in sorted(recorded.keys() - self._cells.mapped_hosts.keys()):
            reason = "it is mapped to no cell; nova-manage cell_v2 discover_hosts maps it"
            account.misfit(f"host {host}", reason)

    def round(self) -> Findings:
        """Read what changed since the last reading, and write it; raises what :meth:`full` does."""
        begun = monotonic()
        account = Account()
        away: NovaAway | None = None
        joined: tuple[str, ...] = ()
        with self._turn:
            try:
                self._cells.load()
                self._cells.follow(account)
                self._aggregates.follow(account)
                joined = self._groups.follow(account)
            except NovaAway as failure:
                # The cells that are known are read all the same: their hosts must not seem down.
                away = failure
            # Both wait for databases most of the time.
            with ThreadPoolExecutor(1, "nova-instances") as beside:
                instances = beside.submit(self._follow_instances, joined, account)
                self._services.beat(account)
                self._look(account, settling=True)
                instances.result()
            self._cells.note_read()
        if away is not None:
            raise away
        return account.findings(monotonic() - begun)

    def _follow_instances(self, joined: Collection[str], account: Account) -> None:
        """Record the instances that changed, and those that joined a server group."""
        self._cells.each(lambda cell: self._instances.follow(cell, account), account=account)
        self._instances.follow_cell0(account)
        self._instances.settle(joined, account)

    def refresh(self) -> None:
        """Bring services, compute nodes and server groups up to date, before a request.

        Concurrent callers share a reading, never one that began before they called. What nova's
        databases do not answer stays as it is recorded; nothing is raised for them. Raises
        :class:`Unavailable` where this service's own database does not answer.
        """
        self._refreshing.after_now()

    def _refresh(self) -> None:
        account = Account()
        with suppress(NovaAway):
            self._cells.load_new()
        with suppress(NovaAway):
            self._cells.look_for_those_back()
            self._look(account, settling=False)
            self._groups.follow(account)

    def _look(self, account: Account, *, settling: bool) -> None:
        """Record what changed in services and nodes; plain heartbeats only where they matter."""
        with self.database.read() as connection:
            look = self._services.look(connection)

        def read(cell: FollowedCell) -> None:
            with cell.database.read() as connection:
                census = look.take(cell, connection)
                moved = self._nodes.moved(cell, connection, census, settling=settling)
            self._nodes.follow(cell, moved, account, settling=settling)
            cell.census = census

        self._cells.each(read, patient=settling, account=account)
        self._services.follow(look, account)

    def read_all(self) -> None:
        """Do as :meth:`full` does, at once, in place of the background work's next; log misfits."""
        findings = self.full()
        self._full_due = monotonic() + self.settings.scheduler.nova_full_sync_interval
        for misfit in findings.misfits:
            self._misfits.log(misfit)

    def keep_up(self) -> float:
        """Do one step of the background work where it is time: a round, or a full comparison.

        A round is early where a cell that is away may be back. Never raises: what goes wrong is
        logged, and tried again. Returns the seconds until the next step is due (0 and more).
        """
        options = self.settings.scheduler
        now = monotonic()
        before, self._history = self._history, self.database.history
        if before not in {None, self._history}:
            # What was recorded may be lost, though nothing has changed in nova since.
            self._full_due = now
        if now >= self._full_due:
            if self._attempt(self.full):
                self._full_due = monotonic() + options.nova_full_sync_interval
            self._round_due = monotonic() + options.nova_sync_interval
        elif now >= min(self._round_due, self._cells.asked_again):
            self._attempt(self.round)
            self._round_due = now + options.nova_sync_interval
        due = min(self._full_due, self._round_due, self._cells.asked_again)
        return max(0.0, due - monotonic())

    def _attempt(self, step: Callable[[], Findings]) -> bool:
        """Run a step; return whether it succeeded, and log why where it did not."""
        try:
            findings = step()
        except NovaAway:
            return False  # which is logged where it is noticed
        except Error as failure:
            LOG.warning("nova's databases were not read: %s", sentence(failure))
            return False
        except Exception:
            LOG.exception("nova's databases were not read")
            return False
        for misfit in findings.misfits:
            self._misfits.log(misfit)
        return True

    def aggregates_changed(self, aggregates: Sequence[HostAggregate]) -> None:
        """Record aggregates that nova announced as changed (RPC ``update_aggregates``).

        They are read from nova's API database, as announcements may come late; the next round does
        it where that is away.
        """
        with suppress(NovaAway):
            self._aggregates.settle(Account(), {one.id for one in aggregates})

    def aggregate_deleted(self, aggregate_id: int) -> None:
        """Forget an aggregate that nova announced as deleted (RPC ``delete_aggregate``)."""
        with suppress(NovaAway):
            self._aggregates.settle(Account(), {aggregate_id})

    def instances_changed(self, host: str, instances: Sequence[Instance]) -> None:
        """Record instances that a host announced (RPC ``update_instance_info``).

        They are read from their cell, as announcements may come late; where a cell is away, those
        that are not found are recorded as announced.
        """
        with suppress(NovaAway):
            self._know_cells()
            found = self._instances.settle([one.uuid for one in instances], Account())
            missing = [replace(one, host=host) for one in instances if one.uuid not in found]
            if missing and self._cells.away:
                self._instances.take(missing)

    def instance_deleted(self, host: str, uuid: str) -> None:
        """Forget an instance that left a host (RPC ``delete_instance_info``).

        It is looked for in the cells first: it may be on another host by now.
        """
        with suppress(NovaAway):
            self._know_cells()
            if not self._instances.settle([uuid], Account()) and self._cells.away:
                self._instances.forget(host, uuid)

    def instances_synced(self, host: str, uuids: Collection[str]) -> None:
        """Compare the instances that a host has (RPC ``sync_instance_info``) with those recorded.

        Only where they differ is anything read.
        """
        if differing := self._instances.recorded_on(host) ^ set(uuids):
            with suppress(NovaAway):
                self._know_cells()
                self._instances.settle(differing, Account())

    def read_instances(self, uuids: Collection[str]) -> None:
        """Record where instances are now; what cells that are away have stays as recorded."""
        with suppress(NovaAway):
            self._know_cells()
            self._instances.settle(uuids, Account())

    def _know_cells(self) -> None:
        if not self._cells.are_known:
            self._cells.load()

    def close(self) -> None:
        """Close all connections to nova's databases (before a fork, and at the end)."""
        self._cells.close()


class SharedReading:
    """A reading that concurrent callers share; for any number of threads."""

    def __init__(self, read: Callable[[], None]) -> None:
        self._read = read
        self._lock = Lock()
        self._begun = self._done = 0

    def after_now(self) -> None:
        """Return after a reading that began no earlier than this call; raise what it raised."""
        before = self._begun
        with self._lock:
            if self._done > before:
                return
            number = self._begun = self._begun + 1
            self._read()
            self._done = number


class _Counting:
    """Says how far a reading is, in services, nodes and instances alike."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, number: int) -> None:
        self._done += number
        self._progress(self._done, max(self._total, self._done))


def _silent(_done: int, _total: int | None) -> None:
    """Show no progress."""
