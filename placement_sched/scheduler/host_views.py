"""Hosts as people are shown them: all at once, or one with everything that is known of it."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

import orjson

from placement_sched.db.transaction import Connection
from placement_sched.errors import Invalid, NotFound
from placement_sched.model.aggregates import DEFAULT_POLICY, HostAggregate, zones
from placement_sched.model.compute_node import ComputeNode, Service, kept_part, seen_lately
from placement_sched.model.document import Json
from placement_sched.model.instance import Instance, NovaCell
from placement_sched.model.names import canonical, suggested
from placement_sched.model.provider import Inventory
from placement_sched.scheduler.policies import views as policies_shown
from placement_sched.scheduler.policies.registry import Policies, policies_for
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.compute import cells, compute_nodes, hosts, instances, services
from placement_sched.store.compute.hosts import ProviderInTree, ServedNode, TreeAmounts

#: What the compute service of a host may be; one that is disabled may report or not.
STATES = ("up", "down", "disabled")

#: Of more nodes than this everything is read: that takes less than to name them.
_NAMED = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HostsAsked:
    """Which hosts are listed; what is None or empty narrows nothing.

    ``search`` is a part of the name of host or node, whatever its case; ``aggregate`` a name or
    a uuid. Of ``states`` a host has any, of ``traits`` all. ``marker`` is the uuid of the node
    after which the list begins.
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
class _Cloud:
    """What says in which state and zone a host is, and under which policy."""

    connection: Connection
    now: datetime
    of_host: Callable[[str], tuple[HostAggregate, ...]]
    policies: Policies

    @classmethod
    def of(cls, scheduler: Scheduler, connection: Connection) -> "_Cloud":
        aggregates = scheduler.memory.aggregates.current(connection)
        policies = policies_for(scheduler.live.settings(), scheduler.clock)
        return cls(connection, scheduler.clock(), aggregates.of_host, policies)

    def state(self, service: ServedNode | Service) -> Json:
        """Return the state, and what else there is to say of a service that is not simply up."""
        down_time = self.policies.default.settings.DEFAULT.service_down_time
        up = seen_lately(service.last_seen_up, bool(service.forced_down), self.now, down_time)
        if up and not service.disabled:
            return {"state": "up"}
        said: Json = {"state": "disabled" if service.disabled else "down"}
        if service.disabled and service.disabled_reason:
            said["disabled_reason"] = service.disabled_reason
        if service.forced_down:
            said["forced_down"] = True
        return said | {"last_seen_up": service.last_seen_up}

    def zones(self, host: str) -> Sequence[str]:
        """Return the zones that a host is in: commonly one."""
        named = {zone for one in self.of_host(host) for zone in zones(one.availability_zone)}
        return sorted(named) or [self.policies.default.settings.DEFAULT.default_availability_zone]

    def policy(self, host: str) -> str:
        """Return the policy that the aggregates of a host name: the first that can be used."""
        named = [one.policy for one in self.of_host(host) if one.policy]
        usable = (name for name in named if self.policies.usable(name))
        return next(usable, named[0] if named else DEFAULT_POLICY)


def all_shown(scheduler: Scheduler, asked: HostsAsked) -> Json:
    """Return the hosts that are asked for, with the aggregates, traits and cells that they name.

    A host of several compute nodes stands there once for each. The number of statements does not
    depend on how many hosts there are. Raises :class:`Invalid` for a marker that is not a node.
    """
    with scheduler.database.snapshot() as connection:
        cloud = _Cloud.of(scheduler, connection)
        every = hosts.served_nodes(connection)
        found = _page(every, _wanted(cloud, every, asked), asked)
        whole = len(found) > min(_NAMED, len(every) - 1)
        roots = None if whole else [one.root_id for one in found if one.root_id is not None]
        amounts = hosts.amounts(connection, roots)
        traits = _Traits(hosts.trait_names(connection), hosts.traits_of_trees(connection, roots))
        names = None if whole else {one.host for one in found}
        counts = instances.counts_on_hosts(connection, names)
        known_cells = cells.all_cells(connection)
    nodes_of = Counter(one.host for one in every)
    lists = _Lists.of(cloud, found, traits, known_cells)

    def shown(node: ServedNode) -> Json:
        number = counts.get((node.host, node.node), 0)
        if nodes_of[node.host] == 1:  # those of which the node is not known are there as well
            number += counts.get((node.host, None), 0)
        return {
            "host": node.host,
            "node": node.node,
            "uuid": node.uuid,
            "zone": ",".join(cloud.zones(node.host)),
            **cloud.state(node),
            "policy": cloud.policy(node.host),
            **lists.indexes(node),
            "instances": number,
            "resources": _resources(amounts.get(node.root_id or 0, {})),
        }

    return {**lists.shown(), "hosts": list(map(shown, found))}


