"""Where allocations say that instances are: on which compute hosts they hold resources."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Self

from placement_sched.db.transaction import Connection
from placement_sched.nova.shadow.notes import HostName
from placement_sched.store.compute import compute_nodes, instances
from placement_sched.store.placement import allocations, resource_providers

#: The hosts on which each instance holds allocations; those that hold none are not there.
Held = Mapping[str, frozenset[HostName]]
NONE_HELD: Held = MappingProxyType({})


def held_by(connection: Connection, uuids: Collection[str]) -> Held:
    """Return on which hosts these instances hold allocations; at most three statements.

    A provider that is not of a known compute node is left out.
    """
    held = allocations.of_consumers(connection, uuids)
    if not held:
        return NONE_HELD
    providers = resource_providers.by_uuids(connection, {one.provider_uuid for one in held})
    roots = {uuid: one.root_uuid for uuid, one in providers.items()}
    nodes = compute_nodes.by_uuids(connection, set(roots.values()))
    names = {node.uuid: HostName(node.host, node.hypervisor_hostname) for node in nodes}
    found: dict[str, set[HostName]] = {}
    for one in held:
        if name := names.get(roots.get(one.provider_uuid, "")):
            found.setdefault(one.consumer.uuid, set()).add(name)
    return {uuid: frozenset(hosts) for uuid, hosts in found.items()}


@dataclass(frozen=True, slots=True)
class Before:
    """Where instances are before nova places them, and for which it has claimed already.

    ``sources`` are the hosts of those that are on one, by record. ``held`` are hosts on which an
    instance keeps its allocations while it is placed: an evacuated one those of its source. What it
    holds elsewhere already is nova's claim for this very request: it is ``claimed``.
    """

    sources: Mapping[str, str]
    held: Held
    claimed: frozenset[str]

    @classmethod
    def of(cls, connection: Connection, uuids: Collection[str]) -> Self:
        """Return where these instances are, as recorded and by their allocations."""
        held = held_by(connection, uuids)
        recorded = instances.by_uuids(connection, uuids)
        sources = {one.uuid: one.host for one in recorded if one.host}
        kept = {
            uuid: frozenset(one for one in hosts if one.host == sources.get(uuid))
            for uuid, hosts in held.items()
        }
        claimed = frozenset(uuid for uuid, hosts in held.items() if hosts - kept[uuid])
        return cls(sources, kept, claimed)

    def claimed_now(self, now: Held) -> frozenset[str]:
        """Return the instances for which nova has claimed since, or had before."""
        new = {uuid for uuid, hosts in now.items() if hosts - self.held.get(uuid, frozenset())}
        return self.claimed | new
