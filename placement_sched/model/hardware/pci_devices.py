# SPDX-License-Identifier: Apache-2.0
"""Free PCI devices of a host, in pools of similar devices.

A pool has devices near to the same NUMA node. Sources: nova's documentation, "Attaching physical
PCI devices to guests", and the observed behaviour of nova 34's ``PciDeviceStats``.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self
from weakref import WeakValueDictionary

from oslo_utils.strutils import bool_from_string

from placement_sched.errors import Conflict
from placement_sched.model.hardware.numa import InstanceNUMACell
from placement_sched.model.hardware.pci_requests import (
    PLACEMENT_KEYS,
    InstancePCIRequest,
    InstancePCIRequests,
)
from placement_sched.model.rejection import Rejection

Pool = dict[str, Any]
Pools = Sequence[Pool]


class ReportedPool(Pool):
    """A reported pool, with a ``kind`` that pools of similar devices share.

    The kind consists of all items except :data:`_PER_HOST_KEYS`, or is None if the items are not
    hashable. With kinds, a request is compared once per kind instead of once per pool.
    """

    __slots__ = ("kind",)

    def __init__(self, pool: Mapping[str, Any], kind: Hashable = None) -> None:
        """Copy a pool and set its ``kind``."""
        super().__init__(pool)
        self.kind = kind

    @classmethod
    def from_report(cls, pool: Mapping[str, Any]) -> Self:
        """Build a pool from its JSON object in a report."""
        try:
            kind = frozenset(item for item in pool.items() if item[0] not in _PER_HOST_KEYS)
            return cls(pool, _KINDS.setdefault(kind, kind))
        except TypeError:  # a plugin's pools may hold lists
            return cls(pool)


#: The uuids of the providers of an allocation candidate, by the suffix of their request group.
Mappings = Mapping[str, Sequence[str]]

#: Device types that are used only for a request for this type.
_EXPLICIT_TYPES = ("type-PF", "vdpa")
#: Keys that differ between pools of similar devices.
_PER_HOST_KEYS = frozenset({"count", "rp_uuid"})
#: Interned kinds, so that equal kinds are the same object.
_KINDS: WeakValueDictionary[Hashable, Hashable] = WeakValueDictionary()
#: Up to this number of requested keys, key look-ups are faster than iterating over a pool.
_MAX_KEY_LOOKUPS = 16


@dataclass(frozen=True)
class DeviceRequest:
    """A PCI request, and the conditions for its devices on a host.

    ``cells`` are the ids of the host's NUMA nodes for the instance. If it is empty, devices may be
    near to any node. ``sockets`` maps the NUMA nodes of the host to their sockets. ``providers``
    has the number of devices that placement allocates from each resource provider. If it is empty,
    any pool may be used.
    """

    request: InstancePCIRequest
    providers: Counter[str]
    cells: frozenset[int]
    sockets: Mapping[int, int | None]

    @property
    def count(self) -> int:
        """Return the number of requested devices."""
        return self.request.count

    @cached_property
    def policy(self) -> str:
        """Return the NUMA affinity policy."""
        return self.request.numa_policy or "legacy"

    def list_values(self, key: str) -> list[Any]:
        """Return the value of ``key`` in each spec (None: the spec lacks it)."""
        return [spec.get(key) for spec in self.request.spec]


def count_devices_by_provider(
    request: InstancePCIRequest, mappings: Mappings | None
) -> Counter[str]:
    """Count the devices that placement allocates from each provider.

    The request group of each device has the suffix ``<request_id>-<number>``. Without mappings, the
    providers are read from ``rp_uuids`` of the first spec, which nova sets after the selection of
    hosts. The result is empty for ports, because placement does not track their devices.
    """
    if request.source == InstancePCIRequest.NEUTRON_PORT:
        return Counter()
    if not mappings:
        uuids = request.spec[0].get("rp_uuids") if request.spec else None
        return Counter(str(uuids).split(",")) if uuids else Counter()
    group = (str(request.request_id), "-")
    return Counter(
        [
            providers[0]
            for suffix, providers in mappings.items()
            if providers and suffix.rpartition("-")[:2] == group
        ]
    )


def with_providers(requests: InstancePCIRequests, mappings: Mappings) -> InstancePCIRequests:
    """Return requests with the providers in ``rp_uuids``, as in nova.

    :func:`count_devices_by_provider` then counts the same devices without mappings.
    """
    updated = []
    for request in requests.requests:
        providers = ",".join(count_devices_by_provider(request, mappings).elements())
        specs = tuple({**spec, "rp_uuids": providers} for spec in request.spec)
        updated.append(replace(request, spec=specs) if providers else request)
    return InstancePCIRequests(requests=tuple(updated))


def take_devices(pools: Pools, demand: DeviceRequest) -> list[Pool] | None:
    """Return the pools without the devices for a request, or None.

    Returns None if there are too few suitable devices, or if placement names providers but a
    provider has several pools. Matching pools are used in their order, near pools first. Empty
    pools are left out.
    """
    fitting = pools
    for *_, keep in _CONDITIONS:
        fitting_before, fitting = fitting, keep(fitting, demand)
        # Most steps leave the pools unchanged. Skipping their count pays off with 10,000 hosts.
        if fitting is not fitting_before and (not fitting or count_devices(fitting) < demand.count):
            return None
    if demand.providers:
        if _is_split(pools):
            return None
        used = [(pool, demand.providers[pool["rp_uuid"]]) for pool in fitting]
    else:
        used = list(_use_devices(fitting, demand.count))
    remaining = list(pools)
    for pool, number in used:
        index = next(index for index, item in enumerate(remaining) if item is pool)
        if pool["count"] <= number:
            del remaining[index]
            continue
        changed = ReportedPool(pool, pool.kind) if isinstance(pool, ReportedPool) else dict(pool)
        changed["count"] -= number
        remaining[index] = changed
    return remaining


def build_shortage(pools: Pools, demand: DeviceRequest) -> Rejection:
    """Return the rejection of a host whose pools lack devices for a request.

    It has the number of devices that remain after each condition in :data:`_CONDITIONS`, up to the
    first condition that leaves too few.
    """
    fitting, conditions = pools, [{"condition": "free", "devices": count_devices(pools)}]
    for name, describe, keep in _CONDITIONS:
        count_before, fitting = count_devices(fitting), keep(fitting, demand)
        count = count_devices(fitting)
        if count != count_before:
            conditions.append({"condition": name, "devices": count, **describe(demand)})
        if not fitting or count < demand.count:
            return _build_rejection(demand, conditions, count)
    # Enough devices remain, so that take_devices() rejected a provider with several pools.
    conditions.append({"condition": "one_pool"})
    return _build_rejection(demand, conditions, count_devices(fitting))


def select_matching_pools(pools: Pools, request: InstancePCIRequest) -> list[Pool]:
    """Return the pools whose devices match a request."""
    if request.compared_keys & _PER_HOST_KEYS:
        return [pool for pool in pools if _matches_any(pool, request)]
    matches = request.match_cache
    try:
        return [pool for pool in pools if matches[pool.kind]]  # type: ignore[attr-defined]
    except (AttributeError, KeyError):  # a kind that was not matched yet, or a plugin's pool
        pass
    matching: list[Pool] = []
    for pool in pools:
        kind = pool.kind if isinstance(pool, ReportedPool) else None
        suitable = matches.get(kind)
        if suitable is None:
            suitable = _matches_any(pool, request)
            if kind is not None:
                matches[kind] = suitable
        if suitable:
            matching.append(pool)
    return matching


def count_devices(pools: Iterable[Mapping[str, Any]]) -> int:
    """Return the number of devices in the pools."""
    return sum(pool["count"] for pool in pools)


def _build_rejection(
    demand: DeviceRequest, conditions: Sequence[Mapping[str, Any]], actual: int
) -> Rejection:
    alias, port = demand.request.alias_name, demand.request.requester_id
    requester = {"port": port} if alias is None else {"alias": alias}
    values = {"cause": "devices", **requester, "conditions": conditions}
    return Rejection(kind="pci_device", requested=demand.count, actual=actual, values=values)


def _use_devices(pools: Pools, count: int) -> Iterator[tuple[Pool, int]]:
    """Yield the pools to use, each with the number of devices to use."""
    for pool in pools:
        used = min(count, pool["count"])
        count -= used
        yield pool, used
        if not count:
            return


def _is_split(pools: Pools) -> bool:
    """Return whether a provider has several pools, so that none is chosen."""
    uuids = [pool["rp_uuid"] for pool in pools if "rp_uuid" in pool]
    return len(set(uuids)) < len(uuids)


def _matches_any(pool: Pool, request: InstancePCIRequest) -> bool:
    """Return whether the devices of a pool match any spec of the request."""
    # A cache saves time, because there are far more pools than kinds. A request may have more keys
    # than a pool.
    keys, matches = request.compared_keys, request.match_cache
    if len(keys) <= _MAX_KEY_LOOKUPS:
        values: Hashable = tuple(map(pool.get, keys))
    else:
        values = tuple(item for item in pool.items() if item[0] in keys)
    try:
        suitable = matches.get(values)
    except TypeError:  # a plugin's pools may hold lists
        return any(_matches(pool, spec) for spec in request.spec)
    if suitable is None:
        suitable = matches[values] = any(_matches(pool, spec) for spec in request.spec)
    return suitable


def _matches(pool: Pool, spec: Mapping[str, Any]) -> bool:
    for key, requested in spec.items():
        # Case is ignored. Numbers of a pool never equal the text of a spec.
        actual = pool.get(key)
        compared = actual.lower() if isinstance(actual, str) else actual
        if key not in PLACEMENT_KEYS and compared != (
            None if requested is None else str(requested).lower()
        ):
            return False
    return True


def _filter_by_distance(pools: Pools, demand: DeviceRequest) -> Pools:
    if not demand.cells:
        return pools
    near = [pool for pool in pools if pool["numa_node"] in demand.cells]
    if demand.policy == "required" or count_devices(near) >= demand.count:
        return near
    if demand.policy == "socket":
        if None in demand.sockets.values():  # the host does not report every socket
            return ()
        sockets = {demand.sockets[cell] for cell in demand.cells if cell in demand.sockets}
        return [pool for pool in pools if demand.sockets.get(pool["numa_node"]) in sockets]
    near_or_unknown = [pool for pool in pools if pool["numa_node"] in {None, *demand.cells}]
    if demand.policy == "legacy" or count_devices(near_or_unknown) >= demand.count:
        return near_or_unknown
    return near_or_unknown + [pool for pool in pools if pool not in near_or_unknown]


def _filter_by_type(pools: Pools, demand: DeviceRequest) -> Pools:
    types = {pool.get("dev_type") for pool in pools}
    if types.isdisjoint(_EXPLICIT_TYPES):
        return pools
    requested = demand.list_values("dev_type")
    withheld = [kind for kind in _EXPLICIT_TYPES if kind not in requested]
    return [pool for pool in pools if pool.get("dev_type") not in withheld]


def _filter_by_management(pools: Pools, demand: DeviceRequest) -> Pools:
    managed = [pool.get("remote_managed") for pool in pools]
    if not any(managed) or any(map(bool_from_string, demand.list_values("remote_managed"))):
        return pools
    return [pool for pool in pools if not bool_from_string(pool.get("remote_managed"))]


def _filter_by_provider(pools: Pools, demand: DeviceRequest) -> Pools:
    if not demand.providers:
        return pools
    requested: Mapping[Any, int] = demand.providers
    return [pool for pool in pools if 0 < requested.get(pool.get("rp_uuid"), 0) <= pool["count"]]


def _filter_by_migratability(pools: Pools, demand: DeviceRequest) -> Pools:
    if not demand.request.is_live_migratable():
        return pools
    return [pool for pool in pools if pool.get("live_migratable") == "true"]


def _describe_distance(demand: DeviceRequest) -> Mapping[str, Any]:
    return {"host_nodes": sorted(demand.cells), "policy": demand.policy}


def _describe_providers(demand: DeviceRequest) -> Mapping[str, Any]:
    items = demand.providers.items()
    return {"providers": [{"uuid": uuid, "devices": number} for uuid, number in items]}


_PoolFilter = Callable[[Pools, DeviceRequest], Pools]
#: The filters of pools, each with its code and the function that returns its values.
_CONDITIONS: tuple[tuple[str, Callable[[DeviceRequest], Mapping[str, Any]], _PoolFilter], ...] = (
    (
        "specs",
        lambda demand: {"specs": demand.request.compared_specs},
        lambda pools, demand: select_matching_pools(pools, demand.request),
    ),
    ("numa_policy", _describe_distance, _filter_by_distance),
    ("type", lambda _: {}, _filter_by_type),
    ("management", lambda _: {}, _filter_by_management),
    ("providers", _describe_providers, _filter_by_provider),
    ("live_migration", lambda _: {}, _filter_by_migratability),
)


Requests = Sequence[InstancePCIRequest]
Cells = Sequence[InstanceNUMACell] | None


class TooFewDevices(Conflict):
    """A host has too few PCI devices for a request."""

    def __init__(self, rejection: Rejection) -> None:
        """Keep the rejection, so that the caller can describe it."""
        super().__init__("too few PCI devices are free")
        self.rejection = rejection


class ReportedPools:
    """The pools of a host's report, parsed on first access."""

    def __init__(
        self, pools: Sequence[Mapping[str, Any]], numa_topology: Mapping[str, Any] | None = None
    ) -> None:
        self._reported = pools
        self._numa_topology = numa_topology

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        """Return the pools, fewest tags first, which is nova's order of use."""
        return tuple(sorted(map(ReportedPool.from_report, self._reported), key=len))

    @cached_property
    def free(self) -> int:
        """Return the number of free devices in the report."""
        return count_devices(self._reported)

    @cached_property
    def sockets(self) -> Mapping[int, int | None]:
        """Map each NUMA node of the host to its socket."""
        cells = (self._numa_topology or {}).get("cells", ())
        return {cell["id"]: cell.get("socket") for cell in cells}


