# SPDX-License-Identifier: Apache-2.0
"""Instances that need more PCI devices than their host reported as free."""

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
    claimed_since = []
    for instance in instances:
        at = claims.allocated_since(instance, places.get(instance.uuid, ()), node.host)
        if at is not None and at > seen:
            claimed_since.append((at, instance.uuid, instance))
    pools = node.reported_pools.pools
    taken: Counter[frozenset[int]] = Counter()
    for _, _, instance in sorted(claimed_since, key=lambda row: row[:2]):
        try:
            requests = hardware(instance).pci_requests(aliases)
        except Invalid:  # its alias is no longer configured
            continue
        requested: Counter[frozenset[int]] = Counter()
        for request in requests:
            requested[_matching_pool_indexes(pools, request)] += request.count
        if reason := _describe_missing_devices(pools, taken + requested, requested):
            yield instance, reason
        else:
            taken += requested


def report_time(node: ComputeNode) -> datetime | None:
    """Return the time of the last report. An unchanged report updates only the heartbeat."""
    if node.updated_at is None:
        return None
    return max(node.updated_at, node.last_seen_up)


def _matching_pool_indexes(pools: Sequence[Pool], request: InstancePCIRequest) -> frozenset[int]:
    return frozenset(at for at, pool in enumerate(pools) if matching_pools((pool,), request))


def _describe_missing_devices(
    pools: Sequence[Pool], requested: Counter[frozenset[int]], new: Collection[frozenset[int]]
) -> str | None:
    """Return why no assignment of devices serves all requests, or None.

    The requests that only some pools can serve must not need more devices than these pools have.
    """
    for indexes in requested:
        if not any(matching <= indexes for matching in new):  # no new request needs these pools
            continue
        needed = sum(number for matching, number in requested.items() if matching <= indexes)
        free = sum(pools[at]["count"] for at in indexes)
        if needed > free:
            return f"{needed} requested since, {free} free then"
    return None
