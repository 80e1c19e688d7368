# SPDX-License-Identifier: Apache-2.0
"""Sync of compute nodes."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from placement_sched.db.failover import ServerEpoch, get_epoch
from placement_sched.db.transaction import Connection
from placement_sched.errors import Conflict
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.grouping import split_batches
from placement_sched.nova.databases import readers
from placement_sched.nova.databases.readers import CellRowCounts
from placement_sched.nova.sync import SyncTotals
from placement_sched.nova.sync.cells import FollowedCell, NovaCells
from placement_sched.nova.sync.services import ServiceSync
from placement_sched.operations.reports import build_defaults
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.node_report import read_report
from placement_sched.store.compute import compute_nodes, services
from placement_sched.store.compute.compute_nodes import RecordedNode

_NOUN = "compute nodes"
#: Maximum number of nodes that are read and written at once.
CHUNK = 500
_TRIES = 3
#: A round (a background sync of changes) reads rows from before the last round: hosts date the
#: rows, and their clocks may be minutes slow. A refresh before a request goes back less, for speed.
ROUND_OVERLAP = timedelta(seconds=300)
REFRESH_OVERLAP = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class ChangedNodes:
    """The nodes of a cell that were written recently.

    ``columns_by_uuid`` maps their uuids to the columns that nova changes. ``all_uuids`` has the
    uuids of all nodes if any were added or deleted, else None. ``at`` is when the reading began.
    """

    at: datetime
    columns_by_uuid: Mapping[str, tuple[object, ...]]
    all_uuids: frozenset[str] | None


class NodeSync:
    """Synchronizer of compute nodes, with a single instance per process."""

    def __init__(self, cells: NovaCells, services: ServiceSync) -> None:
        self._cells = cells
        self._database = cells.database
        self._services = services
        # By uuid, the hash of nova's row and the version of its record when both were last equal.
        # While both are unchanged, the JSON of the row need not be parsed, which is slow.
        self._synced: dict[str, tuple[int, int]] = {}
        # The epoch of this service's database in which these versions are valid.
        self._epoch: ServerEpoch = None

    def reconcile_all(
        self, cell: FollowedCell, totals: SyncTotals, done: Callable[[int], None], *, dry: bool
    ) -> None:
        """Compare all nodes of a cell and record the differences."""
        with self._database.read() as connection:
            recorded = compute_nodes.map_uuids_by_cell(connection).get(cell.uuid, ())
        started = self._cells.clock()
        with cell.database.read() as connection:
            changed = readers.map_changed_nodes(connection)
            without_uuid = readers.list_nodes_without_uuid(connection)
        for host, name in without_uuid:
            totals.unread |= {host or "", name or ""}
            reason = "it has no uuid: restart nova-compute on this host"
            totals.add_issue(f"compute node {name} of host {host} ({cell.title})", reason)
        totals.add_read_count(_NOUN, len(changed))
        for chunk in split_batches((*changed, *(set(recorded) - changed.keys())), CHUNK):
            self.reconcile(cell, chunk, totals, dry=dry)
            if not dry:
                cell.nodes.record_rows(changed, changed.keys() & set(chunk), started)
            done(len(chunk))
        if not dry:
            cell.remapped.clear()
            cell.nodes.keep(changed)
            cell.nodes_read = started

    def delete_other_cells(self, totals: SyncTotals, *, dry: bool) -> None:
        """Delete the nodes of cells that nova no longer has."""
        with self._database.read() as connection:
            recorded = compute_nodes.map_uuids_by_cell(connection)
        valid = {cell.uuid for cell in self._cells.every}
        deleted = [uuid for cell, uuids in recorded.items() if cell not in valid for uuid in uuids]
        for uuid in deleted:
            totals.add_deleted(_NOUN, uuid)
        if deleted and not dry:
            self._database.write(lambda connection: compute_nodes.remove_many(connection, deleted))

    def find_changed(
        self,
        cell: FollowedCell,
        connection: Connection,
        row_counts: CellRowCounts,
        *,
        is_round: bool,
    ) -> ChangedNodes:
        """Return the nodes of a cell that were written since the last call."""
        now = self._cells.clock()
        overlap = ROUND_OVERLAP if is_round else REFRESH_OVERLAP
        since = (cell.nodes_read or now - ROUND_OVERLAP) - overlap
        changed = readers.map_changed_nodes(connection, since=since)
        are_row_counts_unchanged = (
            cell.row_counts is not None and cell.row_counts[2:] == row_counts[2:]
        )
        all_uuids = None if are_row_counts_unchanged else readers.list_node_uuids(connection)
        return ChangedNodes(now, changed, all_uuids)

    def follow(
        self, cell: FollowedCell, changed: ChangedNodes, totals: SyncTotals, *, is_round: bool
    ) -> None:
        """Read the nodes in ``changed`` again, and record the differences.

        With ``is_round``, also reads nodes that may have changed again within a second.
        """
        keys = dict.fromkeys(cell.nodes.to_read(changed.columns_by_uuid, is_round=is_round))
        remapped = set(cell.remapped)
        if changed.all_uuids is not None:
            with self._database.read() as connection:
                recorded = set(compute_nodes.map_uuids_by_cell(connection).get(cell.uuid, ()))
                names = compute_nodes.map_uuids_by_name(connection, remapped, cell.uuid)
            keys |= dict.fromkeys((recorded ^ changed.all_uuids) | set(names.values()))
        for chunk in split_batches(keys, CHUNK):
            self.reconcile(cell, chunk, totals)
            cell.nodes.record_rows(
                changed.columns_by_uuid, changed.columns_by_uuid.keys() & set(chunk), changed.at
            )
            totals.add_read_count(_NOUN, len(chunk))
        cell.nodes_read = changed.at
        cell.remapped -= remapped

    def reconcile(
        self, cell: FollowedCell, uuids: Collection[str], totals: SyncTotals, *, dry: bool = False
    ) -> None:
        """Compare nodes of a cell and record the differences.

        A node that cannot be parsed keeps its record and is reported as an issue.
        """
        for _ in range(_TRIES):
            with self._database.read() as connection:
                if (epoch := get_epoch(connection)) != self._epoch:
                    self._epoch, self._synced = epoch, {}
                recorded = compute_nodes.read_records(connection, uuids)
            living, nodes = self._read(cell, uuids, recorded, totals)
            nodes = self._drop_name_conflicts(cell, nodes, totals)
            with self._database.read() as connection:
                differences = compute_nodes.map_changed_columns(connection, nodes)
            for node in nodes:
                if node.uuid in recorded and node.uuid not in differences:
                    self._synced[node.uuid] = (living[node.uuid], recorded[node.uuid].version)
            deleted = [
                uuid
                for uuid in uuids
                if uuid in recorded and uuid not in living and recorded[uuid].cell_uuid == cell.uuid
            ]
            differing = [node for node in nodes if node.uuid in differences]
            if dry or self._write(differing, deleted, recorded):
                break
        for node in differing:
            new, fields = node.uuid not in recorded, differences[node.uuid]
            totals.add_difference(_NOUN, node.hypervisor_hostname, fields, new=new)
        for uuid in deleted:
            totals.add_deleted(_NOUN, uuid)

    def _read(
        self,
        cell: FollowedCell,
        uuids: Collection[str],
        old: Mapping[str, RecordedNode],
        totals: SyncTotals,
    ) -> tuple[dict[str, int], list[ComputeNode]]:
        """Return the hashes of living nodes' rows, and nodes that may differ."""
        with cell.database.read() as connection:
            rows = list(readers.read_nodes(connection, uuids))
        base = build_defaults(self._cells.settings, self._cells.clock())
        ratios = (base.cpu_allocation_ratio, base.ram_allocation_ratio)
        context = (cell.uuid, *ratios, base.disk_allocation_ratio)
        living: dict[str, int] = {}
        nodes: list[ComputeNode] = []
        for row in rows:
            place = f"compute node {row.hypervisor_hostname} ({row.uuid}) of {cell.title}"
            reason = self._cells.find_ignore_reason(cell, row.host)
            if title := self._find_owning_cell(cell, old.get(row.uuid), row.host or ""):
                reason = reason or f"{title} has a node of the same uuid"
            if reason:
                totals.unread.add(row.uuid)
                totals.add_issue(place, f"it is left out: {reason}")
                continue
            names = {"hypervisor_hostname": row.hypervisor_hostname}
            if self._cells.is_left_out(place, names, totals):
                totals.unread |= {row.uuid, row.hypervisor_hostname, row.host}
                continue
            if row.free_disk_gb is None:  # nova never selects it
                totals.unread |= {row.uuid, row.hypervisor_hostname, row.host}
                reason = "free_disk_gb is not reported yet, and no instance is placed there"
                totals.add_issue(place, reason)
                continue
            digest = living[row.uuid] = hash((context, readers.drop_times(row)))
            if row.uuid in old and self._synced.get(row.uuid) == (digest, old[row.uuid].version):
                continue
            # The host's last heartbeat is the time of the report.
            heartbeat = self._services.get_last_seen(row.host or "") or row.updated_at
            now = (heartbeat or row.created_at or base.now).replace(microsecond=0)
            try:
                report = readers.build_report(row, cell.uuid)
                nodes.append(read_report(report, replace(base, now=now)).node)
            except DocumentError as error:
                reason = error.build_invalid().detail
                totals.unread |= {row.uuid, row.hypervisor_hostname, row.host}
                totals.add_issue(place, f"its record is not updated: {reason}")
        return living, nodes

    def _find_owning_cell(
        self, cell: FollowedCell, recorded: RecordedNode | None, host: str
    ) -> str | None:
        """Return the title of another cell that owns the recorded node, or None.

        The recorded cell of a node owns it until this cell deletes the node, nova maps the host to
        a different cell, or only the service of ``host`` in this cell is up. nova's ComputeFilter
        then rejects the node of the other cell.
        """
        if recorded is None or recorded.cell_uuid is None or recorded.cell_uuid == cell.uuid:
            return None
        mapped = self._cells.mapped_hosts.get(recorded.host, recorded.cell_uuid)
        if mapped != recorded.cell_uuid:
            return None
        now, down_time = self._cells.clock(), self._cells.settings.DEFAULT.service_down_time
        with self._database.read() as connection:
            by_host = services.map_by_host(connection, {host, recorded.host})
        up = {name for name, service in by_host.items() if service.is_up(now, down_time)}
        if host in up and recorded.host not in up:
            return None
        titles = {peer.uuid: peer.title for peer in self._cells.every}
        return titles.get(recorded.cell_uuid)

    def _drop_name_conflicts(
        self, cell: FollowedCell, nodes: Sequence[ComputeNode], totals: SyncTotals
    ) -> list[ComputeNode]:
        """Drop nodes with a host and name of another cell, and report issues."""
        elsewhere = {each.uuid for each in self._cells.every} - {cell.uuid}
        if not elsewhere or not nodes:
            return list(nodes)
        with self._database.read() as connection:
            names = compute_nodes.map_uuids_by_name(connection, {node.host for node in nodes})
            owned = {node.uuid: uuid for node in nodes if (uuid := _find_name_owner(node, names))}
            owners = compute_nodes.read_records(connection, owned.values())
        accepted = []
        for node in nodes:
            owner = owners.get(owned.get(node.uuid, ""))
            mapped_here = self._cells.mapped_hosts.get(node.host) == cell.uuid
            if owner is None or owner.cell_uuid not in elsewhere or mapped_here:
                accepted.append(node)
                continue
            place = f"compute node {node.hypervisor_hostname} ({node.uuid}) of {cell.title}"
            totals.unread |= {node.uuid, node.hypervisor_hostname, node.host}
            totals.add_issue(place, "another cell has a node of this host and name")
        return accepted

    def _write(
        self,
        nodes: Sequence[ComputeNode],
        deleted: Collection[str],
        recorded: Mapping[str, RecordedNode],
    ) -> bool:
        if not nodes and not deleted:
            return True
        now = self._cells.clock()

        def write(connection: Connection) -> None:
            names = compute_nodes.map_uuids_by_name(connection, {node.host for node in nodes})
            # A node may come back with another uuid, and two nodes may swap their names.
            replaced = {uuid for node in nodes if (uuid := _find_name_owner(node, names))}
            compute_nodes.remove_many(connection, [*deleted, *replaced])
            after = {
                node.uuid: recorded[node.uuid].version
                for node in nodes
                if node.uuid in recorded and node.uuid not in replaced
            }
            compute_nodes.write(connection, nodes, now, after=after)

        try:
            self._database.write(write)
        except Conflict:
            return False
        return True


def _find_name_owner(node: ComputeNode, names: Mapping[tuple[str, str], str]) -> str | None:
    """Return the uuid of another recorded node with this node's host and name."""
    uuid = names.get((node.host, node.hypervisor_hostname))
    return None if uuid == node.uuid else uuid