class PciPools:
    """The PCI pools of a host, less the devices of the current request.

    In its methods, ``provider_mapping`` comes from an allocation candidate, and the NUMA policies
    of the PCI requests apply only with ``numa_cells``. All scheduling requests share the reported
    pools, which never change: the first access to :attr:`pools` copies them, and an allocation
    creates new pools.
    """

    __slots__ = ("_plugin_pools", "_remaining", "_reported")

    def __init__(self, reported: ReportedPools) -> None:
        self._reported = reported
        # The copy for plugins, which may change it. None before a plugin accesses the pools.
        self._plugin_pools: list[Pool] | None = None
        self._remaining: Pools | None = None

    @classmethod
    def from_report(
        cls, pools: Sequence[Mapping[str, Any]], numa_topology: Mapping[str, Any] | None = None
    ) -> Self:
        """Build the pools from a report."""
        return cls(ReportedPools(pools, numa_topology))

    @property
    def pools(self) -> list[Pool]:
        """Return a copy of the pools as dictionaries, which plugins may change."""
        if self._plugin_pools is None:
            self._plugin_pools = [dict(pool) for pool in self.current_pools]
        return self._plugin_pools

    @property
    def free(self) -> int:
        """Return the number of free devices."""
        is_unchanged = self._plugin_pools is None and self._remaining is None
        return self._reported.free if is_unchanged else count_devices(self.current_pools)

    def __iter__(self) -> Iterator[Pool]:
        return iter([dict(pool) for pool in self.current_pools])

    def support_requests(
        self, requests: Requests, provider_mapping: Mappings | None = None, numa_cells: Cells = None
    ) -> bool:
        """Return whether the free devices suffice for all requests together."""
        steps = self._serve_in_order(requests, provider_mapping, numa_cells)
        return all(remaining is not None for _, _, remaining in steps)

    def apply_requests(
        self, requests: Requests, provider_mapping: Mappings | None = None, numa_cells: Cells = None
    ) -> None:
        """Allocate devices for the requests.

        Raises :class:`TooFewDevices` if there are too few devices. As in nova, the devices for
        earlier requests in the list then remain allocated.
        """
        for pools, demand, remaining in self._serve_in_order(
            requests, provider_mapping, numa_cells
        ):
            if remaining is None:
                raise TooFewDevices(build_shortage(pools, demand))
            if self._plugin_pools is None:
                self._remaining = remaining
            else:
                self._plugin_pools = remaining

    def select_candidates(
        self, requests: Requests, candidates: Sequence[Mapping[str, Any]]
    ) -> list[Mapping[str, Any]] | Rejection:
        """Return the candidates with free devices, or the host's rejection."""
        supported = [
            item for item in candidates if self.support_requests(requests, item["mappings"])
        ]
        if supported:
            return supported
        if not candidates:
            return Rejection(kind="pci_device", values={"cause": "no_candidate"})
        *_, (pools, demand, _) = self._serve_in_order(requests, candidates[0]["mappings"], None)
        rejection = build_shortage(pools, demand)
        if len(candidates) == 1:
            return rejection
        values = {"cause": "candidates", "candidates": len(candidates)}
        return Rejection(kind="pci_device", values=values, parts=(rejection,))

    def build_node_key(
        self, requests: Requests, provider_mapping: Mappings | None = None
    ) -> Callable[[int], Hashable]:
        """Return a function that maps the id of a NUMA node to its key.

        The result of :meth:`support_requests` is equal for nodes with equal keys. The key has the
        matching devices of the node. It includes the node itself if several requests compete for
        its devices, because the devices of the first request then depend on the order of the pools.
        """
        pairs = [(item, count_devices_by_provider(item, provider_mapping)) for item in requests]
        is_contended = len(requests) > 1 and any(providers for _, providers in pairs)
        by_node: dict[int | None, list[str]] = {}
        numbers: Counter[int] = Counter()
        for request in requests:
            numbers.update(map(id, select_matching_pools(self.current_pools, request)))
        for pool in self.current_pools:
            if number := numbers[id(pool)]:
                is_contended = is_contended or number > 1
                text = repr(sorted((key, pool[key]) for key in pool if key != "numa_node"))
                by_node.setdefault(pool["numa_node"], []).append(text)
        by_socket = any(item.numa_policy == "socket" for item in requests)
        sockets = self._reported.sockets if by_socket else {}

        def build_key(node: int) -> Hashable:
            devices = tuple(sorted(by_node.get(node, ())))
            return devices, node if is_contended and devices else None, sockets.get(node)

        return build_key

    @property
    def current_pools(self) -> Pools:
        """Return the current pools without a copy, for reading only."""
        if self._plugin_pools is not None:
            return self._plugin_pools
        return self._reported.pools if self._remaining is None else self._remaining

    def _serve_in_order(
        self, requests: Requests, mappings: Mappings | None, cells: Cells
    ) -> Iterator[tuple[Pools, DeviceRequest, list[Pool] | None]]:
        """Yield the pools before each request, its demand, and the pools after.

        If the devices do not suffice, the pools after the request are None, and no request follows.
        """
        pools, ids = self.current_pools, frozenset(cell.id for cell in cells or ())
        for request in requests:
            providers = count_devices_by_provider(request, mappings)
            demand = DeviceRequest(request, providers, ids, self._reported.sockets)
            remaining = take_devices(pools, demand)
            yield pools, demand, remaining
            if remaining is None:
                return
            pools = remaining


