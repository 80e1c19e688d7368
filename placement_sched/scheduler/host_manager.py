"""Host states for what the candidates search found, and the instances on their hosts.

Hosts may have tens of thousands of instances, and most requests ask for none: nothing is read for
them. What a request names itself (members of its server group, those of ``same_host``) is read
alone; all are read, for every host at once, only for plugins that need all.
"""

from collections import defaultdict
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
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self

from placement_sched.candidates.providers import ProviderSource
from placement_sched.config.settings import Settings
from placement_sched.db.failover import history_of
from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.candidates_query import AllocationRequest, Candidates
from placement_sched.model.clock import Clock
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.instance import HostInstance, Instance, NovaCell
from placement_sched.model.names import canonical
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.caches import Aggregates, HostVersions, Memory
from placement_sched.scheduler.filtering import named_nodes
from placement_sched.scheduler.host_state import HostState, make, offer
from placement_sched.scheduler.policies.registry import NO_RATIOS, Policies, Ratios, ratios_under
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.store.compute import (
    cells,
    compute_nodes,
    host_aggregates,
    host_changes,
    instances,
)
from placement_sched.store.compute import hosts as hosts_module
from placement_sched.store.placement import aggregates as placement_aggregates

#: Reads instances by host or by uuid.
Read = Callable[[Collection[str]], Iterable[HostInstance]]

#: The scheduler hints that name instances.
HINTS = ("same_host", "different_host")

_ReadRecords = Callable[[Connection, Collection[str]], Iterable[Instance]]


