"""Which traits the metadata of host aggregates ask for, and on which providers."""

from collections.abc import Iterable

from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.host_map import HostMap
from placement_sched.operations.sync_ports import Pair


def wanted_traits(
    hosts: HostMap, aggregates: Iterable[HostAggregate] | None = None
) -> dict[Pair, str]:
    """Return the uuid of the aggregate that asks for each trait on each provider.

    Of several that ask for the same it is the first. ``aggregates`` are all of them, unless given.
    """
    wanted: dict[Pair, str] = {}
    for aggregate in hosts.aggregates if aggregates is None else aggregates:
        nodes = hosts.nodes_in(aggregate)
        for trait in aggregate.reserving_traits:
            for node in nodes:
                wanted.setdefault((node, trait), aggregate.uuid)
    return wanted