@dataclass(frozen=True, slots=True)
class Devices:
    """PCI devices of a host, PCI requests, and a candidate's providers.

    ``stats`` is ``host_state.pci_stats``: :class:`PciPools`, or a plugin's replacement.
    """

    stats: Any
    requests: Requests = ()
    mapping: Mapping[str, Sequence[str]] | None = None

    @property
    def near(self) -> Counter[int]:
        """Count the free devices near each NUMA node."""
        counts: Counter[int] = Counter()
        for pool in (
            self.stats.current_pools if isinstance(self.stats, PciPools) else self.stats.pools
        ):
            if pool.get("numa_node") is not None:
                counts[pool["numa_node"]] += pool["count"]
        return counts

    def can_serve(self, cells: Sequence[InstanceNUMACell]) -> bool:
        """Return whether the free devices near the NUMA nodes suffice."""
        requests = self.requests
        return not requests or bool(self.stats.support_requests(requests, self.mapping, cells))

    def build_node_key(self) -> Callable[[int], Hashable]:
        """Return a function that maps the id of a NUMA node to its key.

        The result of :meth:`can_serve` is equal for nodes with equal keys.
        """
        if not self.requests:
            return lambda _node: None
        if isinstance(self.stats, PciPools):
            return self.stats.build_node_key(self.requests, self.mapping)
        return lambda node: node


def build_devices(
    stats: Any, requests: InstancePCIRequests | None, mapping: Mapping[str, Sequence[str]] | None
) -> Devices | None:
    """Combine the PCI devices of a host with PCI requests.

    Returns None if ``stats`` has no device pools.
    """
    if not hasattr(stats, "support_requests"):
        return None
    return Devices(stats, () if requests is None else requests.requests, mapping)
