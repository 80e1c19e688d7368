# SPDX-License-Identifier: Apache-2.0
"""Finds instances whose host lacks PCI devices, by what it had free in its last report."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from placement_sched.errors import Invalid
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.hardware.pci_devices import Pool, matching_pools
from placement_sched.model.hardware.pci_requests import Alias, InstancePCIRequest
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.instance import Instance
from tests.verifier import claims

Places = Mapping[str, Sequence[claims.ClaimedPlace]]
Hardware = Callable[[Instance], RequestedHardware]


def instances_without_devices(
    node: ComputeNode,
    instances: Iterable[Instance],
    places: Places,
    hardware: Hardware,
    aliases: Mapping[str, Alias],
) -> Iterator[tuple[Instance, str]]:
    seen = report_time(node)
    if seen is None:
        return
    counted = []
    for one in instances:
        at = claims.allocated_since(one, places.get(one.uuid, ()), node.host)
        if at is not None and at > seen:
            counted.append((at, one.uuid, one))
    pools = node.reported_pools.pools
    taken: Counter[frozenset[int]] = Counter()
    for _, _, one in sorted(counted, key=lambda each: each[:2]):
        try:
            asked = hardware(one).pci_requests(aliases)
        except Invalid:  # its alias is no longer configured
            continue
        wanted: Counter[frozenset[int]] = Counter()
        for request in asked:
            wanted[_matching_pool_indexes(pools, request)] += request.count
        if reason := _describe_missing_devices(pools, taken + wanted, wanted):
            yield one, reason
        else:
            taken += wanted


def report_time(node: ComputeNode) -> datetime | None:
    """Return when a host said last what it has.

    One that reports the same again has its heartbeat noted, and nothing else.
    """
    if node.updated_at is None:
        return None
    return max(node.updated_at, node.last_seen_up)


def _matching_pool_indexes(pools: Sequence[Pool], request: InstancePCIRequest) -> frozenset[int]:
    return frozenset(at for at, pool in enumerate(pools) if matching_pools((pool,), request))


def _describe_missing_devices(
    pools: Sequence[Pool], every: Counter[frozenset[int]], wanted: Collection[frozenset[int]]
) -> str | None:
    """Return which devices do not suffice, whichever each request takes; None where all may.

    The requests that no other pools can serve need no more than these pools have.
    """
    for some in every:
        if not any(one <= some for one in wanted):  # what was enough for the others still is
            continue
        asked = sum(number for others, number in every.items() if others <= some)
        there = sum(pools[at]["count"] for at in some)
        if asked > there:
            return f"{asked} requested since, {there} free then"
    return None
