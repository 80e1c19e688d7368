# SPDX-License-Identifier: Apache-2.0
"""Views of hosts for the API and the console: a list, and a single host."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime

import orjson

from placement_sched.api.scheduler import policy_views
from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.limits import MAX_ATTENTION_HOSTS
from placement_sched.model.aggregates import DEFAULT_POLICY, HostAggregate, parse_zones
from placement_sched.model.compute_node import (
    HOST_STATES,
    NO_HOSTS,
    ComputeNode,
    Service,
    is_recently_seen,
    select_stored_fields,
)
from placement_sched.model.document import Json
from placement_sched.model.instance import Instance, NovaCell
from placement_sched.model.names import canonicalize_uuid, suggest_name
from placement_sched.model.provider import FULL, NEARLY_FULL
from placement_sched.scheduler.host_manager import CellStates
from placement_sched.scheduler.policies.registry import Policies, get_policies
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.compute import compute_nodes, hosts, instances, services
from placement_sched.store.compute.hosts import ProviderInTree, ServedNode, TreeAmounts
from placement_sched.store.compute.other_consumers import list_other_consumers

#: Maximum number of nodes that a statement names. For more nodes, reading all rows is faster.
_MAX_NAMED = 1000

#: Sums of a resource class in a zone or aggregate.
_SUMS = ("used", "capacity", "hosts", "nearly_full", "full")

_FIELDS = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostQuery:
    """Filters of a list of hosts. None or empty means no restriction.

    ``search`` is a part of a host or node name, in any case. ``aggregate`` is a name or a uuid. A
    host matches any of ``states`` and all of ``traits``. ``marker`` is the uuid of the node that
    precedes the page.
    """

    host: str | None = None
    search: str | None = None
    zone: str | None = None
    aggregate: str | None = None
    states: Collection[str] = ()
    traits: Collection[str] = ()
    marker: str | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """The data that all views of hosts use."""

    connection: Connection
    now: datetime
    aggregates: Sequence[HostAggregate]
    list_aggregates: Callable[[str], tuple[HostAggregate, ...]]
    policies: Policies
    cells: CellStates

    @classmethod
    def read(cls, scheduler: Scheduler, connection: Connection) -> "_Snapshot":
        aggregates = scheduler.caches.aggregates.get_current(connection)
        settings, clock = scheduler.live.get_settings(), scheduler.clock
        policies, states = get_policies(settings, clock), CellStates(connection, settings, clock)
        return cls(connection, clock(), aggregates.all, aggregates.list_for_host, policies, states)

    def is_up(self, service: ServedNode | Service, cell_uuid: str | None) -> bool:
        down_time = self.policies.default.settings.DEFAULT.service_down_time
        now = self.now - self.cells.get_reading_age(cell_uuid)
        return is_recently_seen(service.last_seen_up, bool(service.forced_down), now, down_time)

    def build_state(self, service: ServedNode | Service, cell_uuid: str | None) -> Json:
        """Return the state of a service, with details unless it is enabled and up."""
        if self.is_up(service, cell_uuid) and not service.disabled:
            return {"state": "up"}
        view: Json = {"state": "disabled" if service.disabled else "down"}
        if service.disabled and service.disabled_reason:
            view["disabled_reason"] = service.disabled_reason
        if service.forced_down:
            view["forced_down"] = True
        return view | {"last_seen_up": service.last_seen_up}

    def list_zones(self, host: str) -> Sequence[str]:
        names = {
            zone
            for each in self.list_aggregates(host)
            for zone in parse_zones(each.availability_zone)
        }
        return sorted(names) or [self.policies.default.settings.DEFAULT.default_availability_zone]

    def find_policy(self, host: str) -> str:
        """Return the first usable policy of a host's aggregates, else the first."""
        names = [aggregate.policy for aggregate in self.list_aggregates(host) if aggregate.policy]
        usable = (name for name in names if self.policies.is_usable(name))
        return next(usable, names[0] if names else DEFAULT_POLICY)


