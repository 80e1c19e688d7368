# SPDX-License-Identifier: Apache-2.0
"""What each nova-compute reads every minute of its tree, and what is read of consumers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson
import targets
from answers import Check, Same
from both_servers import Request, Server
from plain_http import PEER_LATEST
from targets import Target
from worlds.flat import FlatWorld
from worlds.nested import NETWORKS, NUMA_NODES, NestedWorld
from worlds.rows import PROJECTS, uuid_of

#: Requests of a round, each of another provider: one alone takes a millisecond or two.
A_ROUND = 20
#: How many providers are read in all rounds, from every part of the cloud.
PROVIDERS = 400
#: What is read of a provider, beside its tree.
NOUNS = ("inventories", "aggregates", "traits", "allocations", "usages")


@dataclass(frozen=True, slots=True)
class Reads:
    """The same request of many providers, consumers or projects."""

    name: str
    paths: Sequence[str]
    version: str = PEER_LATEST
    target: Target = targets.READ
    time: Target | None = None

    def requests(self, number: int) -> Sequence[Request]:
        """Return the requests of round ``number``."""
        positions = range(number * A_ROUND, (number + 1) * A_ROUND)
        paths = [self.paths[position % len(self.paths)] for position in positions]
        return [Request("GET", path, version=self.version) for path in paths]

    def checked_by(self, peer: Server) -> Check:
        """Return what holds an answer against the peer's."""
        return Same(peer).check

    def ratio_target(self, _peer_ms: float) -> Target:
        """Return the target, however quick the peer is."""
        return self.target


def of_providers(world: FlatWorld | NestedWorld) -> Iterator[Reads]:
    """Yield what a nova-compute reads of the providers of its tree."""
    providers = list(_providers(world))
    kind = "nested" if isinstance(world, NestedWorld) else "flat"
    trees = [f"/resource_providers?in_tree={uuid}" for uuid in providers]
    yield Reads(f"{kind} {world.size}, ?in_tree=", trees)
    for noun in NOUNS:
        paths = [f"/resource_providers/{uuid}/{noun}" for uuid in providers]
        yield Reads(f"{kind} {world.size}, {noun}", paths)


def of_consumers(world: FlatWorld, server: Server) -> Iterator[Reads]:
    """Yield what is read of consumers, which ``server`` says, and of projects."""
    consumers = [one for uuid in _providers(world) for one in _consumers_of(server, uuid)]
    yield Reads("allocations of a consumer", [f"/allocations/{one}" for one in consumers])
    large, *others = [f"/usages?project_id={uuid_of('project', n)}" for n in range(PROJECTS)]
    # From 1.38 on, when they are grouped by consumer type, the peer fails on PostgreSQL.
    yield Reads("usages of a project", others[:PROVIDERS], "1.37")
    yield Reads("usages of a large project", [large], "1.37")


def _providers(world: FlatWorld | NestedWorld) -> Iterator[str]:
    """Yield hosts of every part of the cloud; of trees hosts, NUMA nodes and cards in turn."""
    for turn, number in enumerate(range(0, world.size, max(world.size // PROVIDERS, 1))):
        numa, card = number * NUMA_NODES, number * NUMA_NODES * len(NETWORKS)
        kinds = [("host", number)]
        if isinstance(world, NestedWorld):
            kinds += [("numa", numa), ("card", card)]
        yield uuid_of(*kinds[turn % len(kinds)])


def _consumers_of(server: Server, provider: str) -> Iterator[str]:
    """Yield the first two consumers of a provider."""
    answer = orjson.loads(server.get(f"/resource_providers/{provider}/allocations"))
    yield from sorted(answer["allocations"])[:2]
