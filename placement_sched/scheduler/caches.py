# SPDX-License-Identifier: Apache-2.0
"""Caches that a process keeps between requests.

Versions in the database show whether another process has changed cached data.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property, lru_cache, partial
from threading import Lock
from typing import Any, Generic, Self, TypeVar

from oslo_log import log

from placement_sched.candidates.cache import CacheFigures, ProviderCache
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders, ProviderSource
from placement_sched.config.settings import Settings
from placement_sched.db.failover import ServerEpoch, get_epoch
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.grouping import group_rows
from placement_sched.model.preferences import DomainsByHost
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import NO_SERVICE, build_service_view
from placement_sched.store import change_counters, figures
from placement_sched.store.compute import compute_nodes, flavors, host_aggregates, services
from placement_sched.store.compute.compute_nodes import NodeNames
from placement_sched.store.placement import change_log

LOG = log.getLogger(__name__)

T = TypeVar("T")

#: Maximum number of cached nodes and services. A parsed report takes some kB.
MAX_CACHED_HOSTS = 20_000

#: Maximum number of metadata keys with cached failure domains, because requests choose the keys.
MAX_CACHED_KEYS = 16

#: Maps the number of each part of the hosts (:class:`HostCache`) to its version.
HostVersions = Mapping[int, int]

#: Loads outdated objects, as described for ``load`` in :class:`HostCache`.
LoadValues = Callable[[Connection, Mapping[str, T | None]], Mapping[str, tuple[str, T]]]

#: Maximum seconds that a process waits at its start until all providers are read.
MAX_FILL_WAIT = 2.0
#: Maximum number of different warnings that are logged once. Older warnings may be logged again.
MAX_LOGGED = 1000


class HostCache(Generic[T]):
    """Cache of objects about hosts, such as compute nodes or services.

    A change of any host increments the version of its part, and a cached object is current while
    that version is the same. ``load`` gets the outdated keys with cached objects or None, and
    returns host and object of each existing key. The cache has at most ``limit`` objects.
    """

    def __init__(self, load: LoadValues[T], limit: int = MAX_CACHED_HOSTS) -> None:
        self._load, self._limit = load, limit
        # The server epoch, and for each key: the object, the part of its host, the part's version.
        self._cached: tuple[ServerEpoch, dict[str, tuple[T, int, int]]] = (None, {})

    def get(
        self, connection: Connection, keys: Iterable[str], versions: HostVersions
    ) -> dict[str, T]:
        """Map existing keys to their current objects, in any order.

        ``versions`` were read earlier in the request. No SQL statement runs if all is current.
        """
        epoch, cached = get_epoch(connection), self._cached
        if cached[0] != epoch:
            cached = self._cached = epoch, {}
        _, entries = cached  # another thread may replace self._cached
        result: dict[str, T] = {}
        outdated: dict[str, T | None] = {}
        for key in keys:
            entry = entries.get(key)
            if entry is None:
                outdated[key] = None
                continue
            value, part, version = entry
            if versions.get(part, 0) == version:
                result[key] = value
            else:
                outdated[key] = value
        if not outdated:
            return result
        loaded = self._load(connection, outdated)
        if len(entries) + len(loaded) > self._limit:
            entries.clear()
        for key, (host, value) in loaded.items():
            result[key] = value
            if len(entries) < self._limit:
                part = change_counters.compute_host_part(host)
                entries[key] = value, part, versions.get(part, 0)
        return result

    def __len__(self) -> int:
        return len(self._cached[1])


def load_nodes(
    connection: Connection, outdated: Mapping[str, ComputeNode | None]
) -> dict[str, tuple[str, ComputeNode]]:
    """Map each uuid of an existing node to its host and the node.

    A node is loaded again only if its version differs from the version of the cached node.
    """
    cached = {uuid: node for uuid, node in outdated.items() if node is not None}
    current = compute_nodes.map_versions(connection, cached)
    nodes = {
        uuid: cached[uuid].with_heartbeat(last_seen_up)
        for uuid, (version, last_seen_up) in current.items()
        if version == cached[uuid].version
    }
    changed = outdated.keys() - nodes.keys()
    nodes |= {node.uuid: node for node in compute_nodes.list_by_uuids(connection, changed)}
    return {uuid: (node.host, node) for uuid, node in nodes.items()}


def load_services(
    connection: Connection, outdated: Mapping[str, Any]
) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """Map each host to a pair: the host, and its service for host states."""
    current = services.map_by_host(connection, outdated.keys())
    views = {host: build_service_view(service) for host, service in current.items()}
    return {host: (host, views.get(host, NO_SERVICE)) for host in outdated}


class Aggregates:
    """All host aggregates at a point in time, by id.

    ``version`` is the server epoch and the change counter. Later changes may be included.
    """

    def __init__(
        self, aggregates: Iterable[HostAggregate] = (), version: tuple[ServerEpoch, int] = (None, 0)
    ) -> None:
        self.all = tuple(aggregates)
        self.version = version
        self._domains: dict[str, DomainsByHost] = {}

    @cached_property
    def by_host(self) -> dict[str, tuple[HostAggregate, ...]]:
        """Map each host to its aggregates, sorted by id."""
        by_host = group_rows((host, each) for each in self.all for host in each.hosts)
        return {host: tuple(aggregates) for host, aggregates in by_host.items()}

    def list_for_host(self, host: str) -> tuple[HostAggregate, ...]:
        """Return the aggregates of a host, sorted by id."""
        return self.by_host.get(host, ())

    @cached_property
    def policy_aggregates(self) -> tuple[HostAggregate, ...]:
        """Return the aggregates that name a policy, sorted by id."""
        return tuple(aggregate for aggregate in self.all if aggregate.policy)

    def map_domains(self, key: str) -> DomainsByHost:
        """Map each host to its failure domains, given by a metadata key.

        Domains are the values of the key in the host's aggregates, split at commas and sorted.
        Hosts without a value are left out.
        """
        if key not in self._domains:
            values_by_host: dict[str, set[str]] = defaultdict(set)
            for aggregate in self.all:
                parts = {part.strip() for part in aggregate.metadata.get(key, "").split(",")}
                if values := parts - {""}:
                    for host in aggregate.hosts:
                        values_by_host[host] |= values
            domains = {host: tuple(sorted(values)) for host, values in values_by_host.items()}
            if len(self._domains) >= MAX_CACHED_KEYS:
                self._domains.clear()
            self._domains[key] = domains
        return self._domains[key]


class AggregateCache(change_counters.VersionedCache[Aggregates]):
    """Cache of all host aggregates, which are loaded again after a change."""

    def __init__(self) -> None:
        super().__init__(
            host_aggregates.SUBJECT,
            lambda connection, version: Aggregates(
                host_aggregates.read_snapshot(connection), version
            ),
        )

    def read_policies_in_use(self, database: Database) -> frozenset[str]:
        """Return the policies that aggregates name, or named when last read."""
        try:
            with database.read() as connection:
                self.get_current(connection)
        except Exception as failure:  # noqa: BLE001 - of a database in any state
            LOG.info("Cannot read which policies are in use: %s", failure)
        aggregates = self.last
        if aggregates is None:
            return frozenset()
        return frozenset(aggregate.policy or "" for aggregate in aggregates.policy_aggregates)


class NodeHistory:
    """Compute nodes cached by CachingScheduler, and requests placed on them.

    All threads of a process share the object.
    """

    def __init__(self, nodes: HostCache[ComputeNode]) -> None:
        self._read = nodes
        self._nodes: dict[str, ComputeNode] = {}
        self._placed: dict[str, list[RequestSpec]] = defaultdict(list)
        self._since: datetime | None = None
        self._epoch: ServerEpoch = None
        self._lock = Lock()

    def refresh(self, now: datetime, interval: int, epoch: ServerEpoch = None) -> float:
        """Clear an expired cache, and return the age of the cache in seconds.

        It expires after ``interval`` seconds (never if negative), and after a database failover.
        """
        with self._lock:
            age = 0.0 if self._since is None else (now - self._since).total_seconds()
            is_expired = self._since is None or 0 <= interval <= age
            if is_expired or epoch != self._epoch:
                self._nodes.clear()
                self._placed.clear()
                self._since, self._epoch, age = now, epoch, 0.0
            return age

    def get(
        self, connection: Connection, uuids: Iterable[str], versions: HostVersions
    ) -> dict[str, ComputeNode]:
        """Return the existing nodes with these uuids."""
        requested = set(uuids)
        with self._lock:
            nodes = {uuid: self._nodes[uuid] for uuid in requested & self._nodes.keys()}
        if missing := requested - nodes.keys():
            new = self._read.get(connection, missing, versions)
            nodes |= new
            with self._lock:
                if get_epoch(connection) == self._epoch:
                    self._nodes |= new
        return nodes

    def list_placed_requests(self, uuid: str) -> Sequence[RequestSpec]:
        """Return the requests placed on a node since the node was cached."""
        with self._lock:
            return tuple(self._placed.get(uuid, ()))

    def record_placements(self, placed: Iterable[tuple[str, RequestSpec]]) -> None:
        """Record claimed instances under the uuids of their nodes."""
        with self._lock:
            for uuid, spec in placed:
                self._placed[uuid].append(spec)


class ProcessCaches:
    """All caches that a process keeps between requests.

    ``provider_cache`` is None if providers are not cached. ``simulated`` maps node uuids to the
    requests of instances that a simulation has moved there.
    """

    def __init__(self, provider_cache: ProviderCache | None = None) -> None:
        self.provider_cache = provider_cache
        self.nodes = HostCache(load_nodes)
        self.services = HostCache(load_services)
        self.node_history = NodeHistory(self.nodes)
        self.aggregates = AggregateCache()
        self.flavors = change_counters.VersionedCache(
            flavors.SUBJECT, lambda connection, _: flavors.list_flavors(connection)
        )
        self.node_names = NodeNames()
        self.failover = change_counters.VersionedCache(
            figures.FAILOVER_SUBJECT, lambda connection, _: figures.read_failover_result(connection)
        )
        self.log_once = lru_cache(maxsize=MAX_LOGGED)(partial(LOG.warning, "%s"))
        self.simulated: dict[str, list[RequestSpec]] = defaultdict(list)

    @classmethod
    def from_settings(
        cls,
        settings: Settings,
        database: Database,
        report: Callable[[CacheFigures], None] = lambda _figures: None,
    ) -> Self:
        """Create the caches, which pass figures for metrics to ``report``."""
        if not settings.placement.providers_in_memory:
            return cls()
        return cls(ProviderCache(change_log, report=report, open_connection=database.read))

    def fill(self, database: Database, seconds: float = MAX_FILL_WAIT) -> None:
        """Start to fill the provider cache, and wait at most ``seconds``.

        Does nothing without a provider cache. Requests read the database until the cache is filled.
        Raises :class:`Unavailable` if the database does not answer.
        """
        if self.provider_cache is None:
            return
        with database.read() as connection:
            is_filled = self.provider_cache.refresh(connection)
        if not is_filled:
            self.provider_cache.wait(seconds)

    def choose_provider_source(self, connection: Connection) -> ProviderSource:
        """Return the refreshed provider cache, or a loader if it is not filled."""
        if self.provider_cache is not None and self.provider_cache.refresh(connection):
            return CachedProviders(self.provider_cache)
        return LoadedProviders(connection)
