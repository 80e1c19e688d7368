# SPDX-License-Identifier: Apache-2.0
"""Requests of the candidates benchmark, with their targets.

A target is OpenStack's time divided by ours, at least.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from harness import Target
from services import PEER_LATEST, Request
from worlds import (
    CUSTOM_TRAITS,
    NETWORKS,
    NUMA_NODES,
    PROJECTS,
    TAGS,
    UNUSED_TRAIT,
    ZONES,
    NestedWorld,
    World,
    uuid_of,
)

Terms = Sequence[tuple[str, str]]
#: A name, the terms of a query, and its target.
Row = tuple[str, Terms, float]

#: Requests of a round. A short response alone would be slow after a long response of the peer.
CANDIDATES_PER_ROUND, READS_PER_ROUND = 3, 20
#: The number of providers that are read, from every part of the cloud.
PROVIDERS = 400
READ_TARGET = Target(5)
FORCED_HOST_TIME = Target(5, " ms", is_maximum=True)
#: The number of the forced host, which has enough capacity.
FORCED = 9
UNUSED_AGGREGATE = "00000000-0000-4000-8000-000000000000"
REQUIRED = "HW_CPU_X86_AVX,COMPUTE_VOLUME_MULTI_ATTACH"

PLAIN = ("resources", "VCPU:4,MEMORY_MB:8192,DISK_GB:50")
#: Only 2 hosts in 100 have this capacity.
TIGHT = ("resources", "VCPU:4,MEMORY_MB:430000,DISK_GB:50")
TIGHT_NESTED = ("resources", "VCPU:4,MEMORY_MB:220000,DISK_GB:50")
#: No host has this capacity.
TOO_MUCH = ("resources", "VCPU:4,MEMORY_MB:9000000,DISK_GB:50")
#: Disk of the root, and two cards of the NUMA node that has the group ``_CPU``.
CARDS = (
    ("resources", "DISK_GB:50"),
    ("resources_NET1", "SRIOV_NET_VF:1"),
    ("required_NET1", NETWORKS[0]),
    ("resources_NET2", "SRIOV_NET_VF:1"),
    ("required_NET2", NETWORKS[1]),
    ("same_subtree", "_CPU,_NET1,_NET2"),
    ("group_policy", "isolate"),
)


@dataclass(frozen=True, slots=True)
class Query:
    """A row of the table: a name, paths that are used in turn, and targets."""

    name: str
    paths: Sequence[str]
    #: Target of the ratio to the peer, and of our own milliseconds.
    target: Target
    time: Target | None = None
    #: The limit of a candidates query, and its path without the limit.
    limit: int | None = None
    whole: str = ""
    version: str = PEER_LATEST

    def requests(self, number: int) -> Sequence[Request]:
        """Return the requests of a round, the same for both services."""
        size = CANDIDATES_PER_ROUND if self.whole else READS_PER_ROUND
        positions = range(number * size, (number + 1) * size)
        paths = [self.paths[position % len(self.paths)] for position in positions]
        return [Request("GET", path, version=self.version) for path in paths]


def _candidates(
    name: str, terms: Terms, target: float, limit: int | None = 1000, **more: Any
) -> Query:
    whole = f"/allocation_candidates?{urlencode(terms)}"
    path = whole if limit is None else f"{whole}&limit={limit}"
    return Query(name, [path], Target(target), limit=limit, whole=whole, **more)


def _limited(terms: Terms, targets: Mapping[int | None, float]) -> Iterable[Query]:
    """Yield the query with each limit."""
    for limit, target in targets.items():
        name = "no limit" if limit is None else f"limit={limit}"
        yield _candidates(name, terms, target, limit)


def _forced(terms: Terms, target: float, name: str = "one forced host") -> Iterable[Query]:
    """Yield queries for a single host: by its tree, as nova does, and with traits."""
    terms = (*terms, ("in_tree", uuid_of("host", FORCED)))
    enabled = (*terms, ("root_required", "!COMPUTE_STATUS_DISABLED"))
    traits = (*enabled, ("required", REQUIRED))
    for suffix, each in (("", terms), (", enabled", enabled), (", traits", traits)):
        yield _candidates(f"{name}{suffix}", each, target, time=FORCED_HOST_TIME)


def flat(world: World) -> list[Query]:
    """Return the queries of a flat cloud. The first three differ in their limit only."""
    zones, tags = ZONES[:2], TAGS
    in_and_not_in = (
        ("member_of", f"in:{','.join(zones)}"),
        ("member_of", f"!in:{','.join(tags[:3])}"),
    )
    usual = f"{REQUIRED},!{CUSTOM_TRAITS[2]}"
    rare = f"HW_CPU_X86_AVX,{CUSTOM_TRAITS[1]},!{CUSTOM_TRAITS[2]}"
    rows: list[Row] = [
        ("2 required, 1 forbidden trait", (PLAIN, ("required", usual)), 100),
        ("2 required, one rare, 1 forbidden", (PLAIN, ("required", rare)), 100),
        ("in: two and !in: three aggregates", (PLAIN, *in_and_not_in), 50),
        ("!in: 19 aggregates", (PLAIN, ("member_of", f"!in:{','.join(tags[:19])}")), 40),
        ("tight", (TIGHT,), 25),
        ("no match: amount", (TOO_MUCH,), 25),
        ("no match: trait", (PLAIN, ("required", UNUSED_TRAIT)), 50),
        ("no match: two aggregates", (PLAIN, *(("member_of", each) for each in zones)), 3),
        ("one rack", (PLAIN, ("member_of", world.racks[0])), 5),
        ("no match: unknown aggregate", (PLAIN, ("member_of", UNUSED_AGGREGATE)), 5),
    ]
    return [
        *_limited((PLAIN,), {1000: 150, 10: 500, None: 15}),
        *(_candidates(*row) for row in rows),
        *_forced((PLAIN,), 50),
    ]


def nested(_world: World) -> list[Query]:
    """Return the queries of trees: plain flavors, and granular groups of a NUMA node."""

    def granular(cpus: str) -> Terms:
        return (("resources_CPU", cpus), *CARDS)

    usual = granular("VCPU:4,MEMORY_MB:8192")
    rows: list[Row] = [
        ("tight", (TIGHT_NESTED,), 60),
        ("no match: amount", (TOO_MUCH,), 60),
        # With a forbidden trait the peer fails on PostgreSQL, and ignores the trait on MariaDB.
        ("2 required traits", (PLAIN, ("required", REQUIRED)), 60),
        ("granular, tight", granular("VCPU:4,MEMORY_MB:220000"), 60),
        ("granular, no match: amount", granular("VCPU:4,MEMORY_MB:9000000"), 60),
    ]
    limits = _limited(usual, {1000: 100, 10: 900, None: 10})
    return [
        *_limited((PLAIN,), {1000: 175, 10: 600}),
        *(_candidates(*row) for row in rows),
        *_forced((PLAIN,), 300),
        *(replace(query, name=f"granular, {query.name}") for query in limits),
        *_forced(usual, 300, "granular, one forced host"),
    ]


def shared(world: World) -> list[Query]:
    """Return the queries of hosts that use disk of shared pools."""
    own, pool = ("resources", "VCPU:4,MEMORY_MB:8192"), ("resources_DISK", "DISK_GB:50")
    # The pools are in no other aggregates.
    pools = ("member_of", f"in:{','.join(world.aggregates[-2:])}")
    not_in = ("member_of", f"!in:{','.join(TAGS[:3])}")
    rows: list[Row] = [
        ("in: two and !in: three aggregates", (PLAIN, pools, not_in), 50),
        ("!in: three aggregates", (PLAIN, not_in), 50),
        ("tight", (TIGHT,), 15),
        ("no match: amount", (TOO_MUCH,), 10),
    ]
    name = "disk of a pool, one forced host"
    no_match, *_ = _forced((PLAIN,), 300, "one forced host, no match")
    return [
        *_limited((PLAIN,), {1000: 80, 10: 400, None: 12}),
        *(_candidates(*row) for row in rows),
        *_forced((own,), 300),
        # A group with a suffix may use a provider of another tree that shares.
        *_forced((own, pool, ("group_policy", "none")), 300, name),
        # A pool is not in the tree of the host.
        no_match,
    ]


def reads_of_providers(world: World) -> list[Query]:
    """Return the reads of nova-computes every minute."""
    providers = list(_providers(world))
    paths = {"?in_tree=": [f"/resource_providers?in_tree={uuid}" for uuid in providers]}
    for noun in ("inventories", "aggregates", "traits", "allocations", "usages"):
        paths[noun] = [f"/resource_providers/{uuid}/{noun}" for uuid in providers]
    return [Query(noun, each, READ_TARGET) for noun, each in paths.items()]


def reads_of_consumers(world: World, get: Callable[[str], Any]) -> list[Query]:
    """Return reads of all providers, projects and consumers, which ``get`` reads."""
    responses = [get(f"/resource_providers/{uuid}/allocations") for uuid in _providers(world)]
    consumers = [uuid for each in responses for uuid in sorted(each["allocations"])[:2]]
    large_project, *others = [
        f"/usages?project_id={uuid_of('project', number)}" for number in range(PROJECTS)
    ]
    # From 1.38 on, with usages by consumer type, the peer fails on PostgreSQL.
    return [
        Query("list of all providers", ["/resource_providers"], READ_TARGET),
        Query(
            "allocations of a consumer", [f"/allocations/{uuid}" for uuid in consumers], READ_TARGET
        ),
        Query("usages of a project", others[:PROVIDERS], READ_TARGET, version="1.37"),
        Query("usages of a large project", [large_project], READ_TARGET, version="1.37"),
    ]


def _providers(world: World) -> Iterable[str]:
    """Yield hosts of every part of the cloud, or in trees hosts, NUMA nodes and cards in turn."""
    for turn, number in enumerate(range(0, world.size, max(world.size // PROVIDERS, 1))):
        numa, card = number * NUMA_NODES, number * NUMA_NODES * len(NETWORKS)
        kinds = [("host", number)]
        if isinstance(world, NestedWorld):
            kinds += [("numa", numa), ("card", card)]
        yield uuid_of(*kinds[turn % len(kinds)])
