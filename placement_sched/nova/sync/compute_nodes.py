"""Keeps the compute nodes recorded here as nova's cells have them."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from placement_sched.db.failover import History, history_of
from placement_sched.db.sql import batches
from placement_sched.db.transaction import Connection
from placement_sched.errors import Conflict
from placement_sched.model.compute_node import ComputeNode
from placement_sched.nova.databases import hosts as nova_nodes
from placement_sched.nova.databases import hosts as nova_services
from placement_sched.nova.databases.connections import NovaAway
from placement_sched.nova.databases.hosts import CellCensus
from placement_sched.nova.sync.cells import FollowedCell, NovaCells
from placement_sched.nova.sync.findings import Account
from placement_sched.nova.sync.services import ServiceUpkeep
from placement_sched.operations.reports import defaults
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.node_report import Defaults, read_report
from placement_sched.store.compute import compute_nodes
from placement_sched.store.compute.compute_nodes import RecordedNode

_NOUN = "compute nodes"
#: So many nodes are read and written at once.
CHUNK = 500
_TRIES = 3
#: How far a round looks back beyond the last one: the clocks of hosts, which date the rows, may be
#: some minutes slow. Before a request it is less, for speed: the next round finds the rest.
ROUND_OVERLAP = timedelta(seconds=300)
REFRESH_OVERLAP = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class MovedNodes:
    """What moves of the nodes that were written of late, and the uuids of all if any came or went.

    ``at`` is the time here as the reading began.
    """

    at: datetime
    moving: Mapping[str, tuple[object, ...]]
    everyone: frozenset[str] | None


class NodeUpkeep:
    """Keeps compute nodes in step; one for each process."""

    def __init__(self, cells: NovaCells, services: ServiceUpkeep) -> None:
        self._cells = cells
        self._database = cells.database
        self._services = services
        # By uuid, what a row of nova's said when it was last found to be recorded as it is, and the
        # version of that record: most are read again and again, and reading JSON takes long.
        self._same: dict[str, tuple[int, int]] = {}
        # The history of this service's database that these versions are of.
        self._history: History = None

    def everything(
        self, cell: FollowedCell, account: Account, done: Callable[[int], None], *, dry: bool
    ) -> None:
        """Compare all nodes of a cell, and record them as nova has them."""
        with self._database.read() as connection:
            recorded = compute_nodes.uuids_by_cell(connection).get(cell.uuid, ())
        started = self._cells.clock()
        with cell.database.read() as connection:
            moving = nova_nodes.moved(connection)
            nameless = nova_nodes.without_uuid(connection)
        for host, name in nameless:
            account.unread |= {host or "", name or ""}
            reason = "it has no uuid; nova-compute of this host gives it one when it starts"
            account.misfit(f"compute node {name} of host {host} ({cell.title})", reason)
        account.note_read(_NOUN, len(moving))
        for chunk in batches((*moving, *(set(recorded) - moving.keys())), CHUNK):
            self.settle(cell, chunk, account, dry=dry)
            if not dry:
                cell.nodes.note(moving, moving.keys() & set(chunk), started)
            done(len(chunk))
        if not dry:
            cell.remapped.clear()
            cell.nodes.keep(moving)
            cell.nodes_read = started

    def forget_other_cells(self, account: Account, *, dry: bool) -> None:
        """Forget the nodes of cells that are none of nova's (any more)."""
        with self._database.read() as connection:
            recorded = compute_nodes.uuids_by_cell(connection)
        known = {cell.uuid for cell in self._cells.every}
        gone = [uuid for cell, uuids in recorded.items() if cell not in known for uuid in uuids]
        for uuid in gone:
            account.gone(_NOUN, uuid)
        if gone and not dry:
            self._database.write(lambda connection: compute_nodes.remove_many(connection, gone))

    def moved(
        self, cell: FollowedCell, connection: Connection, census: CellCensus, *, settling: bool
    ) -> "MovedNodes":
        """Return which nodes of a cell were written since the last time, came or went."""
        now = self._cells.clock()
        overlap = ROUND_OVERLAP if settling else REFRESH_OVERLAP
        since = (cell.nodes_read or now - ROUND_OVERLAP) - overlap
        moving = nova_nodes.moved(connection, since=since)
        counted = cell.census is not None and cell.census[2:] == census[2:]
        everyone = None if counted else nova_nodes.all_uuids(connection)
        return MovedNodes(now, moving, everyone)

    def follow(
        self, cell: FollowedCell, moved: "MovedNodes", account: Account, *, settling: bool
    ) -> None:
        """Record those nodes that moved; with ``settling`` those of one second ago again."""
        keys = dict.fromkeys(cell.nodes.to_read(moved.moving, settling=settling))
        remapped = set(cell.remapped)
        if moved.everyone is not None:
            with self._database.read() as connection:
                recorded = set(compute_nodes.uuids_by_cell(connection).get(cell.uuid, ()))
                names = compute_nodes.uuids_by_name(connection, remapped, cell.uuid)
            keys |= dict.fromkeys((recorded ^ moved.everyone) | set(names.values()))
        for chunk in batches(keys, CHUNK):
            self.settle(cell, chunk, account)
            cell.nodes.note(moved.moving, moved.moving.keys() & set(chunk), moved.at)
            account.note_read(_NOUN, len(chunk))
        cell.nodes_read = moved.at
        cell.remapped -= remapped

    def settle(
        self, cell: FollowedCell, uuids: Collection[str], account: Account, *, dry: bool = False
    ) -> None:
        """Compare nodes of a cell, and record those that differ as nova has them.

        A node that cannot be read stays as it was recorded, and is a misfit.
        """
        for _ in range(_TRIES):
            with self._database.read() as connection:
                if (history := history_of(connection)) != self._history:
                    self._history, self._same = history, {}
                before = compute_nodes.recorded(connection, uuids)
            living, nodes = self._read(cell, uuids, before, account)
            nodes = self._fitting(cell, nodes, account)
            with self._database.read() as connection:
                unlike = compute_nodes.unlike(connection, nodes)
            for node in nodes:
                if node.uuid in before and node.uuid not in unlike:
                    self._same[node.uuid] = (living[node.uuid], before[node.uuid].version)
            gone = [
                uuid
                for uuid in uuids
                if uuid in before and uuid not in living and before[uuid].cell_uuid == cell.uuid
            ]
            differing = [node for node in nodes if node.uuid in unlike]
            if dry or self._write(differing, gone, before):
                break
        for node in differing:
            new, fields = node.uuid not in before, unlike[node.uuid]
            account.differs(_NOUN, node.hypervisor_hostname, fields, new=new)
        for uuid in gone:
            account.gone(_NOUN, uuid)

    def _read(
        self,
        cell: FollowedCell,
        uuids: Collection[str],
        before: Mapping[str, RecordedNode],
        account: Account,
    ) -> tuple[dict[str, int], list[ComputeNode]]:
        """Return what the nodes that live say, by uuid, and of them those that may differ."""
        with cell.database.read() as connection:
            rows = list(nova_nodes.whole(connection, uuids))
        elsewhere = self._of_other_cells(cell, rows, before)
        silent = defaults(self._cells.settings, self._cells.clock())
        ratios = (silent.cpu_allocation_ratio, silent.ram_allocation_ratio)
        terms = (cell.uuid, *ratios, silent.disk_allocation_ratio)
        living: dict[str, int] = {}
        nodes: list[ComputeNode] = []
        for row in rows:
            place = f"compute node {row.hypervisor_hostname} ({row.uuid}) of {cell.title}"
            if reason := self._cells.why_not_of(cell, row.host) or elsewhere.get(row.uuid):
                account.unread.add(row.uuid)
                account.misfit(place, f"it is left out: {reason}")
                continue
            names = {"hypervisor_hostname": row.hypervisor_hostname}
            if self._cells.is_left_out(place, names, account):
                account.unread |= {row.uuid, row.hypervisor_hostname, row.host}
                continue
            if row.free_disk_gb is None:  # nova never selects it
                account.unread |= {row.uuid, row.hypervisor_hostname, row.host}
                reason = "its free_disk_gb is not reported yet, so that nothing is placed there"
                account.misfit(place, reason)
                continue
            said = living[row.uuid] = hash((terms, nova_nodes.said(row)))
            if row.uuid in before and self._same.get(row.uuid) == (said, before[row.uuid].version):
                continue
            try:
                node = read_report(nova_nodes.report_of(row, cell.uuid), self._silent(row, silent))
            except DocumentError as wrong:
                reason = wrong.at_path().detail
                account.unread |= {row.uuid, row.hypervisor_hostname, row.host}
                account.misfit(place, f"it stays as it was recorded: {reason}")
            else:
                nodes.append(node.node)
        return living, nodes

    def _of_other_cells(
        self,
        cell: FollowedCell,
        rows: Iterable[nova_nodes.NodeRow],
        before: Mapping[str, RecordedNode],
    ) -> dict[str, str]:
        """Return why the record of another cell is kept, by the uuids of nodes in both cells."""
        hosts = {row.uuid: row.host or "" for row in rows}
        reasons: dict[str, str] = {}
        for other in self._cells.every:
            recorded = hosts.keys() & before.keys()
            theirs = [uuid for uuid in recorded if before[uuid].cell_uuid == other.uuid]
            if other is cell or not theirs:
                continue
            mapped = self._cells.mapped_hosts.get
            kept = {uuid for uuid in theirs if mapped(before[uuid].host, other.uuid) == other.uuid}
            if other.away_until is None:
                with suppress(NovaAway):
                    kept = self._that_count(other, cell, {uuid: hosts[uuid] for uuid in theirs})
            reasons |= dict.fromkeys(kept, f"{other.title} has a node of the same uuid")
        return reasons

    def _that_count(
        self, other: FollowedCell, cell: FollowedCell, hosts: Mapping[str, str]
    ) -> set[str]:
        """Return the nodes that count in ``other``, of those that ``cell`` has too on these hosts.

        The one whose host is up counts, and of two that are up the one in the older cell.
        """
        with other.database.read() as connection:
            theirs = {
                row.uuid: row.host or ""
                for row in nova_nodes.whole(connection, hosts)
                if not self._cells.why_not_of(other, row.host)
            }
            up_there = self._up(connection, theirs.values())
        with cell.database.read() as connection:
            up_here = self._up(connection, hosts.values())
        order = self._cells.every
        older = order.index(other) < order.index(cell)
        return {
            uuid
            for uuid, host in theirs.items()
            if (host in up_there, older) > (hosts[uuid] in up_here, not older)
        }

    def _up(self, connection: Connection, hosts: Collection[str]) -> set[str]:
        """Return those of the hosts that have sent a heartbeat lately."""
        down_time = self._cells.settings.DEFAULT.service_down_time
        since = self._cells.clock() - timedelta(seconds=down_time)
        beats = nova_services.heartbeats_of(connection, set(hosts))
        return {host for host, at in beats.items() if at >= since}

    def _fitting(
        self, cell: FollowedCell, nodes: Sequence[ComputeNode], account: Account
    ) -> list[ComputeNode]:
        """Return the nodes whose names no node of another cell has; the others are misfits."""
        elsewhere = {one.uuid for one in self._cells.every} - {cell.uuid}
        if not elsewhere or not nodes:
            return list(nodes)
        with self._database.read() as connection:
            names = compute_nodes.uuids_by_name(connection, {node.host for node in nodes})
            holders = {node.uuid: uuid for node in nodes if (uuid := _holder(node, names))}
            holding = compute_nodes.recorded(connection, holders.values())
        fitting = []
        for node in nodes:
            holder = holding.get(holders.get(node.uuid, ""))
            mapped_here = self._cells.mapped_hosts.get(node.host) == cell.uuid
            if holder is None or holder.cell_uuid not in elsewhere or mapped_here:
                fitting.append(node)
                continue
            place = f"compute node {node.hypervisor_hostname} ({node.uuid}) of {cell.title}"
            account.unread |= {node.uuid, node.hypervisor_hostname, node.host}
            account.misfit(place, "another cell has a node of this host and name")
        return fitting

    def _silent(self, row: nova_nodes.NodeRow, silent: Defaults) -> Defaults:
        """Return what applies where a row is silent; the heartbeat is that of its host."""
        seen = self._services.last_seen(row.host or "") or row.updated_at or row.created_at
        return replace(silent, now=(seen or silent.now).replace(microsecond=0))

    def _write(
        self,
        nodes: Sequence[ComputeNode],
        gone: Collection[str],
        before: Mapping[str, RecordedNode],
    ) -> bool:
        """Write what differs; return whether all that was recorded still stood as it was read."""
        if not nodes and not gone:
            return True
        now = self._cells.clock()

        def write(connection: Connection) -> None:
            names = compute_nodes.uuids_by_name(connection, {node.host for node in nodes})
            # A node may come back under another uuid, and two may swap their names.
            replaced = {uuid for node in nodes if (uuid := _holder(node, names))}
            compute_nodes.remove_many(connection, [*gone, *replaced])
            after = {
                node.uuid: before[node.uuid].version
                for node in nodes
                if node.uuid in before and node.uuid not in replaced
            }
            compute_nodes.write(connection, nodes, now, after=after)

        try:
            self._database.write(write)
        except Conflict:
            return False
        return True


def _holder(node: ComputeNode, names: Mapping[tuple[str, str], str]) -> str | None:
    """Return the uuid of another node that is recorded under the names of this one."""
    uuid = names.get((node.host, node.hypervisor_hostname))
    return None if uuid == node.uuid else uuid
