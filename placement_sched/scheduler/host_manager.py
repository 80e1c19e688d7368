# SPDX-License-Identifier: Apache-2.0
"""Host states of allocation candidates, and the instances on their hosts.

A cloud may have tens of thousands of instances, and most requests use none of them, so instances
are read on demand. Instances that a request names (members of its server group, ``same_host``) are
read by their uuids. All instances on the hosts are read only for plugins that need them.
"""

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    KeysView,
    Mapping,
    MutableMapping,
    Sequence,
)
from dataclasses import dataclass
from datetime import timedelta
from functools import cache, cached_property, partial
from typing import Any, Self

from placement_sched.candidates.providers import ProviderSource
from placement_sched.config.settings import Settings
from placement_sched.db.failover import get_epoch
from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.candidates_query import AllocationRequest, Candidates
from placement_sched.model.clock import Clock, format_duration
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.decision import Selection
from placement_sched.model.grouping import group_rows, nest_rows
from placement_sched.model.instance import HostInstance, Instance, NovaCell
from placement_sched.model.names import canonicalize_uuid
from placement_sched.model.preferences import find_trait_preferences
from placement_sched.model.rejection import Rejection
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.caches import Aggregates, HostVersions, ProcessCaches
from placement_sched.scheduler.filtering import find_named_nodes
from placement_sched.scheduler.host_state import (
    HostState,
    has_host_attributes,
    make_host_state,
    set_candidates,
    set_trait_reader,
    set_traits,
)
from placement_sched.scheduler.policies.registry import NO_RATIOS, Policies, Ratios, find_ratios
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.store import change_counters
from placement_sched.store.compute import cells, compute_nodes, host_aggregates, instances
from placement_sched.store.compute import hosts as host_store
from placement_sched.store.placement import aggregates as placement_aggregates

Read = Callable[[Collection[str]], Iterable[HostInstance]]

HINTS = ("same_host", "different_host")

_ReadRecords = Callable[[Connection, Collection[str]], Sequence[Instance]]

#: Number of missed rounds of the sync after which no service seems to read nova's databases.
_MAX_MISSED_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class UnclaimedInstance:
    """Instance that counts as if it were already on its host."""

    spec: RequestSpec
    selection: Selection