@dataclass
class CloudView:
    """The cloud as one request sees it: aggregates are read when first asked for, then stay.

    ``known_aggregates`` are those that were read for the request before. ``policies`` are those
    that hosts may be under, whichever the request is. ``states_age`` is in seconds, where the
    driver keeps reports of hosts, see ``kept_nodes``. ``shared_states`` is there where several
    requests look at this cloud in turn.
    """

    connection: Connection
    memory: Memory
    known_aggregates: Aggregates | None = None
    policies: Policies | None = None
    states_age: float | None = None
    shared_states: "SharedStates | None" = None

    @classmethod
    def of(cls, connection: Connection, request: SchedulingRequest, memory: Memory) -> Self:
        """Return the cloud as a request sees it; kept reports are read again when it is time."""
        driver, age = request.plugins.driver, None
        if driver.keeps_states and not request.spec.is_rebuild:
            interval = request.settings.scheduler.periodic_task_interval
            history = history_of(connection)
            age = memory.kept_nodes.refresh(driver.now(), interval, history)
        return cls(connection, memory, request.aggregates, request.policies, age)

    @cached_property
    def providers(self) -> ProviderSource:
        """What the candidates search asks about providers, as this request sees them."""
        return self.memory.provider_source(self.connection)

    @cached_property
    def host_versions(self) -> HostVersions:
        """The versions of the parts of all hosts, read before any host is."""
        return host_changes.versions(self.connection)

    @property
    def aggregates(self) -> Aggregates:
        """Return all host aggregates, as they were when this request first looked."""
        if self.known_aggregates is None:
            self.known_aggregates = self.memory.aggregates.current(self.connection)
        return self.known_aggregates

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        """Return all host aggregates, by id, as request filters ask for them."""
        return self.aggregates.every

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the aggregates that each of these providers is in, if in any."""
        return placement_aggregates.of_providers(self.connection, uuids)

    def nodes_with_instances(self, uuids: Collection[str]) -> frozenset[str]:
        """Return those of the compute nodes whose hosts have instances."""
        return host_aggregates.nodes_with_instances(self.connection, uuids)

    def ratios(self) -> Callable[[str], Ratios]:
        """Return the function that gives the ratios of a host which override its own."""
        policies = self.policies
        if policies is None or not policies.names or not self.aggregates.of_policies:
            return lambda _host: NO_RATIOS
        of_host = self.aggregates.of_host

        def ratios(host: str) -> Ratios:
            return ratios_under((one.policy for one in of_host(host) if one.policy), policies)

        return ratios

    def forget_states(self) -> None:
        """Let the next request have states of its own: what this one does to them stays there."""
        if self.shared_states is not None:
            self.shared_states.forget()

    def all_nodes_have(self, trait: str) -> bool:
        """Return whether the root provider of every enabled compute node has a trait."""
        return hosts_module.all_nodes_have(self.connection, trait)


@dataclass(slots=True)
class SharedStates:
    """Host states that several requests look at in turn, by the uuids of their nodes.

    Each request finds them as if they were new, as long as nothing is written to a state but its
    limits and its candidates. Before anything else is written :meth:`forget` is to be called.
    """

    _named: frozenset[str] = frozenset()
    _known: dict[str, HostState | None] = field(default_factory=dict)

    def of(
        self, cloud: CloudView, spec: RequestSpec, roots: Mapping[str, Sequence[AllocationRequest]]
    ) -> list[HostState]:
        """Return the states of the nodes of these roots, in their order, with these candidates."""
        if (named := named_by(spec)) != self._named:  # each state knows the instances of these
            self.forget()
            self._named = named
        known = self._known
        if lacking := [uuid for uuid in roots if uuid not in known]:
            new = {state.uuid: state for state in _states_of(cloud, spec, lacking)}
            known.update((uuid, new.get(uuid)) for uuid in lacking)
        found = []
        for uuid, requests in roots.items():
            if (state := known[uuid]) is not None:
                if state.limits:
                    state.limits = {}
                offer(state, requests)
                found.append(state)
        return found

    def forget(self) -> None:
        """Make new states for the next request."""
        self._known = {}


def look(cloud: CloudView, spec: RequestSpec, candidates: Candidates) -> list[HostState]:
    """Return the states of the hosts to choose from: those with candidates.

    A rebuild has none, and is for the hosts that it names, or all.
    """
    if not spec.is_rebuild:
        return host_states(cloud, candidates, spec)
    named = named_nodes(cloud.connection, spec)
    nodes = compute_nodes.search(cloud.connection) if named is None else named
    return named_states(cloud, nodes, spec)


def host_states(
    cloud: CloudView, candidates: Candidates, spec: RequestSpec, also: Iterable[str] = ()
) -> list[HostState]:
    """Return a state of each node that candidates lie on, in the order found.

    A provider tree whose root is not a compute node is left out, as in nova. ``also`` are uuids of
    nodes to be there even without candidates.
    """
    roots = _by_root(candidates.requests)
    for uuid in also:
        roots.setdefault(uuid, ())
    if cloud.shared_states is not None:
        return cloud.shared_states.of(cloud, spec, roots)
    states = _states_of(cloud, spec, roots)
    for state in states:
        offer(state, roots[str(state.uuid)])
    return states


def _by_root(requests: Sequence[AllocationRequest]) -> dict[str, Sequence[AllocationRequest]]:
    """Return the candidates on each tree, by its root in the order found."""
    found: dict[str, Sequence[AllocationRequest]] = {one.root_uuid: (one,) for one in requests}
    if len(found) == len(requests):  # most clouds: one candidate for each host
        return found
    several: dict[str, list[AllocationRequest]] = defaultdict(list)
    for one in requests:
        several[one.root_uuid].append(one)
    return {uuid: tuple(some) for uuid, some in several.items()}


def _states_of(cloud: CloudView, spec: RequestSpec, uuids: Collection[str]) -> list[HostState]:
    """Return a state of each of these nodes, less what went there since it was read."""
    kept = None if cloud.states_age is None else cloud.memory.kept_nodes
    nodes = (kept or cloud.memory.nodes).get(cloud.connection, uuids, cloud.host_versions)
    states = named_states(cloud, nodes, spec)
    supposed = cloud.memory.supposed
    for state in states:
        uuid = str(state.uuid)
        # Before there are candidates: those of this request say nothing of where others went.
        earlier_on = (*(kept.placed_on(uuid) if kept else ()), *supposed.get(uuid, ()))
        for earlier in earlier_on:
            state.consume_from_request(earlier)
    return states


def named_states(
    cloud: CloudView, nodes: Sequence[ComputeNode], spec: RequestSpec
) -> list[HostState]:
    """Return a state of each node, each with its uuid, by which it is chosen."""
    hosts = {node.host for node in nodes}
    found = cloud.memory.services.get(cloud.connection, hosts, cloud.host_versions)
    of_host, ratios = cloud.aggregates.of_host, cloud.ratios()

    def recorded_of(read: _ReadRecords, keys: Collection[str]) -> Iterator[HostInstance]:
        return map(HostInstance.recorded, read(cloud.connection, keys))

    by_hosts = partial(recorded_of, instances.by_hosts)
    by_uuids = partial(recorded_of, instances.by_uuids)
    recorded = RecordedInstances(hosts, named_by(spec), by_hosts=by_hosts, by_uuids=by_uuids)
    states = []
    for node in nodes:
        host = node.host
        state = make(node, found[host], of_host(host), recorded.on(host), ratios(host))
        # A node without figures keeps an empty state, but what is claimed goes by its uuid.
        state.uuid = node.uuid
        states.append(state)
    return states


class RecordedInstances:
    """The instances on the hosts of one request; at most two statements, whatever is asked.

    ``named`` are uuids that the request names.
    """

    def __init__(
        self, hosts: Collection[str], named: Collection[str], *, by_hosts: Read, by_uuids: Read
    ) -> None:
        self._hosts = hosts
        self.named = frozenset(named)
        self._by_hosts = by_hosts
        self._by_uuids = by_uuids
        self._on: dict[str, InstancesOnHost] = {}
        self._asked: tuple[Collection[Any], bool] = ((), True)

    def names_all(self, uuids: Collection[Any]) -> bool:
        """Return whether the request names all of ``uuids``; each host is asked about the same."""
        asked, named = self._asked
        if asked is not uuids:
            named = self.named.issuperset(uuids)
            if isinstance(uuids, frozenset):
                self._asked = uuids, named
        return named

    @cached_property
    def of_named(self) -> dict[str | None, dict[str, HostInstance]]:
        """Return by host, then uuid, those instances that the request names."""
        return _sorted(self._by_uuids(self.named))

    @cached_property
    def everything(self) -> dict[str | None, dict[str, HostInstance]]:
        """Return by host, then uuid, all instances on the hosts of the request."""
        return _sorted(self._by_hosts(self._hosts))

    def on(self, host: str) -> "InstancesOnHost":
        """Return the instances on one host, for all its nodes, read when first looked at."""
        there = self._on.get(host)
        if there is None:
            there = self._on[host] = InstancesOnHost(self, host)
        return there


class InstancesOnHost(MutableMapping[str, HostInstance]):
    """The instances on one host by uuid; what is added stays with this mapping."""

    __slots__ = ("_added", "_host", "_recorded")

    def __init__(self, recorded: RecordedInstances, host: str) -> None:
        self._recorded = recorded
        self._host = host
        self._added: dict[str, HostInstance] = {}

    def __getitem__(self, uuid: str) -> HostInstance:
        return self._where(uuid)[uuid]

    def __setitem__(self, uuid: str, instance: HostInstance) -> None:
        self._added[uuid] = instance

    def __delitem__(self, uuid: str) -> None:
        """Take away what was added; a record stays."""
        del self._added[uuid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all | self._added)

    def __len__(self) -> int:
        return len(self._all | self._added)

    def __contains__(self, uuid: object) -> bool:
        return uuid in self._where(uuid)

    def keys(self) -> KeysView[str]:
        """Return the uuids; what they share with uuids of the request is known at once."""
        return _Uuids(self)

    def named_among(self, uuids: Collection[Any]) -> set[str] | None:
        """Return those of ``uuids`` that are here, or None where not all are the request's."""
        if not self._recorded.names_all(uuids):
            return None
        return {uuid for here in (self._named, self._added) for uuid in here if uuid in uuids}

    def _where(self, uuid: object) -> dict[str, HostInstance]:
        """Return where to look for an instance: among those named, until all have been read."""
        if uuid in self._added:
            return self._added
        recorded = self._recorded
        alone = uuid in recorded.named and "everything" not in vars(recorded)
        return self._named if alone else self._all

    @property
    def _named(self) -> dict[str, HostInstance]:
        return self._recorded.of_named.get(self._host, {})

    @property
    def _all(self) -> dict[str, HostInstance]:
        return self._recorded.everything.get(self._host, {})


