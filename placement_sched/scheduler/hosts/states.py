"""Host states for what the candidates search found."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Self

from placement_sched.db.transaction import Connection
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.instance import HostInstance, Instance
from placement_sched.model.placement.candidate import AllocationRequest, Candidates
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.filtering import named_nodes
from placement_sched.scheduler.host_state import HostState, make, offer
from placement_sched.scheduler.hosts.caches import Aggregates, Memory
from placement_sched.scheduler.hosts.recorded_instances import RecordedInstances, named_by
from placement_sched.scheduler.policies.registry import NO_RATIOS, Policies, Ratios, ratios_under
from placement_sched.scheduler.requests.reading import SchedulingRequest
from placement_sched.store.compute import compute_nodes, instances, services
from placement_sched.store.placement import aggregates as placement_aggregates

#: Reads the records of instances by host or by uuid.
Read = Callable[[Connection, Collection[str]], Iterable[Instance]]


@dataclass(slots=True)
class CloudView:
    """The cloud as one request sees it: aggregates are read when first asked for, then stay.

    ``known_aggregates`` are those that were read for the request before. ``policies`` are those
    that hosts may be under, whichever the request is. ``states_age`` is in seconds, where the
    driver keeps reports of hosts, see ``kept_nodes``.
    """

    connection: Connection
    memory: Memory
    known_aggregates: Aggregates | None = None
    policies: Policies | None = None
    states_age: float | None = None

    @classmethod
    def of(cls, connection: Connection, request: SchedulingRequest, memory: Memory) -> Self:
        """Return the cloud as a request sees it; kept reports are read again when it is time."""
        driver, age = request.plugins.driver, None
        if driver.keeps_states and not request.spec.is_rebuild:
            interval = request.settings.scheduler.periodic_task_interval
            age = memory.kept_nodes.refresh(driver.now(), interval)
        return cls(connection, memory, request.aggregates, request.policies, age)

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

    def ratios(self) -> Callable[[str], Ratios]:
        """Return the function that gives the ratios of a host which override its own."""
        policies = self.policies
        if policies is None or not policies.names or not self.aggregates.of_policies:
            return lambda _host: NO_RATIOS
        of_host = self.aggregates.of_host

        def ratios(host: str) -> Ratios:
            return ratios_under((one.policy for one in of_host(host) if one.policy), policies)

        return ratios

    def all_nodes_have(self, trait: str) -> bool:
        """Return whether the root provider of every enabled compute node has a trait."""
        return self.memory.node_traits.all_have(self.connection, trait)


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
    requests: dict[str, list[AllocationRequest]] = defaultdict(list)
    for request in candidates.requests:
        requests[request.root_uuid].append(request)
    for uuid in also:
        requests.setdefault(uuid, [])
    kept = None if cloud.states_age is None else cloud.memory.kept_nodes
    nodes = (kept or cloud.memory.nodes).get(cloud.connection, requests)
    states = named_states(cloud, nodes, spec)
    for state in states:
        uuid = str(state.uuid)
        # Before there are candidates: those of this request say nothing of where others went.
        for earlier in kept.placed_on(uuid) if kept else ():
            state.consume_from_request(earlier)
        offer(state, tuple(requests[uuid]))
    return states


def named_states(
    cloud: CloudView, nodes: Sequence[ComputeNode], spec: RequestSpec
) -> list[HostState]:
    """Return a state of each node, each with its uuid, by which it is chosen; one statement."""
    hosts = {node.host for node in nodes}
    found = services.by_hosts(cloud.connection, hosts)
    of_host, ratios = cloud.aggregates.of_host, cloud.ratios()

    def recorded_of(read: Read, keys: Collection[str]) -> Iterator[HostInstance]:
        return map(HostInstance.recorded, read(cloud.connection, keys))

    by_hosts = partial(recorded_of, instances.by_hosts)
    by_uuids = partial(recorded_of, instances.by_uuids)
    recorded = RecordedInstances(hosts, named_by(spec), by_hosts=by_hosts, by_uuids=by_uuids)
    states = []
    for node in nodes:
        host = node.host
        state = make(node, found.get(host), of_host(host), recorded.on(host), ratios(host))
        # A node without figures keeps an empty state, but what is claimed goes by its uuid.
        state.uuid = node.uuid
        states.append(state)
    return states
