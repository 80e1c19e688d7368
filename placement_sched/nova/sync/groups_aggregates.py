# SPDX-License-Identifier: Apache-2.0
"""Sync of server groups and host aggregates."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial

from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import POLICIES, HostAggregate, ServerGroup
from placement_sched.nova.databases import readers
from placement_sched.nova.sync import SyncTotals, find_differing, has_changed
from placement_sched.nova.sync.cells import NovaCells
from placement_sched.schemas.formats import DocumentError
from placement_sched.store.compute import host_aggregates, server_groups

_GROUP_NOUN = "server groups"
_GROUP_FIELDS = ("name", "policy", "rules", "project_id", "user_id")
_AGGREGATE_NOUN = "host aggregates"
_AGGREGATE_FIELDS = ("uuid", "name", "hosts", "metadata")
_TRIES = 3
#: Maximum length of a name with placeholders, without the id that makes it unique.
_MAX_SHOWN_NAME = 240


class GroupSync:
    """Sync server groups, with a single object per process.

    Memberships are stored with the records of instances.
    """

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._fingerprint: object = None
        self._newest_member: int | None = None

    def follow(
        self, totals: SyncTotals, *, is_full: bool = False, dry: bool = False
    ) -> tuple[str, ...]:
        """Record differences, with ``is_full`` even if no table has changed.

        Raises :class:`NovaDatabaseUnavailable`. Returns the uuids of the instances that joined a
        group since the last call.
        """
        with self._cells.read_api() as connection:
            fingerprint = readers.read_groups_fingerprint(connection)
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
        gone = recorded.keys() - groups.keys()
        totals.add_read_count(_GROUP_NOUN, len(groups))
        totals.add_all(_GROUP_NOUN, recorded, differing, gone, _GROUP_FIELDS, _get_group_title)
        if dry or not (differing or gone):
            return
        now = self._cells.clock()

        def write(connection: Connection) -> None:
            server_groups.lock_many(connection, [*gone, *differing])
            for uuid in sorted(gone):
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


def _get_group_title(group: ServerGroup) -> str:
    return group.name or group.uuid or ""


class AggregateSync:
    """Sync host aggregates, with a single object per process."""

    def __init__(self, cells: NovaCells) -> None:
        self._cells = cells
        self._database = cells.database
        self._fingerprint: readers.TablesFingerprint | None = None

    def follow(self, totals: SyncTotals, *, is_full: bool = False, dry: bool = False) -> None:
        """Record differences, with ``is_full`` even if no table has changed.

        Raises :class:`NovaDatabaseUnavailable`.
        """
        with self._cells.read_api() as connection:
            fingerprint = readers.read_fingerprint(connection)
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
        for _ in range(_TRIES):
            with self._database.read() as connection:
                recorded = _read_recorded(connection, ids)
            with self._cells.read_api() as connection:
                rows = readers.list_host_aggregates(connection, ids)
            aggregates = {row.id: row for row in map(partial(self._make_storable, totals), rows)}
            unstorable = {
                key for key, row in aggregates.items() if self._is_unstorable(row, totals)
            }
            aggregates = {key: row for key, row in aggregates.items() if key not in unstorable}
            differing = find_differing(recorded, aggregates, _AGGREGATE_FIELDS)
            gone = recorded.keys() - aggregates.keys() - unstorable
            if dry or not (differing or gone) or self._write(recorded, differing, gone):
                break
        totals.add_read_count(_AGGREGATE_NOUN, len(aggregates))
        totals.add_all(
            _AGGREGATE_NOUN,
            recorded,
            differing,
            gone,
            _AGGREGATE_FIELDS,
            lambda aggregate: aggregate.name,
        )

    def _make_storable(self, totals: SyncTotals, aggregate: HostAggregate) -> HostAggregate:
        """Replace or remove the parts of name and hosts that cannot be stored."""
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

    def _is_unstorable(self, aggregate: HostAggregate, totals: SyncTotals) -> bool:
        """Return whether metadata cannot be stored, so that the old record must stay."""
        texts = {f"metadata {key!r}": f"{key}{value}" for key, value in aggregate.metadata.items()}
        return self._cells.is_left_out(
            f"aggregate {aggregate.name} ({aggregate.uuid})", texts, totals
        )

    def _write(
        self,
        recorded: Mapping[int, HostAggregate],
        differing: Mapping[int, HostAggregate],
        gone: Collection[int],
    ) -> bool:
        """Write the differences, or return False if a record has changed since its reading."""
        now = self._cells.clock()

        def write(connection: Connection) -> bool:
            ids = {*differing, *gone}
            # From here on, no other process changes an aggregate until this transaction ends.
            host_aggregates.bump_version(connection)
            current = _read_recorded(connection, None)
            if any(
                has_changed(recorded.get(key), current.get(key), _AGGREGATE_FIELDS) for key in ids
            ):
                return False
            # Other aggregates may have the new names or uuids: they are compared next.
            host_aggregates.replace(connection, current, list(differing.values()), gone, now)
            return True

        return self._database.write(write)


def _read_recorded(connection: Connection, ids: Collection[int] | None) -> dict[int, HostAggregate]:
    rows = host_aggregates.read_snapshot(connection)
    return {row.id: row for row in rows if ids is None or row.id in ids}
