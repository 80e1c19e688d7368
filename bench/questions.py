# SPDX-License-Identifier: Apache-2.0
"""What is asked of each world, and how many times quicker than the peer the answer has to be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

import targets
from answers import Check, Expected
from both_servers import Request, Server
from targets import Target, at_most
from worlds.flat import FlatWorld
from worlds.hardware import CUSTOM_TRAITS, UNUSED_TRAIT
from worlds.nested import NETWORKS, NestedWorld
from worlds.rows import uuid_of
from worlds.shared import SharedWorld

PLAIN = "VCPU:4,MEMORY_MB:8192,DISK_GB:50"
#: What only 2 hosts in 100 have room for, and of trees with NUMA nodes.
TIGHT = "VCPU:4,MEMORY_MB:430000,DISK_GB:50"
TIGHT_NODE = "VCPU:4,MEMORY_MB:220000"
TIGHT_NESTED = f"{TIGHT_NODE},DISK_GB:50"
#: What no host has.
TOO_MUCH_OF_NODE = "VCPU:4,MEMORY_MB:9000000"
TOO_MUCH = f"{TOO_MUCH_OF_NODE},DISK_GB:50"
UNUSED_AGGREGATE = "00000000-0000-4000-8000-000000000000"
#: The host that is forced; it has room.
FORCED = 9
#: How often each service is asked in a row in a round. Of one request alone most of a short answer
#: would be what the peer's long one did to the caches of the processor meanwhile.
A_ROUND = 3
#: Where the peer needs less than this, it is enough not to be slower.
LITTLE_MS = 20.0


@dataclass(frozen=True, slots=True)
class Question:
    """One query: its name in the table, its parameters but for the limit, and its targets."""

    name: str
    parameters: tuple[tuple[str, str], ...]
    limit: int | None = 1000
    #: Of the ratio to the peer.
    target: Target | None = None
    #: Of our own milliseconds.
    time: Target | None = None
    #: The target gives way where the peer is quick itself.
    lenient: bool = False

    @property
    def everything(self) -> str:
        """Return the path that asks for all there is."""
        return f"/allocation_candidates?{urlencode(self.parameters)}"

    @property
    def path(self) -> str:
        """Return the path asked."""
        return self.everything if self.limit is None else f"{self.everything}&limit={self.limit}"

    def requests(self, _number: int) -> Sequence[Request]:
        """Return what is asked in each round: the same request, ``A_ROUND`` times."""
        return (Request("GET", self.path),) * A_ROUND

    def checked_by(self, peer: Server) -> Check:
        """Return what holds an answer against the peer's whole one."""
        expected = Expected(self.name, peer.whole(self.everything))
        return lambda who, _request, body: expected.check(who, body, self.limit)

    def ratio_target(self, peer_ms: float) -> Target | None:
        """Return the target of the ratio to a peer that needs ``peer_ms``."""
        if self.target is not None and self.lenient and peer_ms < LITTLE_MS:
            return replace(self.target, at_least=1)
        return self.target


def flat(world: FlatWorld) -> tuple[Question, ...]:
    """Return what is asked of a flat cloud; the first three differ in their limit."""
    places, plain = world.places, ("resources", PLAIN)
    ask = _asking(targets.FLAT)
    zones, tags = ",".join(places.zones[:2]), ",".join(places.tags[:3])
    in_and_not_in = (("member_of", f"in:{zones}"), ("member_of", f"!in:{tags}"))
    usual = f"{_REQUIRED},!{CUSTOM_TRAITS[2]}"
    rare = f"HW_CPU_X86_AVX,{CUSTOM_TRAITS[1]},!{CUSTOM_TRAITS[2]}"
    unknown, rack = ("member_of", UNUSED_AGGREGATE), ("member_of", places.racks[0])
    return (
        *_limited(ask, plain, limits=(1000, 10, None)),
        ask("2 required, 1 forbidden trait", plain, ("required", usual)),
        # One host in eight: the peer, too, has few left to look at.
        ask("2 required, one rare, 1 forbidden", plain, ("required", rare)),
        ask("in: two and !in: three aggregates", plain, *in_and_not_in),
        ask("!in: 19 aggregates", plain, ("member_of", f"!in:{','.join(places.tags[:19])}")),
        replace(ask("one rack", plain, rack), lenient=True),
        ask("tight", ("resources", TIGHT)),
        ask("no match: amount", ("resources", TOO_MUCH)),
        ask("no match: trait", plain, ("required", UNUSED_TRAIT)),
        # Each of them has many hosts, both have none.
        ask("no match: two aggregates", plain, *(("member_of", one) for one in places.zones[:2])),
        replace(ask("no match: unknown aggregate", plain, unknown), lenient=True),
        *_forced(ask, plain),
    )


def large() -> tuple[Question, ...]:
    """Return what is asked of a flat cloud so large that the peer needs many seconds."""
    return _limited(_asking(targets.LARGE), ("resources", PLAIN), limits=(1000, 10))