def list_hosts(scheduler: Scheduler, filters: HostQuery) -> Json:
    """Return a page of hosts, and lists of aggregates, traits and cells.

    A host is listed once per compute node, and refers to the lists by index. The number of SQL
    statements does not depend on the number of hosts. Raises :class:`Invalid` if the marker is not
    the uuid of a node.
    """
    with scheduler.database.open_snapshot() as connection:
        snapshot = _Snapshot.read(scheduler, connection)
        all_nodes = hosts.list_served_nodes(connection)
        page = _select_page(snapshot, all_nodes, filters)
        reads_all = len(page) > min(_MAX_NAMED, len(all_nodes) - 1)
        roots = None if reads_all else [node.root_id for node in page if node.root_id is not None]
        amounts = hosts.sum_amounts(connection, roots)
        traits = hosts.map_trait_names(connection), hosts.map_traits(connection, roots)
        names = None if reads_all else {node.host for node in page}
        counts = instances.count_by_host(connection, names)
        lists, get_indexes = _build_index_lists(snapshot, page, *traits)
    node_counts = Counter(node.host for node in all_nodes)

    def build_host_view(node: ServedNode) -> Json:
        number = counts.get((node.host, node.node), 0)
        if node_counts[node.host] == 1:  # include instances whose node is unknown
            number += counts.get((node.host, None), 0)
        return {
            "host": node.host,
            "node": node.node,
            "uuid": node.uuid,
            "zone": ",".join(snapshot.list_zones(node.host)),
            **snapshot.build_state(node, node.cell_uuid),
            "policy": snapshot.find_policy(node.host),
            **get_indexes(node),
            "instances": number,
            "resources": _build_resources_view(amounts.get(node.root_id or 0, {})),
        }

    return {**lists, "hosts": list(map(build_host_view, page))}


def sum_cloud(scheduler: Scheduler) -> Json:
    """Sum hosts by state, zone and aggregate, and list hosts that are not up.

    For a resource class, a host counts as nearly full from :data:`NEARLY_FULL` percent, and as full
    from :data:`FULL` percent. The number of SQL statements does not depend on the number of hosts.
    """
    with scheduler.database.open_snapshot() as connection:
        snapshot = _Snapshot.read(scheduler, connection)
        nodes = hosts.list_served_nodes(connection)
        amounts = hosts.sum_amounts(connection, None)
        counts = instances.count_by_host(connection, None)
        node_states = [snapshot.build_state(node, node.cell_uuid) for node in nodes]
    states: Counter[str] = Counter(dict.fromkeys(HOST_STATES, 0))
    by_zone, by_aggregate = defaultdict[str, _HostSums](_HostSums), dict[int, _HostSums]()
    attention: list[Json] = []
    counts_by_host: Counter[str] = Counter()
    for (host, _), number in counts.items():
        counts_by_host[host] += number
    for node, state in zip(nodes, node_states, strict=True):
        states[state["state"]] += 1
        zone = ",".join(snapshot.list_zones(node.host))
        if state["state"] != "up" and len(attention) < MAX_ATTENTION_HOSTS:
            attention.append({"host": node.host, "node": node.node, "zone": zone, **state})
        amounts_and_count = amounts.get(node.root_id or 0, {}), counts_by_host.pop(node.host, 0)
        by_zone[zone].add(*amounts_and_count)
        for aggregate in snapshot.list_aggregates(node.host):
            by_aggregate.setdefault(aggregate.id, _HostSums()).add(*amounts_and_count)
    return {
        "hosts": {"total": len(nodes), **states},
        "instances": sum(sums.instances for sums in by_zone.values()),
        "zones": [{"zone": zone, **by_zone[zone].as_json()} for zone in sorted(by_zone)],
        "aggregates": [
            {"uuid": aggregate.uuid, "name": aggregate.name, **by_aggregate[aggregate.id].as_json()}
            for aggregate in snapshot.aggregates
            if aggregate.id in by_aggregate
        ],
        "attention": attention,
    }


@dataclass(slots=True)
class _HostSums:
    hosts: int = 0
    instances: int = 0
    resources: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, amounts: TreeAmounts, number_of_instances: int) -> None:
        self.hosts += 1
        self.instances += number_of_instances
        for name, (capacity, used) in amounts.items():
            sums = self.resources.setdefault(name, dict.fromkeys(_SUMS, 0))
            percent = 100 * used / capacity if capacity else 100.0 * (used > 0)
            sums["used"] += used
            sums["capacity"] += capacity
            sums["hosts"] += 1
            sums["nearly_full"] += NEARLY_FULL <= percent < FULL
            sums["full"] += percent >= FULL

    def as_json(self) -> Json:
        return {
            "hosts": self.hosts,
            "instances": self.instances,
            "resources": dict(sorted(self.resources.items())),
        }


