"""Which pools of a host's PCI devices will do for one request, and which are taken from.

A pool is a dict as nova's ``PciDeviceStats.pools`` has them: ``vendor_id``, ``product_id``,
``numa_node``, ``count``, and tags beside them. None is ever changed here. Source: nova's
documentation, "Attaching physical PCI devices to guests" and "PCI tracking in Placement".
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from oslo_utils.strutils import bool_from_string

from placement_sched.model.pci_request import InstancePCIRequest
from placement_sched.model.verdict import Refusal

Pool = dict[str, Any]
Pools = Sequence[Pool]
#: Who serves each group of a candidate: uuids of resource providers by the group's suffix.
Mappings = Mapping[str, Sequence[str]]

#: What a spec says of the provider, which placement has seen to.
_OF_PLACEMENT = frozenset({"resource_class", "traits", "rp_uuid", "rp_uuids"})
#: Types of device that are given only to who asks for them by type.
_ONLY_IF_NAMED = ("type-PF", "vdpa")


@dataclass(frozen=True)
class Demand:
    """One request at one host: ``cells`` are the host's NUMA nodes that the instance is to be on.

    ``sockets`` tells the socket of each of the host's NUMA nodes, ``providers`` how many devices
    placement gives of each resource provider; where it gives none, any pool will do.
    """

    request: InstancePCIRequest
    providers: Counter[str]
    cells: frozenset[int]
    sockets: Mapping[int, int | None]

    @property
    def count(self) -> int:
        """Return how many devices are asked for."""
        return self.request.count

    @cached_property
    def policy(self) -> str:
        """Return how near to the cells the devices must be."""
        return self.request.numa_policy or "legacy"

    def values(self, key: str) -> list[Any]:
        """Return what each spec says under ``key``, None where it says nothing."""
        return [spec.get(key) for spec in self.request.spec]


def providers_of(request: InstancePCIRequest, mappings: Mappings | None) -> Counter[str]:
    """Return how many devices a request is given of each provider; nothing where none is told.

    The group of each device is named ``<request_id>-<number>``. Without mappings the ``rp_uuids``
    of the request's first spec tell, which nova writes there once hosts are chosen. Devices of
    ports are none of placement's.
    """
    if request.source == InstancePCIRequest.NEUTRON_PORT:
        return Counter()
    if not mappings:
        told = request.spec[0].get("rp_uuids") if request.spec else None
        return Counter(str(told).split(",")) if told else Counter()
    return Counter(
        uuids[0]
        for suffix, uuids in mappings.items()
        if uuids and _asked_by(suffix) == str(request.request_id)
    )


def _asked_by(suffix: str) -> str | None:
    """Return the id of the request whose device a group of this suffix would be."""
    request_id, dash, _ = suffix.rpartition("-")
    return request_id if dash else None


def left_after(pools: Pools, demand: Demand) -> list[Pool] | None:
    """Return the pools without the devices that a request takes, or None where they will not do.

    Those that will do are emptied in their order, but near ones first; where placement says of
    which providers, of those. Pools that are empty then are left out.
    """
    fitting = pools
    for _, keep in _STEPS:
        before, fitting = fitting, keep(fitting, demand)
        # Most steps leave the pools as they are: of ten thousand hosts that need not be counted.
        if fitting is not before and (not fitting or number_of(fitting) < demand.count):
            return None
    if demand.providers:
        if _is_split(pools):
            return None
        left = {id(pool): pool["count"] - demand.providers[pool["rp_uuid"]] for pool in fitting}
    else:
        left = dict(_emptied(fitting, demand.count))
    return [
        pool if id(pool) not in left else {**pool, "count": left[id(pool)]}
        for pool in pools
        if left.get(id(pool), 1) > 0
    ]


def shortage(pools: Pools, demand: Demand) -> Refusal | None:
    """Return why the pools will not do, step by step with numbers, or None where they will."""
    fitting, told = pools, [f"{number_of(pools)} free"]
    for tell, keep in _STEPS:
        before, fitting = number_of(fitting), keep(fitting, demand)
        has = number_of(fitting)
        if has != before:
            told.append(f"{has} {tell(demand)}")
        if not fitting or has < demand.count:
            return _refusal(demand, ", ".join(told), has)
    if demand.providers and _is_split(pools):
        told.append("but devices of one resource provider are in several pools")
        return _refusal(demand, ", ".join(told), number_of(fitting))
    return None


def number_of(pools: Iterable[Pool]) -> int:
    """Return how many devices there are in pools."""
    return sum(pool["count"] for pool in pools)


def _refusal(demand: Demand, told: str, has: int) -> Refusal:
    request = demand.request
    asker = (
        f"port {request.requester_id}"
        if request.alias_name is None
        else f"PCI alias {request.alias_name}"
    )
    devices = "device" if demand.count == 1 else "devices"
    return Refusal(f"{demand.count} {devices} for {asker} asked; {told}", demand.count, has)


def _emptied(pools: Pools, count: int) -> Iterator[tuple[int, int]]:
    """Yield the id of each pool that is taken from, and how many devices it has left."""
    for pool in pools:
        taken = min(count, pool["count"])
        count -= taken
        yield id(pool), pool["count"] - taken
        if not count:
            return


def _is_split(pools: Pools) -> bool:
    """Return whether devices of one provider are in several pools: which to take is not known."""
    told = [pool["rp_uuid"] for pool in pools if "rp_uuid" in pool]
    return len(set(told)) < len(told)


def _as_specified(pools: Pools, demand: Demand) -> Pools:
    return [pool for pool in pools if any(_matches(pool, spec) for spec in demand.request.spec)]


def _matches(pool: Pool, spec: Mapping[str, Any]) -> bool:
    return all(
        _as_compared(pool.get(key)) == (None if value is None else str(value).lower())
        for key, value in spec.items()
        if key not in _OF_PLACEMENT
    )


def _as_compared(value: Any) -> Any:
    """Return a pool's text without regard to case; its numbers are like no text of a spec."""
    return value.lower() if isinstance(value, str) else value