@dataclass
class RequestView:
    """The data of the cloud that a single request reads.

    Aggregates are read once, unless they are ``known_aggregates``. ``states_age`` is the age in
    seconds of nodes that CachingScheduler caches, else None. ``unclaimed`` are instances that count
    as if they were already on their hosts.
    """

    connection: Connection
    caches: ProcessCaches
    cells: "CellStates"
    known_aggregates: Aggregates | None = None
    policies: Policies | None = None
    states_age: float | None = None
    unclaimed: Sequence[UnclaimedInstance] = ()
    #: Recorded instances that host states leave out, as if they were deleted.
    released: Collection[str] = ()

    @classmethod
    def from_request(
        cls,
        connection: Connection,
        request: SchedulingRequest,
        caches: ProcessCaches,
        unclaimed: Sequence[UnclaimedInstance] = (),
    ) -> Self:
        """Create the view of a request, after clearing expired cached nodes."""
        driver, age = request.plugins.driver, None
        if driver.caches_states and not request.spec.is_rebuild:
            interval = request.settings.scheduler.periodic_task_interval
            epoch = get_epoch(connection)
            age = caches.node_history.refresh(driver.now(), interval, epoch)
        states = CellStates(connection, request.settings, driver.now)
        return cls(connection, caches, states, request.aggregates, request.policies, age, unclaimed)

    @cached_property
    def providers(self) -> ProviderSource:
        """Return the provider cache or loader for the candidate search."""
        return self.caches.choose_provider_source(self.connection)

    @cached_property
    def host_versions(self) -> HostVersions:
        """Return the versions of the hosts' parts, read before the hosts."""
        return change_counters.map_host_versions(self.connection)

    @property
    def unclaimed_hosts(self) -> dict[str, str]:
        """Map the uuid of each unclaimed instance to its host."""
        return {
            uuid: instance.selection.service_host
            for instance in self.unclaimed
            if (uuid := instance.spec.instance_uuid) is not None
        }

    @property
    def aggregates(self) -> Aggregates:
        """Return all host aggregates, as read on first use."""
        if self.known_aggregates is None:
            self.known_aggregates = self.caches.aggregates.get_current(self.connection)
        return self.known_aggregates

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        """Return all host aggregates, sorted by id, for request filters."""
        return self.aggregates.all

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Map each provider that is in aggregates to their uuids."""
        return placement_aggregates.map_by_provider_uuid(self.connection, uuids)

    def find_nodes_with_instances(self, uuids: Collection[str]) -> frozenset[str]:
        """Return the compute nodes among ``uuids`` with instances on the host."""
        nodes = host_aggregates.find_nodes_with_instances(self.connection, uuids)
        return nodes | {each.selection.compute_node_uuid for each in self.unclaimed} & set(uuids)

    def build_ratios_lookup(self) -> Callable[[str], Ratios]:
        """Return a function from a host to the allocation ratios of its policy."""
        policies = self.policies
        if policies is None or not policies.names or not self.aggregates.policy_aggregates:
            return lambda _host: NO_RATIOS
        list_aggregates = self.aggregates.list_for_host

        def find_host_ratios(host: str) -> Ratios:
            return find_ratios(
                (each.policy for each in list_aggregates(host) if each.policy), policies
            )

        return find_host_ratios

    def count_nodes_lacking_trait(self, trait: str) -> tuple[int, int] | None:
        """Count the enabled compute nodes without a trait, as the store does."""
        return host_store.count_nodes_lacking_trait(self.connection, trait)


def get_host_states(
    view: RequestView, spec: RequestSpec, candidates: Candidates
) -> list[HostState]:
    """Build the states of hosts with candidates, or the hosts of a rebuild."""
    if not spec.is_rebuild:
        return build_host_states(view, candidates, spec)
    named = find_named_nodes(view.connection, spec)
    nodes = compute_nodes.search(view.connection) if named is None else named
    return build_node_states(view, nodes, spec)


def build_host_states(
    view: RequestView, candidates: Candidates, spec: RequestSpec, include: Iterable[str] = ()
) -> list[HostState]:
    """Return the state of each node with candidates, in result order.

    A provider tree whose root is not a compute node is left out, as in nova. ``include`` are uuids
    of nodes to include without candidates.
    """
    requests = candidates.requests
    roots: dict[str, Sequence[AllocationRequest]] = {each.root_uuid: (each,) for each in requests}
    if len(roots) < len(requests):  # in most clouds, each host has a single candidate
        roots = {**group_rows((request.root_uuid, request) for request in requests)}
    for uuid in include:
        roots.setdefault(uuid, ())
    states = _build_current_states(view, spec, roots)
    for state in states:
        set_candidates(state, roots[str(state.uuid)])
    return states


def set_preferred_traits(view: RequestView, spec: RequestSpec, states: Iterable[HostState]) -> None:
    """Set on each host state which preferred or avoided traits it has.

    A host has the traits of its whole tree. Raises :class:`Invalid` for unknown traits.
    """
    preferences = find_trait_preferences(spec.flavor, spec.image)
    if preferences is None:
        return
    trait_ids, hosts = view.providers.map_trait_ids(), list(states)
    preferences.check(trait_ids)
    ids = view.providers.map_ids([str(state.uuid) for state in hosts])
    preference_ids = {name: trait_ids[name] for name in sorted(preferences.names)}
    roots = view.providers.map_roots_by_trait(preference_ids, set(ids.values()))
    for state in hosts:
        root = ids.get(str(state.uuid))
        set_traits(state, frozenset(name for name, having in roots.items() if root in having))


def _build_current_states(
    view: RequestView, spec: RequestSpec, uuids: Collection[str]
) -> list[HostState]:
    """Build a state of each node, less the resources of placed instances."""
    cache = None if view.states_age is None else view.caches.node_history
    nodes = (cache or view.caches.nodes).get(view.connection, uuids, view.host_versions)
    states = build_node_states(view, [nodes[uuid] for uuid in uuids if uuid in nodes], spec)
    simulated = view.caches.simulated
    placed = group_rows((each.selection.compute_node_uuid, each) for each in view.unclaimed)
    by_host = group_rows((each.selection.service_host, each) for each in view.unclaimed)
    for state in states:
        uuid = str(state.uuid)
        # The states have no candidates yet: PCI devices of placed instances must not be consumed
        # by the candidates of this request.
        placed_specs = (
            *(cache.list_placed_requests(uuid) if cache else ()),
            *simulated.get(uuid, ()),
        )
        for placed_spec in placed_specs:
            state.consume_from_request(placed_spec)
        for instance in placed.get(uuid, ()):
            state.limits = dict(instance.selection.limits)
            state.consume_from_request(instance.spec)
            state.limits = {}
        for instance in by_host.get(state.host, ()):
            if (key := instance.spec.instance_uuid) is not None:
                state.instances[key] = HostInstance.from_request_spec(
                    key, instance.spec, state.host, instance.selection.nodename
                )
    return states


def build_node_states(
    view: RequestView, nodes: Sequence[ComputeNode], spec: RequestSpec
) -> list[HostState]:
    """Build a state of each node, with the uuid of the node."""
    hosts = {node.host for node in nodes}
    services = view.caches.services.get(view.connection, hosts, view.host_versions)
    list_aggregates, ratios = view.aggregates.list_for_host, view.build_ratios_lookup()

    def read_instances(read: _ReadRecords, keys: Collection[str]) -> Iterable[HostInstance]:
        records = read(view.connection, keys)
        if view.released:
            records = [record for record in records if record.uuid not in view.released]
        return instances.build_host_instances(view.connection, records)

    by_hosts = partial(read_instances, instances.list_by_hosts)
    by_uuids = partial(read_instances, instances.list_by_uuids)
    recorded = RecordedInstances(
        hosts, collect_named_instances(spec), by_hosts=by_hosts, by_uuids=by_uuids
    )
    states = []
    for node in nodes:
        host, service = node.host, services[node.host]
        age, last_seen_up = view.cells.get_reading_age(node.cell_uuid), service["last_seen_up"]
        if age and last_seen_up:  # as when nova's databases were last read
            service = {**service, "last_seen_up": last_seen_up + age}
        state = make_host_state(
            node, service, list_aggregates(host), recorded.get_on_host(host), ratios(host)
        )
        # The state of a node without a report is empty, but a claim needs the uuid of the node.
        state.uuid = node.uuid
        states.append(state)
    if has_host_attributes():
        read_traits = cache(partial(map_traits, view.providers, [node.uuid for node in nodes]))
        for state in states:
            set_trait_reader(state, read_traits)
    return states


def map_traits(providers: ProviderSource, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
    """Map the uuids of providers to their traits."""
    ids = providers.map_ids(uuids)
    contents = providers.read_contents(set(ids.values()))
    trait_sets = {key: frozenset(names) for key, names in contents.trait_sets.items()}
    return {uuid: trait_sets[contents.traits[key]] for uuid, key in ids.items()}


class RecordedInstances:
    """Instances on the hosts of a request, read in at most two SQL queries.

    ``named`` are the uuids of the instances that the request names.
    """

    def __init__(
        self, hosts: Collection[str], named: Collection[str], *, by_hosts: Read, by_uuids: Read
    ) -> None:
        self._hosts = hosts
        self.named = frozenset(named)
        self._by_hosts = by_hosts
        self._by_uuids = by_uuids
        self._on: dict[str, InstancesOnHost] = {}
        self._last_check: tuple[Collection[Any], bool] = ((), True)

    def names_all(self, uuids: Collection[Any]) -> bool:
        """Return whether the request names all of ``uuids``, cached."""
        checked, is_named = self._last_check
        if checked is not uuids:
            is_named = self.named.issuperset(uuids)
            if isinstance(uuids, frozenset):
                self._last_check = uuids, is_named
        return is_named

    @cached_property
    def named_by_host(self) -> dict[str | None, dict[str, HostInstance]]:
        """Map host and uuid to the instances that the request names."""
        instances = self._by_uuids(self.named)
        return nest_rows((instance.host, instance.uuid, instance) for instance in instances)

    @cached_property
    def all_by_host(self) -> dict[str | None, dict[str, HostInstance]]:
        """Map host and uuid to all instances on the hosts of the request."""
        instances = self._by_hosts(self._hosts)
        return nest_rows((instance.host, instance.uuid, instance) for instance in instances)

    def get_on_host(self, host: str) -> "InstancesOnHost":
        """Return the instances on all nodes of a host, without reading them yet."""
        instances = self._on.get(host)
        if instances is None:
            instances = self._on[host] = InstancesOnHost(self, host)
        return instances


class InstancesOnHost(MutableMapping[str, HostInstance]):
    """The recorded instances on a host and instances added in memory, by uuid."""

    __slots__ = ("_added", "_host", "_recorded")

    def __init__(self, recorded: RecordedInstances, host: str) -> None:
        self._recorded = recorded
        self._host = host
        self._added: dict[str, HostInstance] = {}

    def __getitem__(self, uuid: str) -> HostInstance:
        return self._find_source(uuid)[uuid]

    def __setitem__(self, uuid: str, instance: HostInstance) -> None:
        self._added[uuid] = instance

    def __delitem__(self, uuid: str) -> None:
        del self._added[uuid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all | self._added)

    def __len__(self) -> int:
        return len(self._all | self._added)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._find_source(uuid)

    def keys(self) -> KeysView[str]:
        """Return a view of the uuids.

        ``keys() & uuids`` reads only named instances if the request names all ``uuids``.
        """
        return _UuidsView(self)

    def list_recorded(self) -> Collection[HostInstance]:
        """Return the recorded instances, without instances added in memory."""
        return self._all.values()

    @property
    def is_read(self) -> bool:
        """Return whether the instances on all hosts have been read."""
        return "all_by_host" in vars(self._recorded)

    def select_named(self, uuids: Collection[Any]) -> set[str] | None:
        """Return the ``uuids`` on this host if the request names all of them.

        Otherwise returns None, because all instances on the host would have to be read.
        """
        if not self._recorded.names_all(uuids):
            return None
        return {uuid for group in (self._named, self._added) for uuid in group if uuid in uuids}

    def _find_source(self, uuid: object) -> dict[str, HostInstance]:
        """Return the mapping that may have an instance, without reading all."""
        if uuid in self._added:
            return self._added
        recorded = self._recorded
        is_named_only = uuid in recorded.named and not self.is_read
        return self._named if is_named_only else self._all

    @property
    def _named(self) -> dict[str, HostInstance]:
        return self._recorded.named_by_host.get(self._host, {})

    @property
    def _all(self) -> dict[str, HostInstance]:
        return self._recorded.all_by_host.get(self._host, {})


class _UuidsView(KeysView[str]):
    _mapping: InstancesOnHost

    def __and__(self, other: Iterable[Any]) -> set[str]:
        uuids = other if isinstance(other, (set, frozenset)) else set(other)
        members = self._mapping.select_named(uuids)
        return super().__and__(uuids) if members is None else members

    def __rand__(self, other: Iterable[Any]) -> set[Any]:
        return self & other


def collect_named_instances(spec: RequestSpec) -> frozenset[str]:
    """Return the uuids of a request's own, group's and hinted instances."""
    members = spec.instance_group.members if spec.instance_group else ()
    hinted = (uuid for name in HINTS for uuid in spec.scheduler_hints.get(name, ()))
    return frozenset((*spec.instance_uuids, *members, *map(canonicalize_uuid, hinted)))


@dataclass
class CellStates:
    """The states of nova's cells, read in a single statement on first use.

    A cell is closed if ``[scheduler] disabled_cells`` names it, if its database does not answer, or
    if it is disabled in nova, except for a request to move an instance within it.
    """

    connection: Connection
    settings: Settings
    now: Clock

    @cached_property
    def by_uuid(self) -> Mapping[str, NovaCell]:
        """Return the cells by uuid."""
        return {canonicalize_uuid(cell.uuid): cell for cell in cells.list_cells(self.connection)}

    @cached_property
    def reading_age(self) -> timedelta:
        """Return the time since the last reading, 0 while a service reads."""
        times = [cell.read_at for cell in self.by_uuid.values() if cell.read_at is not None]
        if not times:
            return timedelta()
        age = self.now() - max(times)
        interval: int = self.settings.scheduler.nova_sync_interval
        seconds = max(self.settings.DEFAULT.service_down_time / 2, _MAX_MISSED_ROUNDS * interval)
        return age if age > timedelta(seconds=seconds) else timedelta()

    def get_reading_age(self, cell_uuid: str | None) -> timedelta:
        """Return the age of the records of a cell's hosts.

        Without later readings of nova's databases, a heartbeat is as old as at the last reading.
        The age is 0 for hosts that nova's databases do not have, and while a service keeps reading.
        """
        if cell_uuid is None or not self.reading_age:
            return timedelta()
        cell = self.by_uuid.get(canonicalize_uuid(cell_uuid))
        return timedelta() if cell is None or cell.read_at is None else self.reading_age

    def describe_reading(self, hosts: Iterable[HostState]) -> str | None:
        """Return when nova's databases were last read, None while they are read.

        The result is also None if none of the hosts is in a cell.
        """
        if not any(host.cell_uuid is not None for host in hosts) or not self.reading_age:
            return None
        age = format_duration(self.reading_age.total_seconds())
        return f"nova's databases were last read {age} ago: heartbeats are judged at that time"

    def map_rejections(
        self, hosts: Iterable[HostState], spec: RequestSpec, settings: Settings
    ) -> Mapping[str, Rejection]:
        """Map the uuids of closed cells to the rejections of their hosts."""
        values: dict[str, dict[str, Any]] = {}
        if any(host.cell_uuid is not None for host in hosts):
            for uuid, cell in self.by_uuid.items():
                if cell.away_since is not None:
                    seconds = max(0, int((self.now() - cell.away_since).total_seconds()))
                    values[uuid] = {"title": cell.title, "away_s": seconds}
                    values[uuid] |= {"failure": cell.failure} if cell.failure else {}
                elif cell.disabled and uuid != spec.destination.only_cell:
                    values[uuid] = {}
        values |= {canonicalize_uuid(uuid): {} for uuid in settings.scheduler.disabled_cells}
        return {
            uuid: Rejection(kind="closed_cell", values={"cell": uuid, **state})
            for uuid, state in values.items()
        }