def _build_index_lists(
    snapshot: _Snapshot,
    nodes: Sequence[ServedNode],
    trait_names: Mapping[int, str],
    traits_of_trees: Mapping[int, Sequence[int]],
) -> tuple[Json, Callable[[ServedNode], Json]]:
    """Return lists, and a function that maps a node to indexes in them."""
    aggregates = {each.id: each for node in nodes for each in snapshot.list_aggregates(node.host)}
    aggregate_indexes = {key: index for index, key in enumerate(sorted(aggregates))}
    trait_ids = {node.root_id: traits_of_trees.get(node.root_id or 0, ()) for node in nodes}
    ids = set[int]().union(*trait_ids.values()) & trait_names.keys()
    trait_indexes = {
        key: index for index, key in enumerate(sorted(ids, key=trait_names.__getitem__))
    }
    trait_indexes_by_root = {
        root: [trait_indexes[key] for key in ids_of_root if key in trait_indexes]
        for root, ids_of_root in trait_ids.items()
    }
    uuids = {canonicalize_uuid(node.cell_uuid) for node in nodes if node.cell_uuid}
    used_cells = {uuid: cell for uuid, cell in snapshot.cells.by_uuid.items() if uuid in uuids}
    cell_indexes = {uuid: index for index, uuid in enumerate(used_cells)}

    def build_indexes(node: ServedNode) -> Json:
        cell = cell_indexes.get(canonicalize_uuid(node.cell_uuid)) if node.cell_uuid else None
        return {
            **({} if cell is None else {"cell": cell}),
            "aggregates": [
                aggregate_indexes[each.id] for each in snapshot.list_aggregates(node.host)
            ],
            "traits": trait_indexes_by_root[node.root_id],
        }

    lists = {
        "aggregates": [_build_aggregate_view(aggregates[key]) for key in aggregate_indexes],
        "traits": [trait_names[key] for key in trait_indexes],
        "cells": [_build_cell_view(cell) for cell in used_cells.values()],
    }
    return lists, build_indexes


def _select_page(
    snapshot: _Snapshot, all_nodes: Sequence[ServedNode], filters: HostQuery
) -> list[ServedNode]:
    part = (filters.search or "").lower()
    roots = [hosts.find_roots_with_trait(snapshot.connection, name) for name in filters.traits]

    def matches(node: ServedNode) -> bool:
        return (
            filters.host in {None, node.host}
            and (part in node.host.lower() or part in node.node.lower())
            and (filters.zone is None or filters.zone in snapshot.list_zones(node.host))
            and (
                filters.aggregate is None
                or any(
                    filters.aggregate in (each.name, each.uuid)
                    for each in snapshot.list_aggregates(node.host)
                )
            )
            and (
                not filters.states
                or snapshot.build_state(node, node.cell_uuid)["state"] in filters.states
            )
            and all(node.root_id in roots_with_trait for roots_with_trait in roots)
        )

    page = list(filter(matches, all_nodes))
    if filters.marker is not None:
        matching = (node for node in all_nodes if canonicalize_uuid(node.uuid) == filters.marker)
        if (marker := next(matching, None)) is None:
            raise Invalid(f"marker [{filters.marker}] not found", code="scheduler.bad_value")
        page = [node for node in page if node[:2] > marker[:2]]
    return page[: filters.limit]


def is_host_up(scheduler: Scheduler, host: str) -> bool:
    """Return whether the compute service of a host is up, even if disabled.

    Raises :class:`NotFound` if there is no such host.
    """
    with scheduler.database.open_snapshot() as connection:
        snapshot = _Snapshot.read(scheduler, connection)
        served, records = _find_host(connection, host)
        cell_uuid = served[0].cell_uuid if served else None
        return any(each.is_compute and snapshot.is_up(each, cell_uuid) for each in records)


def _find_host(connection: Connection, host: str) -> tuple[list[ServedNode], list[Service]]:
    """Return the nodes and services of a host, or raise :class:`NotFound`."""
    served = [node for node in hosts.list_served_nodes(connection, host=host) if node.host == host]
    records = [each for each in services.search(connection, host=host) if each.host == host]
    if not (served or records):
        names = {node.host for node in hosts.list_served_nodes(connection)}
        names.update(service.host for service in services.search(connection))
        reason = suggest_name("host", host, names) if names else f": {NO_HOSTS}"
        raise NotFound(f"there is no host {host!r}{reason}", code="scheduler.not_found")
    return served, records