class _Uuids(KeysView[str]):
    """The uuids on one host."""

    _mapping: InstancesOnHost

    def __and__(self, other: Iterable[Any]) -> set[str]:
        asked = other if isinstance(other, (set, frozenset)) else set(other)
        here = self._mapping.named_among(asked)
        return super().__and__(asked) if here is None else here

    def __rand__(self, other: Iterable[Any]) -> set[Any]:
        return self & other


def named_by(spec: RequestSpec) -> frozenset[str]:
    """Return the uuids of the instances that a request names, its own among them."""
    members = spec.instance_group.members if spec.instance_group else ()
    hinted = (uuid for name in HINTS for uuid in spec.scheduler_hints.get(name, ()))
    return frozenset((*spec.instance_uuids, *members, *map(canonical, hinted)))


def _sorted(instances: Iterable[HostInstance]) -> dict[str | None, dict[str, HostInstance]]:
    found: dict[str | None, dict[str, HostInstance]] = {}
    for instance in instances:
        found.setdefault(instance.host, {})[instance.uuid] = instance
    return found


#: Returns of the cells of these hosts those that are closed to a request: the reasons by uuid.
ClosedAmong = Callable[[Iterable[HostState], RequestSpec], Mapping[str, str]]

_DISABLED = "its cell is disabled"


