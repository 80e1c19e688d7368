"""Keeps the compute services recorded here as nova's cells have them, and their heartbeats."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from placement_sched.db.collations import Characters
from placement_sched.db.transaction import Connection
from placement_sched.model.compute_node import COMPUTE_BINARY, Service
from placement_sched.nova.databases import hosts as nova_services
from placement_sched.nova.databases.hosts import CellCensus
from placement_sched.nova.sync.cells import FollowedCell, NovaCells
from placement_sched.nova.sync.findings import Account
from placement_sched.store.compute import compute_nodes, services

_NOUN = "services"
#: So many seconds before a host counts as down for what is recorded of it, nova is asked.
_MARGIN = 10
#: What makes a service another one, apart from its heartbeat.
_FIELDS = ("uuid", "disabled", "disabled_reason", "forced_down")
#: How often what another process wrote meanwhile is compared once more.
_TRIES = 3
#: Hosts that were seen so long before they count as down are looked at: what is written takes a
#: while to be seen. All that count as up are, as the clocks of hosts differ.
_OVERLAP = timedelta(seconds=15)
#: The heartbeat of a node is only shown: it is written once it is so much later than known.
_SHOWN = timedelta(seconds=30)


@dataclass(slots=True)
class ServiceLook:
    """What one look at services found.

    ``soon`` is the heartbeat with which a host will soon count as down, ``now`` the time of the
    look; ``recorded`` are the services that are recorded as barred, or with a heartbeat that is
    earlier than ``soon`` or later than ``now``.
    """

    soon: datetime
    now: datetime
    cells: NovaCells
    recorded: Mapping[str, Service]
    barred: dict[str, Service] = field(default_factory=dict)
    beats: dict[str, datetime] = field(default_factory=dict)
    came_or_went: bool = False

    def take(self, cell: FollowedCell, connection: Connection) -> CellCensus:
        """Look at one cell; return how many services and nodes it has."""
        census = nova_services.census(connection)
        if cell.census is None or census[:2] != cell.census[:2]:
            self.came_or_went = True
        for one in nova_services.barred(connection):
            if not self.cells.why_not_of(cell, one.host):
                self.barred[one.host] = _shown(one, self.cells.characters)
        unseen = [
            host
            for host, one in self.recorded.items()
            if (one.last_seen_up is None or not self.soon <= one.last_seen_up <= self.now)
            and not self.cells.why_not_of(cell, host)
        ]
        for host, seen in nova_services.heartbeats_of(connection, unseen).items():
            if seen != self.recorded[host].last_seen_up:
                self.beats[host] = seen
        return census

    def differing(self) -> frozenset[str]:
        """Return the hosts whose service is barred here and not in nova, or otherwise."""
        here = {host: one for host, one in self.recorded.items() if one.disabled or one.forced_down}
        return frozenset(
            host
            for host in here.keys() | self.barred.keys()
            if host not in self.barred or _unlike(here.get(host), self.barred[host])
        )


class ServiceUpkeep:
    """Keeps services in step; one for each process."""

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._beats: dict[str, datetime] = {}
        self._shown: dict[str, datetime] = {}

    def note_census(self, cell: FollowedCell) -> None:
        """Note how many services and nodes a cell has, all of which are about to be read."""
        with cell.database.read() as connection:
            cell.census = nova_services.census(connection)

    def look(self, connection: Connection) -> "ServiceLook":
        """Begin a look at what matters of services: who is barred, new, gone, or soon down."""
        down_time: int = self._cells.settings.DEFAULT.service_down_time
        now = self._cells.clock()
        soon = now - timedelta(seconds=down_time - min(_MARGIN, down_time // 2))
        recorded = services.barred_or_unseen(connection, soon, now)
        return ServiceLook(soon, now, self._cells, {one.host: one for one in recorded})

    def follow(self, look: "ServiceLook", account: Account) -> None:
        """Record what a look at all cells found."""
        if look.came_or_went:
            self.settle(account)
        elif hosts := look.differing():
            self.settle(account, hosts)
        self.see(look.beats)

    def settle(
        self, account: Account, hosts: Collection[str] | None = None, *, dry: bool = False
    ) -> None:
        """Compare the services of hosts, or all, and record those that differ as nova has them.

        What is recorded is read before nova is, and written only where it still stands so: of two
        processes the one that read nova last wins.
        """
        for _ in range(_TRIES):
            with self._database.read() as connection:
                before = _recorded(connection, hosts)
            theirs = self._read(account, hosts)
            gone = self._gone(before.keys() - theirs.keys())
            differing = {
                host: service
                for host, service in theirs.items()
                if _unlike(before.get(host), service)
            }
            if dry or self._write(before, differing, gone):
                break
        account.note_read(_NOUN, len(theirs))
        for host, service in differing.items():
            fields = _unlike(before.get(host), service)
            account.differs(_NOUN, host, fields, new=host not in before)
        for host in gone:
            account.gone(_NOUN, host)
        if not dry:
            self._beat_all(before, theirs)

    def _read(self, account: Account, hosts: Collection[str] | None) -> dict[str, Service]:
        found: dict[str, Service] = {}

        def read(cell: FollowedCell) -> None:
            with cell.database.read() as connection:
                if hosts is None:
                    every = nova_services.all_services(connection)
                else:
                    every = nova_services.by_hosts(connection, hosts)
            for service in every:
                reason = self._cells.why_not_of(cell, service.host) or _misfit(service, found)
                if reason:
                    account.misfit(f"nova-compute of host {service.host} ({cell.title})", reason)
                else:
                    found[service.host] = _shown(service, self._cells.characters)

        self._cells.each(read, account=account)
        return found

    def _gone(self, hosts: Collection[str]) -> frozenset[str]:
        """Return those of the hosts that are in none of the cells that are away."""
        away = {cell.uuid for cell in self._cells.away}
        if not away or not hosts:
            return frozenset(hosts)
        with self._database.read() as connection:
            cells = compute_nodes.cells_of_hosts(connection, hosts)
        return frozenset(host for host in hosts if cells.get(host) and not cells[host] & away)

    def _write(
        self, before: Mapping[str, Service], differing: Mapping[str, Service], gone: Collection[str]
    ) -> bool:
        """Write what differs; return whether everything still stood as it was read."""
        hosts = sorted({*differing, *gone})
        if not hosts:
            return True
        now = self._cells.clock()

        def write(connection: Connection) -> bool:
            locked = services.by_hosts(connection, hosts, lock=True)
            still = {host for host in hosts if not _moved(before.get(host), locked.get(host))}
            ids = [locked[host].id for host in gone if host in still]
            if ids:
                services.remove(connection, ids)
            rows = [_row_of(differing[host]) for host in differing if host in still]
            services.put(connection, rows, now)
            return len(still) == len(hosts)

        return self._database.write(write)

    def _beat_all(self, before: Mapping[str, Service], theirs: Mapping[str, Service]) -> None:
        """Record all heartbeats as nova has them, those that are earlier than known as well."""
        seen = {host: one.last_seen_up for host, one in theirs.items() if one.last_seen_up}
        known = {
            host: before[host].last_seen_up or at for host, at in seen.items() if host in before
        }
        earlier = {before[host].id: seen[host] for host, at in known.items() if seen[host] < at}
        if earlier:
            now = self._cells.clock()
            self._database.write(lambda connection: services.note_seen(connection, earlier, now))
        self.see(seen)

    def beat(self, account: Account) -> None:
        """Record the heartbeats of all hosts that are up, as nova has them."""
        down_time = timedelta(seconds=self._cells.settings.DEFAULT.service_down_time)
        since = self._cells.clock() - down_time - _OVERLAP
        found: dict[str, datetime] = {}

        def read(cell: FollowedCell) -> None:
            with cell.database.read() as connection:
                beats = nova_services.heartbeats(connection, since)
            found.update(
                (host, at) for host, at in beats.items() if not self._cells.why_not_of(cell, host)
            )

        self._cells.each(read, account=account)
        self.see({host: at for host, at in found.items() if self._beats.get(host) != at})

    def see(self, moments: Mapping[str, datetime]) -> None:
        """Record heartbeats of hosts."""
        if not moments:
            return
        now = self._cells.clock()
        shown = {
            host: at
            for host, at in moments.items()
            if host not in self._shown or abs(at - self._shown[host]) >= _SHOWN
        }

        def write(connection: Connection) -> None:
            services.see(connection, moments, now)
            compute_nodes.see(connection, shown, now)

        self._database.write(write)
        self._beats |= moments
        self._shown |= shown

    def last_seen(self, host: str) -> datetime | None:
        """Return the last heartbeat of a host that this process has read."""
        return self._beats.get(host)


def _shown(service: Service, characters: Characters) -> Service:
    reason = service.disabled_reason
    if characters.missing(reason) is None or reason is None:
        return service
    return service._replace(disabled_reason=characters.shown(reason))


def _misfit(service: Service, found: Mapping[str, Service]) -> str | None:
    """Return why a service cannot be recorded beside those that were found before it."""
    if not service.uuid:
        return "it has no uuid; nova-manage db online_data_migrations gives it one"
    if service.host in found:
        return "a host of this name is in another cell as well; only that one is read"
    return None


def _recorded(connection: Connection, hosts: Collection[str] | None) -> dict[str, Service]:
    if hosts is not None:
        return services.by_hosts(connection, hosts)
    every = services.search(connection, binary=COMPUTE_BINARY)
    return {service.host: service for service in every}


def _unlike(before: Service | None, service: Service) -> tuple[str, ...]:
    """Return the fields in which a service differs; all of them, of a new one."""
    return tuple(
        name
        for name in _FIELDS
        if before is None or getattr(before, name) != getattr(service, name)
    )


def _moved(before: Service | None, now: Service | None) -> bool:
    """Return whether a record is another than it was, apart from its heartbeat."""
    if before is None or now is None:
        return before is not now
    return bool(_unlike(before, now))


def _row_of(service: Service) -> Mapping[str, object]:
    columns = service._asdict()
    del columns["id"], columns["updated_at"]
    return columns | {"disabled": int(service.disabled), "forced_down": int(service.forced_down)}