def show_host(scheduler: Scheduler, host: str) -> Json:
    """Return a host with all its parts, or raise :class:`NotFound`."""
    with scheduler.database.open_snapshot() as connection:
        snapshot = _Snapshot.read(scheduler, connection)
        served, records = _find_host(connection, host)
        reports = {report.uuid: report for report in compute_nodes.search(connection, host=host)}
        roots = {node.root_id for node in served if node.root_id is not None}
        trees = hosts.map_trees(connection, roots)
        vms = [vm for vm in instances.list_by_hosts(connection, [host]) if vm.host == host]
        consumers = list_other_consumers(connection, {host})
        cells_by_uuid = snapshot.cells.by_uuid
    cell_uuid = served[0].cell_uuid if served else None
    compute = next((service for service in records if service.is_compute), None)
    state: Json = {"state": "down", "last_seen_up": None}
    if compute is not None:
        state = snapshot.build_state(compute, cell_uuid)
    policy = policy_views.show_policy(scheduler, snapshot.find_policy(host))
    own_options = {
        key: option for key, option in policy["options"].items() if option["source"] == "policy"
    }
    return {
        "host": host,
        "zone": ",".join(snapshot.list_zones(host)),
        **state,
        "policy": policy | {"options": own_options},
        "aggregates": [
            _build_aggregate_view(aggregate) for aggregate in snapshot.list_aggregates(host)
        ],
        "services": [
            {"uuid": service.uuid, "binary": service.binary, "last_seen_up": service.last_seen_up}
            | snapshot.build_state(service, cell_uuid)
            for service in records
        ],
        "nodes": [
            _build_node_view(reports[node.uuid], trees.get(node.root_id or 0, ()), cells_by_uuid)
            for node in served
            if node.uuid in reports
        ],
        "instances": [_build_instance_view(instance) for instance in vms],
        "other_consumers": [asdict(consumer) for consumer in consumers],
    }


def _build_aggregate_view(row: HostAggregate) -> Json:
    return {"id": row.id, "uuid": row.uuid, "name": row.name, "metadata": row.metadata}


def _build_cell_view(cell: NovaCell) -> Json:
    keys = ("uuid", "name", "disabled", "away_since", "failure")
    return {key: getattr(cell, key) for key in keys}


def _build_node_view(
    node: ComputeNode, tree: Sequence[ProviderInTree], cells_by_uuid: Mapping[str, NovaCell]
) -> Json:
    cell = cells_by_uuid.get(canonicalize_uuid(node.cell_uuid)) if node.cell_uuid else None
    amounts: dict[str, tuple[int, int]] = {}
    for provider in tree:
        for inventory in provider.inventories:
            name = inventory.resource_class
            capacity, used = amounts.get(name, (0, 0))
            amounts[name] = (capacity + inventory.capacity, used + provider.used.get(name, 0))
    return {
        "node": node.hypervisor_hostname,
        "uuid": node.uuid,
        "cell": _build_cell_view(cell) if cell else None,
        "last_seen_up": node.last_seen_up,
        "changed_at": node.updated_at,
        "report": select_stored_fields(node) | {"cpu_info": orjson.loads(node.cpu_info)},
        "resources": _build_resources_view(amounts),
        "providers": [_build_provider_view(provider) for provider in tree],
    }


def _build_resources_view(amounts: TreeAmounts) -> Json:
    return {
        name: {"capacity": capacity, "used": used} for name, (capacity, used) in amounts.items()
    }


def _build_provider_view(entry: ProviderInTree) -> Json:
    provider = entry.provider
    return {
        "uuid": provider.uuid,
        "name": provider.name,
        "parent_provider_uuid": provider.parent_uuid,
        "generation": provider.generation,
        "inventories": {
            inventory.resource_class: {
                **{name: getattr(inventory, name) for name in _FIELDS},
                "used": entry.used.get(inventory.resource_class, 0),
            }
            for inventory in entry.inventories
        },
        "traits": entry.traits,
        "aggregates": entry.aggregates,
    }


def _build_instance_view(instance: Instance) -> Json:
    flavor = instance.flavor or {}
    return {
        "uuid": instance.uuid,
        "name": instance.display_name,
        **{key: getattr(instance, key) for key in ("node", "project_id", "user_id")},
        "flavor": flavor.get("name") or flavor.get("flavorid") or flavor.get("id"),
        **{key: getattr(instance, key) for key in ("vm_state", "task_state")},
    }