class _Traits(NamedTuple):
    """The names of traits by their ids, and the ids of those of each tree by the id of its root."""

    names: Mapping[int, str]
    of_tree: Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class _Lists:
    """What many hosts have alike, each once; hosts name it by its index."""

    aggregates: Sequence[HostAggregate]
    traits: Sequence[str]
    cells: Sequence[NovaCell]
    indexes: Callable[[ServedNode], Json]

    @classmethod
    def of(
        cls, cloud: _Cloud, nodes: Sequence[ServedNode], traits: _Traits, every: Sequence[NovaCell]
    ) -> "_Lists":
        aggregates = {one.id: one for node in nodes for one in cloud.of_host(node.host)}
        aggregate_at = {key: index for index, key in enumerate(sorted(aggregates))}
        carried = {node.root_id: traits.of_tree.get(node.root_id or 0, ()) for node in nodes}
        ids = set[int]().union(*carried.values()) & traits.names.keys()
        named = sorted(ids, key=traits.names.__getitem__)
        trait_at = {key: index for index, key in enumerate(named)}
        numbered = {
            root: [trait_at[key] for key in some if key in trait_at]
            for root, some in carried.items()
        }
        within = {canonical(node.cell_uuid) for node in nodes if node.cell_uuid}
        shown_cells = [one for one in every if canonical(one.uuid) in within]
        cell_at = {canonical(one.uuid): index for index, one in enumerate(shown_cells)}

        def of_node(node: ServedNode) -> Json:
            cell = cell_at.get(canonical(node.cell_uuid)) if node.cell_uuid else None
            return {
                **({} if cell is None else {"cell": cell}),
                "aggregates": [aggregate_at[one.id] for one in cloud.of_host(node.host)],
                "traits": numbered[node.root_id],
            }

        return cls(
            aggregates=[aggregates[key] for key in aggregate_at],
            traits=[traits.names[key] for key in named],
            cells=shown_cells,
            indexes=of_node,
        )

    def shown(self) -> Json:
        return {
            "aggregates": [_aggregate(one) for one in self.aggregates],
            "traits": self.traits,
            "cells": [_cell(one) for one in self.cells],
        }


def _wanted(cloud: _Cloud, every: Iterable[ServedNode], asked: HostsAsked) -> Iterator[ServedNode]:
    """Return those of the nodes that are asked for, in their order."""
    found = iter(every)
    if asked.host is not None:
        found = (one for one in found if one.host == asked.host)
    if asked.search is not None:
        part = asked.search.lower()
        found = (one for one in found if part in one.host.lower() or part in one.node.lower())
    if asked.zone is not None:
        found = (one for one in found if asked.zone in cloud.zones(one.host))
    if asked.aggregate is not None:
        found = (one for one in found if _is_in(asked.aggregate, cloud.of_host(one.host)))
    if asked.states:
        found = (one for one in found if cloud.state(one)["state"] in asked.states)
    if asked.traits:
        each = [hosts.roots_with_trait(cloud.connection, name) for name in asked.traits]
        having = each[0].intersection(*each[1:])
        found = (one for one in found if one.root_id in having)
    return found


def _is_in(name: str, aggregates: Iterable[HostAggregate]) -> bool:
    return any(name in {one.name, one.uuid} for one in aggregates)


def _page(
    every: Sequence[ServedNode], wanted: Iterator[ServedNode], asked: HostsAsked
) -> list[ServedNode]:
    found = list(wanted)
    if asked.marker is not None:
        marked = next((one for one in every if canonical(one.uuid) == asked.marker), None)
        if marked is None:
            raise Invalid(f"marker [{asked.marker}] not found", code="scheduler.bad_value")
        found = [one for one in found if one[:2] > marked[:2]]
    return found[: asked.limit]


