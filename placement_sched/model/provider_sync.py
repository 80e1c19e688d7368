# SPDX-License-Identifier: Apache-2.0
"""Synchronisation of placement with host aggregates and their hosts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property
from typing import Literal, NamedTuple

from placement_sched.model.aggregates import HostAggregate

#: A provider uuid and a trait name.
ProviderTrait = tuple[str, str]
#: The synchronised attributes of providers, as in placement's paths and documents.
SyncedAttribute = Literal["aggregates", "traits"]


class SyncCode(IntEnum):
    """Return codes of nova-manage (nova's guide, "nova-manage placement").

    The last two codes are specific to ``sync_traits``, a command that nova does not have.
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


#: Precedence of the exit status: first failures that stop the command, then problems for an
#: operator to decide, then missing objects.
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
    """A problem that prevented the synchronisation of a host or a trait."""

    code: SyncCode
    about: str
    detail: str


class ProviderChange(NamedTuple):
    """A change of providers: an aggregate uuid or a trait to add or to remove.

    ``providers`` maps each provider to the uuid of the aggregate that requires the change.
    """

    attribute: SyncedAttribute
    name: str
    providers: Mapping[str, str]
    adding: bool


@dataclass(frozen=True, slots=True)
class ChangeResult:
    """The result of a requested change, by provider uuid.

    ``done`` were changed, ``missing`` do not exist, and ``failed`` have the reason of the failure.
    All other providers needed no change.
    """

    done: frozenset[str] = frozenset()
    missing: frozenset[str] = frozenset()
    failed: Mapping[str, str] = field(default_factory=dict)


def most_severe(problems: Iterable[SyncProblem]) -> SyncCode:
    """Return the most severe code of the problems, or :attr:`SyncCode.DONE` for none."""
    codes = {problem.code for problem in problems}
    return next((code for code in _GRAVEST_FIRST if code in codes), SyncCode.DONE)


@dataclass(frozen=True)
class HostMap:
    """The host aggregates of a cloud, its hosts, and the uuids of their compute nodes.

    A compute node has the uuid of its root resource provider. ``known`` are all hosts with a
    nova-compute service, and may include hosts without ``nodes``.
    """

    aggregates: tuple[HostAggregate, ...]
    known: frozenset[str]
    nodes: Mapping[str, frozenset[str]]

    @cached_property
    def host_of(self) -> dict[str, str]:
        """Map the uuid of each compute node to its host."""
        return {uuid: host for host, uuids in self.nodes.items() for uuid in uuids}

    def nodes_in(self, aggregate: HostAggregate) -> frozenset[str]:
        """Return the uuids of the compute nodes of an aggregate's hosts."""
        return frozenset(
            uuid for host in aggregate.hosts for uuid in self.nodes.get(host, frozenset())
        )

    def by_uuid(self, uuid: str) -> HostAggregate | None:
        """Return the aggregate with this uuid, or None if it does not exist."""
        return next((item for item in self.aggregates if item.uuid == uuid), None)

    def disagreements(self, members: Mapping[str, frozenset[str]]) -> Iterator["Disagreement"]:
        """Yield the differences between placement aggregates and host aggregates.

        ``members`` are the uuids of the providers in each aggregate. Only compute nodes are
        compared, since an aggregate may include sharing providers, which belong to no host.
        """
        for aggregate in self.aggregates:
            actual, expected = members.get(aggregate.uuid, frozenset()), self.nodes_in(aggregate)
            missing, stale = expected - actual, (actual & self.host_of.keys()) - expected
            if missing or stale:
                yield Disagreement(aggregate, missing, frozenset(stale))


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A difference between a placement aggregate and its host aggregate.

    ``lacking`` are compute nodes to add, ``stale`` compute nodes of other hosts to remove.
    """

    aggregate: HostAggregate
    lacking: frozenset[str]
    stale: frozenset[str]
