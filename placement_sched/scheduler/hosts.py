"""Host states for what the candidates search found."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from placement_sched.db.connection import Connection
from placement_sched.model.candidate import Candidates
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.scheduler.aggregates import AggregateCache, Aggregates
from placement_sched.scheduler.host_state import HostState, make
from placement_sched.scheduler.node_traits import NodeTraitCache
from placement_sched.scheduler.nodes import NodeCache
from placement_sched.store import memberships, services


class Memory:
    """What one process remembers between requests; right with any number of processes."""

    def __init__(self) -> None:
        self.nodes = NodeCache()
        self.aggregates = AggregateCache()
        self.node_traits = NodeTraitCache()


@dataclass(slots=True)
class World:
    """The cloud as one request sees it: aggregates are read when first asked for, then stay."""

    connection: Connection
    memory: Memory
    _aggregates: Aggregates | None = None

    @property
    def aggregates(self) -> Aggregates:
        """Return all host aggregates, as they were when this request first looked."""
        if self._aggregates is None:
            self._aggregates = self.memory.aggregates.current(self.connection)
        return self._aggregates

    def host_aggregates(self) -> tuple[HostAggregate, ...]:
        """Return all host aggregates, by id, as request filters ask for them."""
        return self.aggregates.every

    def provider_aggregates(self, uuids: Collection[str]) -> Mapping[str, frozenset[str]]:
        """Return the uuids of the aggregates that each of these providers is in, if in any."""
        return memberships.joined(self.connection, uuids)

    def all_nodes_have(self, trait: str) -> bool:
        """Return whether the root provider of every enabled compute node has a trait."""
        return self.memory.node_traits.all_have(self.connection, trait)


def host_states(world: World, candidates: Candidates) -> list[HostState]:
    """Return a state of each node that candidates lie on, in the order found.

    A provider tree whose root is no compute node is left out, as nova does.
    """
    requests: dict[str, list[dict[str, object]]] = defaultdict(list)
    for request in candidates.requests:
        requests[request.root_uuid].append(request.as_json())
    states = named_states(world, world.memory.nodes.get(world.connection, requests))
    for state in states:
        state.allocation_candidates = requests[str(state.uuid)]
    return states


def named_states(world: World, nodes: Sequence[ComputeNode]) -> list[HostState]:
    """Return a state of each node, each with its uuid, by which it is chosen."""
    states = states_of(world, nodes)
    for node_uuid, state in states:
        # A node without figures keeps an empty state, but what is claimed goes by its uuid.
        state.uuid = node_uuid
    return [state for _, state in states]


def states_of(world: World, nodes: Sequence[ComputeNode]) -> list[tuple[str, HostState]]:
    """Return a state of each node, with its uuid (an empty state has none), in one statement."""
    found = services.by_hosts(world.connection, {node.host for node in nodes})
    of_host = world.aggregates.of_host
    return [(node.uuid, make(node, found.get(node.host), of_host(node.host))) for node in nodes]