def _near_enough(pools: Pools, demand: Demand) -> Pools:
    """Return the pools near the cells, where they suffice, else with those the policy allows."""
    if not demand.cells:
        return pools
    near = [pool for pool in pools if pool["numa_node"] in demand.cells]
    if demand.policy == "required" or number_of(near) >= demand.count:
        return near
    if demand.policy == "socket":
        return _on_sockets(pools, demand)
    near_or_unknown = [pool for pool in pools if pool["numa_node"] in {None, *demand.cells}]
    if demand.policy == "legacy" or number_of(near_or_unknown) >= demand.count:
        return near_or_unknown
    return near_or_unknown + [pool for pool in pools if pool not in near_or_unknown]


def _on_sockets(pools: Pools, demand: Demand) -> Pools:
    """Return the pools on the cells' sockets; where the host does not tell one, that is unsafe."""
    if None in demand.sockets.values():
        return ()
    wanted = {demand.sockets[cell] for cell in demand.cells if cell in demand.sockets}
    return [pool for pool in pools if demand.sockets.get(pool["numa_node"]) in wanted]


def _of_types_asked(pools: Pools, demand: Demand) -> Pools:
    named = demand.values("dev_type")
    withheld = [kind for kind in _ONLY_IF_NAMED if kind not in named]
    if not any(pool.get("dev_type") in withheld for pool in pools):
        return pools
    return [pool for pool in pools if pool.get("dev_type") not in withheld]


def _managed_here(pools: Pools, demand: Demand) -> Pools:
    if not any(pool.get("remote_managed") for pool in pools):
        return pools
    if any(map(bool_from_string, demand.values("remote_managed"))):
        return pools
    return [pool for pool in pools if not bool_from_string(pool.get("remote_managed"))]


def _of_providers(pools: Pools, demand: Demand) -> Pools:
    if not demand.providers:
        return pools
    wanted: Mapping[Any, int] = demand.providers
    return [pool for pool in pools if 0 < wanted.get(pool.get("rp_uuid"), 0) <= pool["count"]]


def _migratable(pools: Pools, demand: Demand) -> Pools:
    if not demand.request.is_live_migratable():
        return pools
    return [pool for pool in pools if pool.get("live_migratable") == "true"]


def _tell_spec(demand: Demand) -> str:
    told = " or ".join(
        ", ".join(f"{key} {value}" for key, value in spec.items() if key not in _OF_PLACEMENT)
        for spec in demand.request.spec
    )
    return f"with {told}" if told.strip(" or") else "as specified"


def _tell_cells(demand: Demand) -> str:
    cells = ", ".join(map(str, sorted(demand.cells)))
    return f"near enough to NUMA nodes {cells} (policy {demand.policy})"


def _tell_providers(demand: Demand) -> str:
    told = ", ".join(f"{number} of {uuid}" for uuid, number in demand.providers.items())
    return f"where the allocation candidate takes them ({told})"


_STEPS: tuple[tuple[Callable[[Demand], str], Callable[[Pools, Demand], Pools]], ...] = (
    (_tell_spec, _as_specified),
    (_tell_cells, _near_enough),
    (lambda _: "besides physical functions and vdpa devices not asked for", _of_types_asked),
    (lambda _: "besides remote managed ones not asked for", _managed_here),
    (_tell_providers, _of_providers),
    (lambda _: "live migratable", _migratable),
)
