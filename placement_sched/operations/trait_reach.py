"""To which hosts the traits of providers lead requests that require them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from placement_sched.model.host_map import HostMap
from placement_sched.model.provider import Provider
from placement_sched.operations.sync_ports import Pair
from placement_sched.operations.wanted_traits import wanted_traits


@dataclass(frozen=True)
class Reach:
    """Who is outside of the aggregates that ask for a trait, by provider uuid.

    A request lands on a compute node for what the providers in its tree have, and for what those
    have that share with it. A provider of which no host is known may be a host's yet, but for those
    that share: nothing lands on them. ``members`` are the providers in aggregates, ``sharing``
    those that share, ``joined`` the aggregates these are in.
    """

    hosts: HostMap
    members: Mapping[str, frozenset[str]]
    sharing: frozenset[str]
    joined: Mapping[str, frozenset[str]]
    providers: Mapping[str, Provider]

    def outside(self, trait: str, carriers: Iterable[str]) -> set[str]:
        """Return those of the carriers of a trait that no aggregate reserves, nor their trees."""
        return {
            uuid
            for uuid in carriers
            if self._is_outside(uuid, trait)
            and (self._is_of_a_host(uuid) or uuid not in self.sharing)
        }

    def served_outside(self, trait: str, carriers: Iterable[str]) -> tuple[set[str], set[str]]:
        """Return the compute nodes outside that others share the trait with, and these others.

        A node that has the trait in its own tree is not among them.
        """
        carriers = frozenset(carriers)
        having = {self.providers[uuid].root_uuid for uuid in carriers}
        served: set[str] = set()
        sharing: set[str] = set()
        for uuid in carriers & self.joined.keys():
            found = {
                self.providers[member].root_uuid
                for aggregate in self.joined[uuid]
                for member in self.members.get(aggregate, ())
                if self._is_outside(member, trait) and self._is_of_a_host(member)
            } - having
            served |= found
            sharing |= {uuid} if found else set()
        return served, sharing

    def _is_outside(self, uuid: str, trait: str) -> bool:
        """Return whether neither a provider nor its root is reserved for a trait."""
        root = self.providers[uuid].root_uuid
        return not {(root, trait), (uuid, trait)} & self._inside

    def _is_of_a_host(self, uuid: str) -> bool:
        return self.providers[uuid].root_uuid in self.hosts.host_of

    @cached_property
    def _inside(self) -> frozenset[Pair]:
        """Who is in an aggregate that asks for a trait: by its host, or by placement alone.

        The request filter keeps others out of what is in the provider aggregate.
        """
        in_placement = (
            (member, trait)
            for aggregate in self.hosts.aggregates
            for trait in aggregate.reserving_traits
            for member in self.members.get(aggregate.uuid, ())
        )
        return frozenset((*wanted_traits(self.hosts), *in_placement))
