"""Host states for what the candidates search found."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from placement_sched.candidates.roomy import Roomy
from placement_sched.db.connection import Connection
from placement_sched.model.candidate import AllocationRequest, Candidates
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.host_instance import HostInstance
from placement_sched.model.instance import Instance
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.aggregates import AggregateCache, Aggregates
from placement_sched.scheduler.host_state import HostState, make, offer
from placement_sched.scheduler.ignored_log import IgnoredLog
from placement_sched.scheduler.kept_nodes import KeptNodes
from placement_sched.scheduler.node_traits import NodeTraitCache
from placement_sched.scheduler.nodes import NodeCache
from placement_sched.scheduler.policies.ratios import NONE, Ratios, ratios_under
from placement_sched.scheduler.policies.registry import Policies
from placement_sched.scheduler.recorded_instances import RecordedInstances, named_by
from placement_sched.store import instances, memberships, services


class Memory:
    """What one process remembers between requests; right with any number of processes."""

    def __init__(self) -> None:
        self.nodes = NodeCache()
        self.kept_nodes = KeptNodes(self.nodes)
        self.aggregates = AggregateCache()
        self.node_traits = NodeTraitCache()
        self.roomy = Roomy()
        self.ignored = IgnoredLog()


@dataclass(slots=True)
class World:
    """The cloud as one request sees it: aggregates are read when first asked for, then stay.

    ``known_aggregates`` are those that were read for the request before.

    ``keeps_states`` is whether it sees reports of hosts that were kept, see ``kept_nodes``.
    ``policies`` are those that hosts may be under, whichever the request is.
    """

    connection: Connection
    memory: Memory
    keeps_states: bool = False
    known_aggregates: Aggregates | None = None
    policies: Policies | None = None

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
        return memberships.joined(self.connection, uuids)

    def ratios(self) -> Callable[[str], Ratios]:
        """Return what tells the ratios of a host that stand over its own, as inventories have."""
        policies = self.policies
        if policies is None or not policies.names or not self.aggregates.of_policies:
            return lambda _host: NONE
        of_host = self.aggregates.of_host

        def ratios(host: str) -> Ratios:
            return ratios_under((one.policy for one in of_host(host) if one.policy), policies)

        return ratios

    def all_nodes_have(self, trait: str) -> bool:
        """Return whether the root provider of every enabled compute node has a trait."""
        return self.memory.node_traits.all_have(self.connection, trait)


def host_states(
    world: World, candidates: Candidates, spec: RequestSpec, also: Iterable[str] = ()
) -> list[HostState]:
    """Return a state of each node that candidates lie on, in the order found.

    A provider tree whose root is no compute node is left out, as nova does. ``also`` are the uuids
    of nodes to be there even without candidates.
    """
    requests: dict[str, list[AllocationRequest]] = defaultdict(list)
    for request in candidates.requests:
        requests[request.root_uuid].append(request)
    for uuid in also:
        requests.setdefault(uuid, [])
    kept = world.memory.kept_nodes if world.keeps_states else None
    nodes = (kept or world.memory.nodes).get(world.connection, requests)
    states = named_states(world, nodes, spec)
    for state in states:
        uuid = str(state.uuid)
        # Before there are candidates: those of this request say nothing of where others went.
        for earlier in kept.placed_on(uuid) if kept else ():
            state.consume_from_request(earlier)
        offer(state, requests[uuid])
    return states


def named_states(world: World, nodes: Sequence[ComputeNode], spec: RequestSpec) -> list[HostState]:
    """Return a state of each node, each with its uuid, by which it is chosen."""
    states = states_of(world, nodes, spec)
    for node_uuid, state in states:
        # A node without figures keeps an empty state, but what is claimed goes by its uuid.
        state.uuid = node_uuid
    return [state for _, state in states]


def states_of(
    world: World, nodes: Sequence[ComputeNode], spec: RequestSpec
) -> list[tuple[str, HostState]]:
    """Return a state of each node, with its uuid (an empty state has none), in one statement."""
    hosts = {node.host for node in nodes}
    found = services.by_hosts(world.connection, hosts)
    of_host, ratios = world.aggregates.of_host, world.ratios()
    recorded = RecordedInstances(
        hosts,
        named_by(spec),
        by_hosts=partial(_instances, world, instances.by_hosts),
        by_uuids=partial(_instances, world, instances.by_uuids),
    )
    return [
        (
            node.uuid,
            make(
                node,
                found.get(node.host),
                of_host(node.host),
                recorded.on(node.host),
                ratios(node.host),
            ),
        )
        for node in nodes
    ]


def _instances(
    world: World, read: Callable[..., Iterable[Instance]], keys: Collection[str]
) -> Iterator[HostInstance]:
    return map(HostInstance.recorded, read(world.connection, keys))