def one_shown(scheduler: Scheduler, host: str) -> Json:
    """Return one host whole: its services, nodes, provider trees, instances and policy.

    Raises :class:`NotFound` for a host of which neither a compute node nor a service is known.
    """
    with scheduler.database.snapshot() as connection:
        cloud = _Cloud.of(scheduler, connection)
        theirs = [one for one in hosts.served_nodes(connection, host=host) if one.host == host]
        serving = [one for one in services.search(connection, host=host) if one.host == host]
        if not (theirs or serving):
            names = {one.host for one in hosts.served_nodes(connection)}
            names.update(one.host for one in services.search(connection))
            what = f"there is no host {host!r}{suggested('host', host, names)}"
            raise NotFound(what, code="scheduler.not_found")
        reports = {one.uuid: one for one in compute_nodes.search(connection, host=host)}
        roots = {one.root_id for one in theirs if one.root_id is not None}
        trees = hosts.trees(connection, roots)
        there = [one for one in instances.by_hosts(connection, [host]) if one.host == host]
        known = {canonical(one.uuid): one for one in cells.all_cells(connection)}
    compute = next((one for one in serving if one.is_compute), None)
    policy = policies_shown.one_shown(scheduler, cloud.policy(host))
    return {
        "host": host,
        "zone": ",".join(cloud.zones(host)),
        **({"state": "down", "last_seen_up": None} if compute is None else cloud.state(compute)),
        "policy": policy | {"options": _own_options(policy["options"])},
        "aggregates": [_aggregate(one) for one in cloud.of_host(host)],
        "services": [_service(cloud, one) for one in serving],
        "nodes": [
            _node(reports[one.uuid], trees.get(one.root_id or 0, ()), known)
            for one in theirs
            if one.uuid in reports
        ],
        "instances": [_instance(one) for one in there],
    }


def _own_options(options: Mapping[str, Json]) -> Json:
    return {name: one for name, one in options.items() if one["source"] == policies_shown.POLICY}


def _aggregate(one: HostAggregate) -> Json:
    return {"id": one.id, "uuid": one.uuid, "name": one.name, "metadata": one.metadata}


def _cell(one: NovaCell) -> Json:
    names = ("uuid", "name", "disabled", "away_since", "failure")
    return {name: getattr(one, name) for name in names}


def _service(cloud: _Cloud, one: Service) -> Json:
    said = cloud.state(one)
    return {"uuid": one.uuid, "binary": one.binary, "last_seen_up": one.last_seen_up, **said}


def _node(node: ComputeNode, tree: Sequence[ProviderInTree], known: Mapping[str, NovaCell]) -> Json:
    cell = known.get(canonical(node.cell_uuid)) if node.cell_uuid else None
    return {
        "node": node.hypervisor_hostname,
        "uuid": node.uuid,
        "cell": _cell(cell) if cell else None,
        "last_seen_up": node.last_seen_up,
        "changed_at": node.updated_at,
        "report": kept_part(node) | {"cpu_info": orjson.loads(node.cpu_info)},
        "resources": _resources(_summed(tree)),
        "providers": [_provider(one) for one in tree],
    }


def _summed(tree: Iterable[ProviderInTree]) -> TreeAmounts:
    found: dict[str, tuple[int, int]] = {}
    for one in tree:
        for inventory in one.inventories:
            name = inventory.resource_class
            capacity, used = found.get(name, (0, 0))
            found[name] = (capacity + inventory.capacity, used + one.used.get(name, 0))
    return found


def _resources(amounts: TreeAmounts) -> Json:
    return {
        name: {"capacity": capacity, "used": used} for name, (capacity, used) in amounts.items()
    }


def _provider(one: ProviderInTree) -> Json:
    provider = one.provider
    return {
        "uuid": provider.uuid,
        "name": provider.name,
        "parent_provider_uuid": provider.parent_uuid,
        "generation": provider.generation,
        "inventories": {
            inventory.resource_class: _inventory(inventory, one.used)
            for inventory in one.inventories
        },
        "traits": one.traits,
        "aggregates": one.aggregates,
    }


_STOCK = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio", "capacity")


def _inventory(inventory: Inventory, used: Mapping[str, int]) -> Json:
    shown = {name: getattr(inventory, name) for name in _STOCK}
    return shown | {"used": used.get(inventory.resource_class, 0)}


def _instance(one: Instance) -> Json:
    flavor = one.flavor or {}
    return {
        "uuid": one.uuid,
        "name": one.display_name,
        "node": one.node,
        "project_id": one.project_id,
        "user_id": one.user_id,
        "flavor": flavor.get("name") or flavor.get("flavorid") or flavor.get("id"),
        "vm_state": one.vm_state,
        "task_state": one.task_state,
    }