def nested(_world: NestedWorld) -> tuple[Question, ...]:
    """Return what is asked of trees: plain flavors, and groups.

    The groups are CPU and two cards of one NUMA node, and disk of the root. A tree has many
    candidates of a plain flavor, whose amounts any of its NUMA nodes may give.
    """
    plain, ask = ("resources", PLAIN), _asking(targets.NESTED)
    disk, cpus = ("resources", "DISK_GB:50"), ("resources_CPU", "VCPU:4,MEMORY_MB:8192")
    cards = (
        ("resources_NET1", "SRIOV_NET_VF:1"),
        ("required_NET1", NETWORKS[0]),
        ("resources_NET2", "SRIOV_NET_VF:1"),
        ("required_NET2", NETWORKS[1]),
        ("same_subtree", "_CPU,_NET1,_NET2"),
        ("group_policy", "isolate"),
    )
    return (
        *_limited(ask, plain, limits=(1000, 10)),
        ask("tight", ("resources", TIGHT_NESTED)),
        ask("no match: amount", ("resources", TOO_MUCH)),
        # With a forbidden one the peer fails on PostgreSQL, and forgets it on MariaDB.
        ask("2 required traits", plain, ("required", _REQUIRED)),
        *_forced(ask, plain),
        *_limited(ask, disk, cpus, *cards, limits=(1000, 10, None), named="granular, "),
        ask("granular, tight", disk, ("resources_CPU", TIGHT_NODE), *cards),
        ask("granular, no match: amount", disk, ("resources_CPU", TOO_MUCH_OF_NODE), *cards),
        *_forced(ask, disk, cpus, *cards, named="granular, "),
    )


def shared(world: SharedWorld) -> tuple[Question, ...]:
    """Return what is asked where the disk is in shared pools."""
    plain, ask = ("resources", PLAIN), _asking(targets.SHARED)
    own, pool = ("resources", "VCPU:4,MEMORY_MB:8192"), ("resources_DISK", "DISK_GB:50")
    pools = ",".join(world.aggregates[-2:])
    not_in = ("member_of", f"!in:{','.join(world.places.tags[:3])}")
    return (
        *_limited(ask, plain, limits=(1000, 10, None)),
        # Pools are in no other aggregates.
        ask("in: two and !in: three aggregates", plain, ("member_of", f"in:{pools}"), not_in),
        ask("!in: three aggregates", plain, not_in),
        ask("tight", ("resources", TIGHT)),
        ask("no match: amount", ("resources", TOO_MUCH)),
        *_forced(ask, own),
        # A group with a suffix may be of another tree, where a provider shares.
        *_forced(ask, own, pool, ("group_policy", "none"), named="disk of a pool, "),
        # A pool is not of the host's tree.
        replace(_forced(ask, plain)[0], name="one forced host, no match"),
    )


def equal(groups: int = 6) -> tuple[Question, ...]:
    """Return what explodes: many granular groups, each of which any of the equal children meets.

    Where they may share a child there is one group less: the peer would need minutes.
    """
    return tuple(
        Question(
            f"{count} groups, {policy}",
            (
                *((f"resources{number}", "SRIOV_NET_VF:1") for number in range(1, count + 1)),
                ("group_policy", policy),
            ),
            time=at_most(50, 10, " ms"),
        )
        for count, policy in ((groups, "isolate"), (groups - 1, "none"))
    )


def named(name: str, questions: Sequence[Question]) -> tuple[Question, ...]:
    """Return the questions with the name of their world before their own."""
    return tuple(replace(one, name=f"{name}, {one.name}") for one in questions)


_REQUIRED = "HW_CPU_X86_AVX,COMPUTE_VOLUME_MULTI_ATTACH"

Ask = Callable[..., Question]


def _asking(promised: Mapping[str, Target]) -> Ask:
    """Return what makes a question of name and terms, with the target of that name."""

    def ask(name: str, *terms: tuple[str, str]) -> Question:
        return Question(name, terms, target=promised[name])

    return ask


def _limited(
    ask: Ask, *terms: tuple[str, str], limits: Sequence[int | None], named: str = ""
) -> tuple[Question, ...]:
    """Return the same question under each limit, named by it."""
    names = ["no limit" if limit is None else f"limit={limit}" for limit in limits]
    asked = [ask(f"{named}{name}", *terms) for name in names]
    return tuple(replace(one, limit=limit) for one, limit in zip(asked, limits, strict=True))


def _forced(ask: Ask, *terms: tuple[str, str], named: str = "") -> tuple[Question, ...]:
    """Return what asks for one host: by its tree alone, as nova does, and for a flavor's traits."""
    terms = (*terms, ("in_tree", uuid_of("host", FORCED)))
    enabled = ("root_required", "!COMPUTE_STATUS_DISABLED")
    name = f"{named}one forced host"
    asked = (
        ask(name, *terms),
        ask(f"{name}, enabled", *terms, enabled),
        ask(f"{name}, traits", *terms, ("required", _REQUIRED), enabled),
    )
    return tuple(replace(one, time=targets.FORCED_HOST) for one in asked)
