# SPDX-License-Identifier: Apache-2.0
"""Sync of instances."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import orjson

from placement_sched.db.transaction import Connection
from placement_sched.errors import ServiceFailed
from placement_sched.limits import MAX_METADATA_CHARACTERS
from placement_sched.model.document import to_storable
from placement_sched.model.grouping import split_batches
from placement_sched.model.instance import InstanceMetadata
from placement_sched.nova.databases import NovaDatabaseUnavailable, readers
from placement_sched.nova.databases.readers import Flavors, NovaInstance, RecordedFlavor
from placement_sched.nova.databases.requests import (
    NovaRequest,
    build_request,
    find_booted_from_volume,
    map_request_specs,
)
from placement_sched.nova.sync import SyncTotals
from placement_sched.nova.sync.cells import FollowedCell, NovaCells
from placement_sched.scheduler.request import create_neutron_client
from placement_sched.store.compute import ended_instances, instances, server_groups
from placement_sched.store.compute import flavors as flavor_store
from placement_sched.store.compute.instances import InstanceRecord, find_storable_id

#: The columns that are compared, in the order of :class:`InstanceRecord` after the uuid, and the
#: names of their fields.
_COLUMNS = InstanceRecord._fields[1 : InstanceRecord._fields.index("server_group") + 1]
_REQUEST = "request"
FIELDS = (*(name.removesuffix("_digest") for name in _COLUMNS), _REQUEST)
_TIMES = ("created_at", "launched_at")
_METADATA = InstanceMetadata._fields
_TEXTS = [name for name in _COLUMNS if name not in {*_TIMES, *_METADATA}]
#: The columns of a field, if they are not just the column of its name.
_COLUMNS_OF = {
    "flavor": ("flavor", "flavor_digest", "flavorid"),
    "image_id": ("image_id", "image"),
    _REQUEST: (_REQUEST, "image"),
}
#: Keys of a complete request that come from the request spec, and the key that comes from neutron.
_SPEC_KEYS, _PORTS = {"availability_zone", "scheduler_hints"}, "requested_resources"
_NOUN = "instances"
#: Number of instances that are read and written at once.
CHUNK = 1000
_TRIES = 3
#: A round (a background sync of changes) reads rows from before the last round: hosts date the
#: rows, and their clocks may be minutes slow.
OVERLAP = timedelta(seconds=300)
#: Nova creates an instance in its cell only after scheduling: a claim of this service is kept this
#: long even if no cell has the instance.
GRACE = timedelta(seconds=600)


class _RecordChanged(Exception):
    """A record or group has changed since it was read."""


class NewRecord(NamedTuple):
    """A record to write: the row of the table without its id, and the flavor."""

    uuid: str
    row: dict[str, Any]
    flavor: RecordedFlavor


def build_record(
    instance: NovaInstance,
    recorded: InstanceRecord | None,
    *,
    flavor: RecordedFlavor,
    group: str | None,
    now: datetime,
    is_pending: bool,
) -> NewRecord:
    """Build the record of an instance.

    If the record ``is_pending``, a claim whose host nova may not have written yet, it keeps this
    host. If the image id is unchanged, the image is kept as claimed.
    """
    host, node = instance.host, instance.node
    created_at = parse_iso_time(instance.created_at)
    image_id = find_storable_id(instance.image_ref or None)
    image = None if image_id is None else to_storable({"id": image_id})
    if recorded is not None:
        if host is None and instance.vm_state == "building" and is_pending:
            host, node = recorded.host, recorded.node
        if recorded.image_id == image_id:
            image = recorded.image
        created_at = created_at or parse_iso_time(recorded.created_at)
    created_at = created_at or now
    same = ("uuid", "project_id", "user_id", "vm_state", "task_state", *_METADATA)
    row = {
        **{name: getattr(instance, name) for name in same},
        "host": host,
        "node": node,
        "display_name": instance.display_name or instance.uuid,
        "flavor": None,
        "flavor_digest": flavor.digest,
        "flavorid": find_storable_id(flavor.flavorid),
        "image_id": image_id,
        "image": image,
        "server_group": group,
        _REQUEST: None if recorded is None else recorded.request,
        "decision_uuid": None if recorded is None else recorded.decision_uuid,
        "created_at": created_at,
        "launched_at": parse_iso_time(instance.launched_at),
        "updated_at": parse_iso_time(instance.updated_at) or created_at,
    }
    return NewRecord(instance.uuid, row, flavor)


def find_changed_columns(recorded: InstanceRecord | None, record: NewRecord) -> tuple[str, ...]:
    """Return the fields of a record that differ, or all fields if it is new."""
    if recorded is None:
        return FIELDS
    columns = (*_COLUMNS, _REQUEST)
    old: dict[str, Any] = {name: getattr(recorded, name) for name in columns}
    old |= {name: parse_iso_time(old[name]) for name in _TIMES}
    return tuple(
        field for field, name in zip(FIELDS, columns, strict=True) if old[name] != record.row[name]
    )


def _add_request(row: dict[str, Any], nova_request: NovaRequest) -> None:
    """Add the request of an instance in nova to its record.

    Values that nova does not have stay as recorded. An image without properties is completed.
    """
    old = orjson.loads(row[_REQUEST]) if row[_REQUEST] else {}
    merged = {**old, **nova_request.request}
    if not row[_REQUEST] or merged != old:
        row[_REQUEST] = to_storable(merged)
    image = row["image"]
    if nova_request.image and (image is None or orjson.loads(image).keys() == {"id"}):
        row["image"] = to_storable(nova_request.image)


def _needs_request(
    instance: NovaInstance, recorded: InstanceRecord | None, keys: Collection[str]
) -> bool:
    """Return whether to read the request of an instance.

    Nova changes a request only together with the host or image of an instance. A recorded request
    without any of ``keys`` is incomplete: the spec was not readable, or neutron was away.
    """
    if not instance.lives:
        return False
    if recorded is None or recorded.request is None:
        return True
    if not orjson.loads(recorded.request).keys() >= set(keys):
        return True
    is_moved = instance.host is not None and instance.host != recorded.host
    return is_moved or find_storable_id(instance.image_ref or None) != recorded.image_id


def parse_iso_time(text: str | None) -> datetime | None:
    """Parse the ISO 8601 time of a database, without fractions of a second."""
    return None if text is None else datetime.fromisoformat(text[:19])


@dataclass(slots=True)
class _LookupResult:
    living: dict[str, NovaInstance] = field(default_factory=dict)
    #: Instances that are deleted or hidden in a cell.
    ended: set[str] = field(default_factory=set)
    #: Instances that live in a cell other than nova's API maps them to.
    strays: dict[str, NovaInstance] = field(default_factory=dict)
    #: The uuid of the cell that nova's API maps each instance to.
    mapped: Mapping[str, str] = field(default_factory=dict)
    #: Instances that are deleted in the cell that nova's API maps them to.
    deleted: set[str] = field(default_factory=set)

    def add(self, cell: FollowedCell, rows: Iterable[NovaInstance]) -> None:
        for row in rows:
            is_mapped_here = self.mapped.get(row.uuid, cell.uuid) == cell.uuid
            if not row.lives:
                self.ended.add(row.uuid)
                if is_mapped_here and row.deleted:
                    self.deleted.add(row.uuid)
            elif is_mapped_here:
                self.living.setdefault(row.uuid, row)
            else:
                self.strays.setdefault(row.uuid, row)


class InstanceSync:
    """Synchronizer of nova's instances, with a single object per process."""

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._flavors = Flavors()
        self._neutron = create_neutron_client(cells.settings)
        self._keys = _SPEC_KEYS if self._neutron is None else {*_SPEC_KEYS, _PORTS}

    def count(self) -> int:
        """Return the number of living instances in all cells that answer."""
        total = 0

        def count(cell: FollowedCell) -> None:
            nonlocal total
            with cell.database.read() as connection:
                total += readers.count_instances(connection)

        self._cells.run_for_each_cell(count)
        return total

    def reconcile_all(
        self, totals: SyncTotals, number: int, done: Callable[[int], None], *, dry: bool = False
    ) -> None:
        """Compare all instances, in ranges of uuids to limit the memory."""
        started = self._cells.clock()
        for first, last in readers.split_uuid_range(number // CHUNK + 1):
            with self._database.read() as connection:
                recorded = {
                    row.uuid: row for row in instances.list_records_between(connection, first, last)
                }
            living = self._read_between(first, last, recorded, totals)
            groups = self._map_groups(living)
            records = self._build_records(living.values(), recorded, groups, totals)
            totals.add_read_count(_NOUN, len(records))
            new = [each for each in records if each.uuid not in recorded]
            unchanged = {
                each.uuid
                for each in records
                if not find_changed_columns(recorded.get(each.uuid), each)
            }
            if dry or self._write({}, new, ()):
                _add_differences(new, {}, totals)
                unchanged |= {each.uuid for each in new}
            differing = recorded.keys() | {each.uuid for each in new}
            self.reconcile(differing - unchanged, totals, flavors=True, dry=dry)
            done(len(records))
        if not dry:
            for cell in self._cells.every:
                cell.instances_read = started

    def follow(self, cell: FollowedCell, totals: SyncTotals) -> None:
        """Record instances of a cell that were written since its last reading."""
        now = self._cells.clock()
        since = (cell.instances_read or now) - OVERLAP
        with cell.database.read() as connection:
            moving = readers.map_changed_instances(connection, since)
        for chunk in split_batches(cell.instances.to_read(moving, is_round=False), CHUNK):
            self.reconcile(chunk, totals, home=cell)
            cell.instances.record_rows(moving, chunk, now)
            if cell is not self._cells.cell0:
                totals.add_read_count(_NOUN, len(chunk))
        cell.instances.keep(moving)
        cell.instances_read = now

    def reconcile(
        self,
        uuids: Collection[str],
        totals: SyncTotals,
        *,
        home: FollowedCell | None = None,
        flavors: bool = False,
        dry: bool = False,
    ) -> None:
        """Compare instances and record the differences.

        ``home`` is the cell that is read first. With ``flavors``, flavors are read even if the
        record has the same ``instance_type_id``, which nova changes together with the flavor.
        """
        if not uuids:
            return
        for _ in range(_TRIES):
            with self._database.read() as connection:
                recorded = {
                    record.uuid: record for record in instances.read_records(connection, uuids)
                }
            result = self._look_up(uuids, {} if flavors else recorded, totals, home)
            groups = self._map_groups(result.living)
            records = self._build_records(result.living.values(), recorded, groups, totals)
            differing = [
                record
                for record in records
                if find_changed_columns(recorded.get(record.uuid), record)
            ]
            missing = [record for uuid, record in recorded.items() if uuid not in result.living]
            deleted = self._find_deleted(missing, result)
            if dry or self._write(recorded, differing, deleted):
                break
        _add_differences(differing, recorded, totals)
        for uuid in deleted:
            totals.add_deleted(_NOUN, uuid)

    def _look_up(
        self,
        uuids: Collection[str],
        recorded: Mapping[str, InstanceRecord],
        totals: SyncTotals,
        home: FollowedCell | None,
    ) -> _LookupResult:
        result = _LookupResult(mapped=self._map_cells(uuids))
        digests = {uuid: record.flavor_digest for uuid, record in recorded.items()}
        searched: list[FollowedCell] = []

        def read(cell: FollowedCell) -> None:
            missing = [uuid for uuid in uuids if uuid not in result.living]
            if missing and cell not in searched:
                searched.append(cell)
                with cell.database.read() as connection:
                    rows = readers.list_instances_by_uuids(connection, missing)
                    rows = readers.add_metadata(connection, rows)
                    rows = _add_root_disks(connection, rows, recorded, self._keys)
                    lacking = [
                        row
                        for row in rows
                        if row.lives and not self._flavors.find_recorded(row, digests.get(row.uuid))
                    ]
                    complete = readers.add_flavors(connection, lacking)
                    self._flavors.read(connection, complete)
                result.add(cell, (*complete, *rows))

        if home is not None and home in self._cells.every:
            read(home)
        self._cells.run_for_each_cell(read, totals=totals)
        # When nova moves an instance between cells, it changes the mapping before it unhides the
        # copy in the new cell. A stray counts unless its mapped cell is away or has deleted it.
        away = {cell.uuid for cell in self._cells.away}
        for uuid, instance in result.strays.items():
            if result.mapped[uuid] not in away and uuid not in result.deleted:
                result.living.setdefault(uuid, instance)
        return result

    def _map_cells(self, uuids: Collection[str]) -> Mapping[str, str]:
        if len(self._cells.every) > 1 and uuids:
            with suppress(NovaDatabaseUnavailable), self._cells.read_api() as connection:
                return readers.map_cells_by_instance(connection, uuids)
        return {}

    def _read_between(
        self,
        first: str,
        last: str | None,
        recorded: Mapping[str, InstanceRecord],
        totals: SyncTotals,
    ) -> dict[str, NovaInstance]:
        """Return the living instances with uuids in a range, from all cells.

        If several cells have an instance, the cell in nova's mapping wins. An instance that only
        another cell has is looked up again, because nova may be moving it.
        """
        by_cell: dict[str, list[NovaInstance]] = {}

        def read(cell: FollowedCell) -> None:
            with cell.database.read() as connection:
                rows = readers.list_instances_between(connection, first, last)
                rows = readers.add_metadata(connection, rows)
                by_cell[cell.uuid] = _add_root_disks(connection, rows, recorded, self._keys)
                self._flavors.read(connection, rows)

        self._cells.run_for_each_cell(read, totals=totals)
        cell_counts = Counter(row.uuid for rows in by_cell.values() for row in rows)
        for uuid, count in cell_counts.items():
            if count > 1:
                reason = "several cells have it: the cell that nova maps it to counts"
                totals.add_issue(f"instance {uuid}", reason)
        result = _LookupResult(mapped=self._map_cells(cell_counts))
        for cell in self._cells.every:
            result.add(cell, by_cell.get(cell.uuid, ()))
        only_strays = result.strays.keys() - result.living.keys()
        return result.living | self._look_up(only_strays, {}, totals, None).living

    def _map_groups(self, uuids: Collection[str]) -> Mapping[str, str] | None:
        """Map instances to their recorded groups, or return None if nova is away."""
        if not uuids:
            return {}
        try:
            with self._cells.read_api() as connection:
                groups = readers.map_groups_by_instance(connection, uuids)
        except NovaDatabaseUnavailable:
            return None
        if not groups:
            return {}
        with self._database.read() as connection:
            existing = server_groups.find_existing_uuids(connection, set(groups.values()))
        return {uuid: group for uuid, group in groups.items() if group in existing}

    def _build_records(
        self,
        rows: Iterable[NovaInstance],
        recorded: Mapping[str, InstanceRecord],
        groups: Mapping[str, str] | None,
        totals: SyncTotals,
    ) -> list[NewRecord]:
        """Build records of instances, with recorded groups if ``groups`` is None."""
        now = self._cells.clock()
        records = []
        rows = list(rows)
        requests = self._read_requests(rows, totals)
        for instance in rows:
            place = f"instance {instance.uuid}"
            name = self._cells.replace_unstorable(
                instance.display_name or "", place, "name", totals
            )
            existing = recorded.get(instance.uuid)
            flavor = None
            if existing and not instance.flavor:
                flavor = self._flavors.find_recorded(instance, existing.flavor_digest)
            flavor = flavor or self._flavors.get_flavor(instance)
            if groups is not None:
                group = groups.get(instance.uuid)
            else:
                group = existing.server_group if existing else None
            record = build_record(
                _limit_metadata(instance._replace(display_name=name), totals),
                existing,
                flavor=flavor,
                group=group,
                now=now,
                is_pending=existing is not None and self._is_pending(existing),
            )
            if instance.uuid in requests:
                _add_request(record.row, requests[instance.uuid])
            texts = {name: record.row[name] for name in _TEXTS} | {"flavorid": flavor.flavorid}
            if not self._cells.is_left_out(place, texts, totals):
                records.append(record)
        self._flavors.clear_if_full()
        return records

    def _read_requests(
        self, rows: Iterable[NovaInstance], totals: SyncTotals
    ) -> Mapping[str, NovaRequest]:
        lacking = {row.uuid: row for row in rows if row.boots_from_volume is not None}
        if not lacking:
            return {}
        try:
            with self._cells.read_api() as connection:
                specs = map_request_specs(connection, lacking)
        except NovaDatabaseUnavailable:
            return {}
        requests = {uuid: build_request(row, specs.get(uuid)) for uuid, row in lacking.items()}
        for uuid, request in requests.items():
            if request.issue is not None:
                totals.add_issue(f"instance {uuid}", request.issue)
        return self._add_port_resources(requests, totals)

    def _add_port_resources(
        self, requests: Mapping[str, NovaRequest], totals: SyncTotals
    ) -> Mapping[str, NovaRequest]:
        """Add the port resources, which nova does not keep, from neutron."""
        if self._neutron is None:
            return requests
        try:
            ports = self._neutron.map_port_resources(list(requests))
        except ServiceFailed as failure:
            totals.add_issue("neutron", f"port resources are not read: {failure.detail}")
            return requests
        return {
            uuid: each._replace(request={**each.request, _PORTS: ports[uuid]})
            for uuid, each in requests.items()
        }

    def _is_pending(self, record: InstanceRecord) -> bool:
        """Return whether a record is a claim that nova may not have recorded yet."""
        created = parse_iso_time(record.created_at)
        if record.decision_uuid is None or created is None:
            return False
        return created >= self._cells.clock() - GRACE

    def _find_deleted(
        self, records: Sequence[InstanceRecord], result: _LookupResult
    ) -> frozenset[str]:
        """Return which recorded instances to delete, if they live in no cell.

        While a cell is away, only instances with a deleted or hidden row are returned. Recent
        claims are kept, unless nova will never place the instance.
        """
        ended = {record.uuid for record in records if record.uuid in result.ended}
        if self._cells.away:
            return frozenset(ended)
        missing = [record for record in records if record.uuid not in ended]
        pending = {record.uuid for record in missing if self._is_pending(record)}
        if pending:
            with suppress(NovaDatabaseUnavailable), self._cells.read_api() as connection:
                pending -= readers.find_unplaceable_instances(connection, pending)
        return frozenset(ended | {record.uuid for record in missing} - pending)

    def _write(
        self,
        recorded: Mapping[str, InstanceRecord],
        differing: Sequence[NewRecord],
        deleted: Collection[str],
    ) -> bool:
        uuids = [*(record.uuid for record in differing), *deleted]
        if not uuids:
            return True
        groups = {record.row["server_group"] for record in differing} - {None}
        texts = {record.flavor.digest: record.flavor.text for record in differing}
        new = [record.row for record in differing if record.uuid not in recorded]
        existing = [record for record in differing if record.uuid in recorded]
        fields = {
            name
            for record in existing
            for name in find_changed_columns(recorded[record.uuid], record)
        }
        if any(recorded[record.uuid].has_own_flavor for record in existing):
            fields.add("flavor")
        columns = {name for field in fields for name in _COLUMNS_OF.get(field, (field,))}
        # The statement that writes rows needs a name even if the row exists already.
        columns |= {"uuid", "display_name", "updated_at"}
        changes = [
            {name: value for name, value in record.row.items() if name in columns}
            for record in existing
        ]
        places = {key: recorded[key].place_and_state for key in uuids if key in recorded}
        places |= {row["uuid"]: instances.PlaceAndState.from_row(row) for row in new}

        def write(connection: Connection) -> None:
            # A group that was deleted after it was read must not get members.
            if groups != server_groups.lock_many(connection, groups):
                raise _RecordChanged
            flavor_store.store_embedded(connection, texts)
            # Another writer may record a new instance now. Its row is locked and compared, too.
            instances.add(connection, new)
            if places != instances.lock_by_uuid(connection, uuids):
                raise _RecordChanged
            instances.change(connection, changes)
            ended_instances.record(connection, deleted, self._cells.clock())
            instances.remove(connection, deleted)

        try:
            self._database.write(write)
        except _RecordChanged:
            return False
        return True


def _add_root_disks(
    connection: Connection,
    rows: Sequence[NovaInstance],
    recorded: Mapping[str, InstanceRecord],
    keys: Collection[str],
) -> list[NovaInstance]:
    """Add whether the root disk is a volume to instances that need a request."""
    lacking = {row.uuid for row in rows if _needs_request(row, recorded.get(row.uuid), keys)}
    volumes = find_booted_from_volume(connection, lacking) if lacking else frozenset()
    return [
        row._replace(boots_from_volume=row.uuid in volumes) if row.uuid in lacking else row
        for row in rows
    ]


def _limit_metadata(instance: NovaInstance, totals: SyncTotals) -> NovaInstance:
    too_long: dict[str, Any] = {}
    for name in _METADATA:
        if len(getattr(instance, name) or "") > MAX_METADATA_CHARACTERS:
            reason = f"its {name} has more than {MAX_METADATA_CHARACTERS} characters"
            totals.add_issue(f"instance {instance.uuid}", f"{reason} and is not recorded")
            too_long[name] = None
    return instance._replace(**too_long) if too_long else instance


def _add_differences(
    records: Iterable[NewRecord], recorded: Mapping[str, InstanceRecord], totals: SyncTotals
) -> None:
    for record in records:
        existing = recorded.get(record.uuid)
        fields = find_changed_columns(existing, record)
        totals.add_difference(_NOUN, record.uuid, fields, new=existing is None)
