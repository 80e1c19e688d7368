"""What is asked of each world, and how many times quicker than the peer the answer has to be."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from targets import Target, at_most
from worlds.flat import FlatWorld
from worlds.hardware import CUSTOM_TRAITS, UNUSED_TRAIT
from worlds.nested import NETWORKS

PLAIN = "VCPU:4,MEMORY_MB:8192,DISK_GB:50"
UNUSED_AGGREGATE = "00000000-0000-4000-8000-000000000000"
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

    def limited(self, limit: int | None, at_least: float, aim: float) -> "Question":
        """Return the same under another limit, named by it."""
        name = "no limit" if limit is None else f"limit={limit}"
        return replace(self, name=name, limit=limit, target=Target(at_least, aim))

    def ratio_target(self, peer_ms: float) -> Target | None:
        """Return the target of the ratio to a peer that needs ``peer_ms``."""
        if self.target is not None and self.lenient and peer_ms < LITTLE_MS:
            return replace(self.target, at_least=1)
        return self.target


def flat(world: FlatWorld) -> tuple[Question, ...]:
    """Return what is asked of a flat cloud."""
    places, narrowed, few = world.places, Target(25, 60), Target(5, 15)
    zones, tags = ",".join(places.zones[:2]), ",".join(places.tags[:3])
    usual = f"HW_CPU_X86_AVX,COMPUTE_VOLUME_MULTI_ATTACH,!{CUSTOM_TRAITS[2]}"
    rare = f"HW_CPU_X86_AVX,{CUSTOM_TRAITS[1]},!{CUSTOM_TRAITS[2]}"
    plain = ("resources", PLAIN)

    def ask(name: str, *terms: tuple[str, str], target: Target | None) -> Question:
        return Question(name, terms, target=target, lenient=target is few)

    base = Question("", (plain,))
    return (
        base.limited(1000, 50, 120),
        base.limited(10, 200, 700),
        ask("2 required, 1 forbidden trait", plain, ("required", usual), target=narrowed),
        # One host in eight: the peer, too, has few left to look at.
        ask("2 required, one rare, 1 forbidden", plain, ("required", rare), target=narrowed),
        ask(
            "in: and !in: aggregates",
            *(plain, ("member_of", f"in:{zones}"), ("member_of", f"!in:{tags}")),
            target=narrowed,
        ),
        ask(
            "!in: 19 aggregates",
            *(plain, ("member_of", f"!in:{','.join(places.tags[:19])}")),
            target=narrowed,
        ),
        ask("one rack", plain, ("member_of", places.racks[0]), target=few),
        ask("few fit", ("resources", "VCPU:4,MEMORY_MB:600000"), target=few),
        ask("no host fits (resources)", ("resources", "VCPU:4,MEMORY_MB:9000000"), target=few),
        ask("no host fits (traits)", plain, ("required", UNUSED_TRAIT), target=few),
        ask("no host fits (aggregates)", plain, ("member_of", UNUSED_AGGREGATE), target=few),
        base.limited(None, 10, 20),
    )


def large() -> tuple[Question, ...]:
    """Return what is asked of a flat cloud so large that the peer needs many seconds."""
    base = Question("", (("resources", PLAIN),))
    return base.limited(1000, 250, 500), base.limited(10, 800, 3000)


def nested() -> tuple[Question, ...]:
    """Return what is asked of trees: CPU and two cards of one NUMA node, and disk of the root."""
    base = Question(
        "",
        (
            ("resources", "DISK_GB:50"),
            ("resources_CPU", "VCPU:4,MEMORY_MB:8192"),
            ("resources_NET1", "SRIOV_NET_VF:1"),
            ("required_NET1", NETWORKS[0]),
            ("resources_NET2", "SRIOV_NET_VF:1"),
            ("required_NET2", NETWORKS[1]),
            ("same_subtree", "_CPU,_NET1,_NET2"),
            ("group_policy", "isolate"),
        ),
    )
    return base.limited(1000, 25, 60), base.limited(10, 300, 900), base.limited(None, 4, 8)


def shared() -> tuple[Question, ...]:
    """Return what is asked where the disk is in shared pools."""
    base = Question("", (("resources", PLAIN),))
    return base.limited(1000, 30, 80), base.limited(10, 150, 500)


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