def none_closed(_hosts: Iterable[HostState], _spec: RequestSpec) -> Mapping[str, str]:
    """Return no cell."""
    return {}


@dataclass
class ClosedCells:
    """The closed cells as one request sees them; read, by one statement, where a host has a cell.

    Closed are the cells that ``[scheduler] disabled_cells`` names, those whose database does not
    answer, and those that are disabled in nova. As in nova, a request that names a cell of the last
    kind, to move an instance within it, may use its hosts.
    """

    connection: Connection
    settings: Settings
    now: Clock

    @cached_property
    def _closed_in_nova(self) -> tuple[NovaCell, ...]:
        return cells.closed(self.connection)

    def among(self, hosts: Iterable[HostState], spec: RequestSpec) -> Mapping[str, str]:
        """Return the reasons by uuid, in its usual form; empty where no host has a cell."""
        reasons: dict[str, str] = {}
        if any(host.cell_uuid is not None for host in hosts):
            for cell in self._closed_in_nova:
                uuid = canonical(cell.uuid)
                if reason := self._reason(cell, named=uuid == spec.destination.only_cell):
                    reasons[uuid] = reason
        return reasons | dict.fromkeys(
            map(canonical, self.settings.scheduler.disabled_cells), _DISABLED
        )

    def _reason(self, cell: NovaCell, *, named: bool) -> str | None:
        if cell.away_since is not None:
            seconds = max(0, int((self.now() - cell.away_since).total_seconds()))
            said = f"the database of cell {cell.title} has not answered for {seconds} s"
            return f"{said}: {cell.failure}" if cell.failure else said
        return _DISABLED if cell.disabled and not named else None
