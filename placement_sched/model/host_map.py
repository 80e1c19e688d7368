"""Who is where: host aggregates, the hosts in them, and the compute nodes of each host."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from placement_sched.model.host_aggregate import HostAggregate


@dataclass(frozen=True)
class HostMap:
    """The host aggregates of a cloud, its hosts, and the uuids of their compute nodes.

    A compute node's uuid is that of its root resource provider. ``known`` has the hosts with a
    nova-compute service as well, of which ``nodes`` may tell none.
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
