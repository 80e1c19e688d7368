# SPDX-License-Identifier: Apache-2.0
"""Sync of compute services, server groups and host aggregates."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from placement_sched.db.collations import Characters
from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import POLICIES, HostAggregate, ServerGroup
from placement_sched.model.compute_node import COMPUTE_BINARY, Service
from placement_sched.nova.databases import readers
from placement_sched.nova.databases.readers import CellRowCounts
from placement_sched.nova.sync import SyncTotals, find_differing, has_changed
from placement_sched.nova.sync.cells import FollowedCell, NovaCells
from placement_sched.schemas.formats import DocumentError
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, host_aggregates, server_groups, services

#: Seconds before a host would count as down. From then on, its heartbeat is read from nova.
_DOWN_MARGIN = 10
#: The fields that are compared, without the heartbeat.
_SERVICE_FIELDS = ("uuid", "disabled", "disabled_reason", "forced_down", "version")
_GROUP_FIELDS = ("name", "policy", "rules", "project_id", "user_id")
_AGGREGATE_FIELDS = ("uuid", "name", "hosts", "metadata")
#: Maximum length of a name with placeholders, without the id that makes it unique.
_MAX_SHOWN_NAME = 240
#: Maximum number of comparisons if other processes write at the same time.
_MAX_ATTEMPTS = 3
#: The heartbeats of all hosts that are up are read, because the clocks of hosts differ. Hosts that
#: went down within this time are included, because writes become visible with a delay.
_HEARTBEAT_OVERLAP = timedelta(seconds=15)
#: The heartbeat of a node is only displayed, and so only written if it differs by this much.
_NODE_HEARTBEAT_INTERVAL = timedelta(seconds=30)


@dataclass(slots=True)
class ServiceScan:
    """The changes of services found by a scan of all cells.

    A host whose last heartbeat is before ``due_before`` will soon count as down. ``now`` is the
    time of the scan. ``recorded`` are the services that are recorded as disabled or forced down, or
    with a heartbeat before ``due_before`` or after ``now``. ``closed`` are the services that nova
    has disabled or forced down. ``has_other_hosts``: a service or node was created or deleted.
    """

    due_before: datetime
    now: datetime
    cells: NovaCells
    recorded: Mapping[str, Service]
    closed: dict[str, Service] = field(default_factory=dict)
    heartbeats: dict[str, datetime] = field(default_factory=dict)
    has_other_hosts: bool = False

    def read_cell(self, cell: FollowedCell, connection: Connection) -> CellRowCounts:
        """Scan a cell, and return its numbers of services and nodes."""
        row_counts = readers.count_rows(connection)
        if cell.row_counts is None or row_counts[:2] != cell.row_counts[:2]:
            self.has_other_hosts = True
        for service in readers.list_disabled_services(connection):
            if not self.cells.find_ignore_reason(cell, service.host):
                self.closed[service.host] = _make_storable(service, self.cells.characters)
        outdated = [
            host
            for host, service in self.recorded.items()
            if (
                service.last_seen_up is None
                or not self.due_before <= service.last_seen_up <= self.now
            )
            and not self.cells.find_ignore_reason(cell, host)
        ]
        for host, last_seen in readers.map_heartbeats(connection, outdated).items():
            if last_seen != self.recorded[host].last_seen_up:
                self.heartbeats[host] = last_seen
        return row_counts


class ServiceSync:
    """Synchronizer of compute services, with a single instance per process."""

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._heartbeats: dict[str, datetime] = {}
        self._node_heartbeats: dict[str, datetime] = {}
        self._versions: dict[str, int | None] = {}

    def record_row_counts(self, cell: FollowedCell) -> None:
        """Count the services and nodes of a cell before all of them are read."""
        with cell.database.read() as connection:
            cell.row_counts = readers.count_rows(connection)

    def begin_scan(self, connection: Connection) -> ServiceScan:
        """Begin a scan for changed services, and hosts that will soon be down."""
        down_time: int = self._cells.settings.DEFAULT.service_down_time
        now = self._cells.clock()
        due_before = now - timedelta(seconds=down_time - min(_DOWN_MARGIN, down_time // 2))
        recorded = services.list_closed_or_unseen(connection, due_before, now)
        return ServiceScan(
            due_before, now, self._cells, {service.host: service for service in recorded}
        )

    def follow(self, scan: ServiceScan, totals: SyncTotals) -> None:
        """Record the result of a scan of all cells."""
        recorded = {
            host: row for host, row in scan.recorded.items() if row.disabled or row.forced_down
        }
        changed = find_differing(recorded, scan.closed, _SERVICE_FIELDS).keys()
        if scan.has_other_hosts:
            self.reconcile(totals)
        elif hosts := changed | (recorded.keys() - scan.closed.keys()):
            self.reconcile(totals, hosts)
        self.record_heartbeats(scan.heartbeats)

    def reconcile(
        self, totals: SyncTotals, hosts: Collection[str] | None = None, *, dry: bool = False
    ) -> None:
        """Compare the services of hosts (None: all), and record the differences.

        Records are read first, then nova's database. The differences are written only if the
        records have not changed since, so that an older reading never overwrites a newer reading.
        """
        for _ in range(_MAX_ATTEMPTS):
            with self._database.read() as connection:
                if hosts is None:
                    rows = services.search(connection, binary=COMPUTE_BINARY)
                    recorded = {service.host: service for service in rows}
                else:
                    recorded = services.map_by_host(connection, hosts)
            current = self._read(totals, hosts)
            deleted = self._select_hosts_of_available_cells(recorded.keys() - current.keys())
            differing = find_differing(recorded, current, _SERVICE_FIELDS)
            if dry or self._write(recorded, differing, deleted):
                break
        totals.add_read_count("services", len(current))
        totals.add_all("services", recorded, differing, deleted, _SERVICE_FIELDS, "host")
        if not dry:
            self._versions |= {host: service.version for host, service in current.items()}
            self._record_all_heartbeats(recorded, current)

    def _read(self, totals: SyncTotals, hosts: Collection[str] | None) -> dict[str, Service]:
        accepted: dict[str, Service] = {}

        def read(cell: FollowedCell) -> None:
            with cell.database.read() as connection:
                rows = readers.list_services(connection, hosts)
            for service in rows:
                reason = self._cells.find_ignore_reason(cell, service.host)
                if not reason and not service.uuid:
                    reason = "it has no uuid: run nova-manage db online_data_migrations"
                elif not reason and service.host in accepted:
                    reason = "another cell has a host of this name, which is recorded instead"
                if reason:
                    totals.add_issue(f"nova-compute of host {service.host} ({cell.title})", reason)
                else:
                    accepted[service.host] = _make_storable(service, self._cells.characters)

        self._cells.run_for_each_cell(read, totals=totals)
        return accepted

    def _select_hosts_of_available_cells(self, hosts: Collection[str]) -> frozenset[str]:
        """Return the hosts whose cells can all be read, as others may still exist."""
        away = {cell.uuid for cell in self._cells.away}
        if not away or not hosts:
            return frozenset(hosts)
        with self._database.read() as connection:
            cells = compute_nodes.map_cells_of_hosts(connection, hosts)
        return frozenset(host for host in hosts if cells.get(host) and not cells[host] & away)

    def _write(
        self,
        recorded: Mapping[str, Service],
        differing: Mapping[str, Service],
        deleted: Collection[str],
    ) -> bool:
        hosts = sorted({*differing, *deleted})
        if not hosts:
            return True
        now = self._cells.clock()

        def write(connection: Connection) -> bool:
            locked = services.map_by_host(connection, hosts, lock=True)
            same = {
                host
                for host in hosts
                if not has_changed(recorded.get(host), locked.get(host), _SERVICE_FIELDS)
            }
            ids = [locked[host].id for host in deleted if host in same]
            if ids:
                services.remove(connection, ids)
            services.put(connection, [differing[host] for host in differing if host in same], now)
            return len(same) == len(hosts)

        return self._database.write(write)

    def _record_all_heartbeats(
        self, recorded: Mapping[str, Service], current: Mapping[str, Service]
    ) -> None:
        """Record the heartbeats of nova, even if they are earlier than recorded."""
        heartbeats = {host: row.last_seen_up for host, row in current.items() if row.last_seen_up}
        earlier = {
            service.id: heartbeats[host]
            for host, service in recorded.items()
            if (last := service.last_seen_up) and heartbeats.get(host, last) < last
        }
        if earlier:
            now = self._cells.clock()
            self._database.write(
                lambda connection: services.set_last_seen(connection, earlier, now)
            )
        self.record_heartbeats(heartbeats)

    def sync_heartbeats(self, totals: SyncTotals) -> None:
        """Record the heartbeats of all hosts that are up.

        The services of upgraded hosts, whose version has changed, are compared completely.
        """
        down_time = timedelta(seconds=self._cells.settings.DEFAULT.service_down_time)
        since = self._cells.clock() - down_time - _HEARTBEAT_OVERLAP
        all_heartbeats: dict[str, datetime] = {}
        upgraded: set[str] = set()

        def read(cell: FollowedCell) -> None:
            with cell.database.read() as connection:
                heartbeats = readers.map_recent_heartbeats(connection, since)
            for host, (at, version) in heartbeats.items():
                if not self._cells.find_ignore_reason(cell, host):
                    all_heartbeats[host] = at
                    if host in self._versions and self._versions[host] != version:
                        upgraded.add(host)

        self._cells.run_for_each_cell(read, totals=totals)
        if upgraded:
            self.reconcile(totals, upgraded)
        self.record_heartbeats(
            {host: at for host, at in all_heartbeats.items() if self._heartbeats.get(host) != at}
        )

    def record_heartbeats(self, heartbeats: Mapping[str, datetime]) -> None:
        """Record heartbeats of hosts."""
        if not heartbeats:
            return
        now = self._cells.clock()
        node_heartbeats = {
            host: at
            for host, at in heartbeats.items()
            if host not in self._node_heartbeats
            or abs(at - self._node_heartbeats[host]) >= _NODE_HEARTBEAT_INTERVAL
        }

        def write(connection: Connection) -> None:
            services.record_seen(connection, heartbeats, now)
            compute_nodes.record_seen(connection, node_heartbeats, now)

        self._database.write(write)
        self._heartbeats |= heartbeats
        self._node_heartbeats |= node_heartbeats

    def get_last_seen(self, host: str) -> datetime | None:
        """Return the last heartbeat of a host that this process read, or None."""
        return self._heartbeats.get(host)


def _make_storable(service: Service, characters: Characters) -> Service:
    reason = service.disabled_reason
    if characters.find_unstorable(reason) is None or reason is None:
        return service
    return service._replace(disabled_reason=characters.replace_unstorable(reason))


class GroupSync:
    """Synchronizer of server groups, but not of their members."""

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._fingerprint: object = None
        self._newest_member: int | None = None

    def follow(
        self, totals: SyncTotals, *, is_full: bool = False, dry: bool = False
    ) -> tuple[str, ...]:
        """Sync server groups if nova's tables have changed, or if ``is_full``.

        With ``dry``, differences are only reported. Returns the uuids of the instances that joined
        a group since the last call. Raises :class:`NovaDatabaseUnavailable`.
        """
        with self._cells.read_api() as connection:
            fingerprint = readers.read_fingerprint(connection, readers.GROUP_TABLES)
            newest = readers.find_newest_member(connection)
            previous = newest if self._newest_member is None else self._newest_member
            joined = readers.list_members_since(connection, previous) if newest > previous else ()
        if is_full or fingerprint != self._fingerprint:
            self._reconcile(totals, dry=dry)
        if not dry:
            self._fingerprint, self._newest_member = fingerprint, newest
        return joined

    def _reconcile(self, totals: SyncTotals, *, dry: bool) -> None:
        with self._database.read() as connection:
            recorded = {group.uuid or "": group for group in server_groups.list_groups(connection)}
        with self._cells.read_api() as connection:
            groups = readers.map_server_groups(connection)
        storable = self._select_storable(groups, totals)
        differing = find_differing(recorded, storable, _GROUP_FIELDS)
        deleted = recorded.keys() - groups.keys()
        totals.add_read_count("server groups", len(groups))
        totals.add_all("server groups", recorded, differing, deleted, _GROUP_FIELDS, "name")
        if dry or not (differing or deleted):
            return
        now = self._cells.clock()

        def write(connection: Connection) -> None:
            server_groups.lock_many(connection, [*deleted, *differing])
            for uuid in sorted(deleted):
                server_groups.remove(connection, uuid)
            server_groups.put(connection, list(differing.values()), now)

        self._database.write(write)

    def _select_storable(
        self, groups: Mapping[str, ServerGroup | DocumentError], totals: SyncTotals
    ) -> dict[str, ServerGroup]:
        storable = {}
        for uuid, group in groups.items():
            if isinstance(group, DocumentError):
                totals.add_issue(f"server group {uuid}", group.build_invalid().detail)
            elif group.policy not in POLICIES:
                totals.add_issue(
                    f"server group {group.name} ({uuid})",
                    f"its policy {group.policy!r} is not one of {', '.join(POLICIES)}",
                )
            else:
                place = f"server group {uuid}"
                name = self._cells.replace_unstorable(group.name or "", place, "name", totals)
                texts = {"project_id": group.project_id, "user_id": group.user_id}
                if self._cells.is_left_out(place, texts, totals):
                    continue
                storable[uuid] = replace(group, name=name or group.name)
        return storable


class AggregateSync:
    """Synchronizer of host aggregates, with a single instance per process."""

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._fingerprint: readers.TablesFingerprint | None = None

    def follow(self, totals: SyncTotals, *, is_full: bool = False, dry: bool = False) -> None:
        """Sync aggregates if nova's tables have changed, or if ``is_full``.

        With ``dry``, differences are only reported. Raises :class:`NovaDatabaseUnavailable`.
        """
        with self._cells.read_api() as connection:
            fingerprint = readers.read_fingerprint(connection, readers.AGGREGATE_TABLES)
        if is_full or fingerprint != self._fingerprint:
            self.reconcile(totals, dry=dry)
        if not dry:
            self._fingerprint = fingerprint

    def reconcile(
        self, totals: SyncTotals, ids: Collection[int] | None = None, *, dry: bool = False
    ) -> None:
        """Compare aggregates (default: all) and record the differences.

        Records are read before nova's database, and written only if they have not changed since
        then. Raises :class:`NovaDatabaseUnavailable`.
        """
        for _ in range(_MAX_ATTEMPTS):
            with self._database.read() as connection:
                recorded = _read_recorded_aggregates(connection, ids)
            with self._cells.read_api() as connection:
                rows = readers.list_host_aggregates(connection, ids)
            aggregates = {}
            for row in rows:
                aggregate = self._make_storable(totals, row)
                texts = {f"metadata {key!r}": f"{key}{row.metadata[key]}" for key in row.metadata}
                place = f"aggregate {aggregate.name} ({aggregate.uuid})"
                if not self._cells.is_left_out(place, texts, totals):
                    aggregates[row.id] = aggregate
            differing = find_differing(recorded, aggregates, _AGGREGATE_FIELDS)
            # The old record of an aggregate that is left out stays.
            deleted = recorded.keys() - {row.id for row in rows}
            if dry or not (differing or deleted) or self._write(recorded, differing, deleted):
                break
        totals.add_read_count("host aggregates", len(aggregates))
        totals.add_all("host aggregates", recorded, differing, deleted, _AGGREGATE_FIELDS, "name")

    def _make_storable(self, totals: SyncTotals, aggregate: HostAggregate) -> HostAggregate:
        place = f"aggregate {aggregate.uuid}"
        name = self._cells.replace_unstorable(aggregate.name, place, "name", totals)
        if name != aggregate.name:  # names are unique, also with placeholders
            name = f"{name[:_MAX_SHOWN_NAME]} ({aggregate.id})"
        hosts = frozenset(
            host
            for host in aggregate.hosts
            if not self._cells.is_left_out(place, {"host": host}, totals)
        )
        return replace(aggregate, name=name, hosts=hosts)

    def _write(
        self,
        recorded: Mapping[int, HostAggregate],
        differing: Mapping[int, HostAggregate],
        deleted: Collection[int],
    ) -> bool:
        now = self._cells.clock()

        def write(connection: Connection) -> bool:
            ids = {*differing, *deleted}
            # From here on, no other process changes an aggregate until this transaction ends.
            change_counters.bump(connection, host_aggregates.SUBJECT)
            current = _read_recorded_aggregates(connection, None)
            if any(
                has_changed(recorded.get(key), current.get(key), _AGGREGATE_FIELDS) for key in ids
            ):
                return False
            # This also deletes other aggregates with the new names or uuids. They are synced next.
            host_aggregates.replace(connection, current, list(differing.values()), deleted, now)
            return True

        return self._database.write(write)


def _read_recorded_aggregates(
    connection: Connection, ids: Collection[int] | None
) -> dict[int, HostAggregate]:
    rows = host_aggregates.read_snapshot(connection)
    return {row.id: row for row in rows if ids is None or row.id in ids}
