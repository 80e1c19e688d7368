"""Host aggregates, the hosts in them, and how placement is synchronised with them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Literal, NamedTuple

from placement_sched.model.aggregates import HostAggregate

#: A trait on a provider: the provider's uuid and the trait's name.
ProviderTrait = tuple[str, str]
#: What is synchronised of providers, as the placement API has it in paths and documents.
SyncedAttribute = Literal["aggregates", "traits"]


class SyncCode(IntEnum):
    """How it ended: nova-manage's return codes (nova's guide, "nova-manage placement").

    The last two are of ``sync_traits`` alone, which nova has not.
    """

    DONE = 0
    SEVERAL_NODES = 1
    PLACEMENT_FAILED = 2
    UPDATE_FAILED = 3
    HOST_UNKNOWN = 4
    NO_NODE = 5
    NO_PROVIDER = 6
    TRAIT_REFUSED = 7
    AGGREGATE_UNKNOWN = 8


#: Of several, which one is the exit status: what stops everything, then what an operator must
#: decide, then what is missing.
_GRAVEST_FIRST = (
    SyncCode.PLACEMENT_FAILED,
    SyncCode.SEVERAL_NODES,
    SyncCode.UPDATE_FAILED,
    SyncCode.TRAIT_REFUSED,
    SyncCode.AGGREGATE_UNKNOWN,
    SyncCode.NO_PROVIDER,
    SyncCode.NO_NODE,
    SyncCode.HOST_UNKNOWN,
)


@dataclass(frozen=True, slots=True, order=True)
class SyncProblem:
    """Something that kept a host or a trait from being synchronised."""

    code: SyncCode
    about: str
    detail: str


class ProviderChange(NamedTuple):
    """An aggregate (its uuid) or a trait to add to providers, or to remove from them.

    ``providers`` maps each to the uuid of the aggregate that requires it.
    """

    attribute: SyncedAttribute
    name: str
    providers: Mapping[str, str]
    adding: bool


@dataclass(frozen=True, slots=True)
class Changed:
    """The result of each requested change, by provider uuid.

    ``done`` were changed; ``missing`` do not exist (any more); ``failed`` could not be
    changed, for a reason. Of the others nothing was to change any more.
    """

    done: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TraitRecord:
    """What ``sync_traits`` has put where: pairs of provider uuid and trait.

    ``pairs`` have the uuid of the aggregate that requires it. ``outlived`` are those whose provider
    is gone: a new one with its uuid is another provider.
    """

    pairs: Mapping[tuple[str, str], str] = field(default_factory=dict)
    outlived: frozenset[tuple[str, str]] = frozenset()


def gravest(problems: Iterable[SyncProblem]) -> SyncCode:
    """Return the most severe code of several problems; :attr:`SyncCode.DONE` for none."""
    found = {problem.code for problem in problems}
    return next((code for code in _GRAVEST_FIRST if code in found), SyncCode.DONE)


@dataclass(frozen=True)
class HostMap:
    """The host aggregates of a cloud, its hosts, and the uuids of their compute nodes.

    A compute node's uuid is that of its root resource provider. ``known`` has the hosts with a
    nova-compute service as well, which may be missing in ``nodes``.
    """

    aggregates: tuple[HostAggregate, ...]
    known: frozenset[str]
    nodes: Mapping[str, frozenset[str]]

    @cached_property
    def host_of(self) -> dict[str, str]:
        """The host of each compute node, by the node's uuid."""
        return {uuid: host for host, uuids in self.nodes.items() for uuid in uuids}

    def nodes_in(self, aggregate: HostAggregate) -> frozenset[str]:
        """Return the uuids of the compute nodes of an aggregate's hosts."""
        return frozenset(
            uuid for host in aggregate.hosts for uuid in self.nodes.get(host, frozenset())
        )

    def by_uuid(self, uuid: str) -> HostAggregate | None:
        """Return the aggregate of this uuid, or None."""
        return next((one for one in self.aggregates if one.uuid == uuid), None)

    def disagreements(self, members: Mapping[str, frozenset[str]]) -> Iterator["Disagreement"]:
        """Yield where provider aggregates do not have the members that host aggregates have.

        ``members`` are the uuids of the providers in each aggregate. Only compute nodes count: a
        provider that shares its storage with an aggregate is in it rightly and on no host.
        """
        for aggregate in self.aggregates:
            found, wanted = members.get(aggregate.uuid, frozenset()), self.nodes_in(aggregate)
            lacking, stale = wanted - found, (found & self.host_of.keys()) - wanted
            if lacking or stale:
                yield Disagreement(aggregate, lacking, frozenset(stale))


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A provider aggregate that is not as its host aggregate, by uuids of compute nodes.

    ``lacking`` belong to its hosts and are not in it; ``stale`` belong to other hosts and are.
    """

    aggregate: HostAggregate
    lacking: frozenset[str]
    stale: frozenset[str]
