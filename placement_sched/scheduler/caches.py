# SPDX-License-Identifier: Apache-2.0
"""Caches of a process between requests, correct with any number of processes."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import Any, Self

from oslo_log import log

from placement_sched.candidates.cache import CacheFigures, ProviderCache
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders, ProviderSource
from placement_sched.config.settings import Settings
from placement_sched.db.failover import ServerEpoch, epoch_of
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.explanation import IgnoredValue
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import NO_SERVICE, service_view
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, host_aggregates, host_changes, services
from placement_sched.store.compute.compute_nodes import NodeNames
from placement_sched.store.placement import change_log

LOG = log.getLogger(__name__)

#: Maximum number of cached nodes, more than most clouds have. A parsed report takes some kB.
NODES = 20_000

#: The version of each part of the hosts, read before the hosts themselves.
HostVersions = Mapping[int, int]

#: Seconds that a process waits at its start until all providers are read.
READING = 2.0
#: Maximum number of ignored keys and values in memory. Older ones may be logged again.
IGNORED = 1000


class NodeCache:
    """Parsed compute nodes, at most ``limit``, evicted by least recent use.

    Hosts are divided into parts, each with a version that a change of any of its hosts increments.
    If a part has changed, :meth:`get` reads the versions of the requested nodes of this part from
    the database, and parses the nodes with another version again.
    """

    def __init__(self, limit: int = NODES) -> None:
        self._limit = limit
        # Each node with the part of its host, and the version of that part at the read.
        self._nodes: dict[str, tuple[ComputeNode, int, int]] = {}
        self._history: ServerEpoch = None
        self._lock = Lock()

    def get(
        self, connection: Connection, uuids: Iterable[str], parts: HostVersions | None = None
    ) -> list[ComputeNode]:
        """Return the existing nodes with these uuids, in this order.

        ``parts`` are the versions of the parts, if the request has read them. Executes no SQL
        statement if nothing has changed, else a statement for the versions of nodes and another for
        changed nodes.
        """
        history = epoch_of(connection)
        parts = host_changes.versions(connection) if parts is None else parts
        unique = list(dict.fromkeys(uuids))
        with self._lock:
            self._reset_on_failover(history)
            cached = {uuid: row for uuid in unique if (row := self._nodes.get(uuid)) is not None}
        nodes: dict[str, ComputeNode] = {}
        outdated: list[str] = []
        changed = [uuid for uuid in unique if uuid not in cached]
        version_of = parts.get
        for uuid, (node, part, version) in cached.items():
            if version_of(part, 0) == version:
                nodes[uuid] = node
            else:
                outdated.append(uuid)
        if outdated:
            versions = compute_nodes.versions(connection, outdated)
            for uuid, (version, last_seen_up) in versions.items():
                node = cached[uuid][0]
                if node.version == version:
                    nodes[uuid] = node.seen_at(last_seen_up)
                else:
                    changed.append(uuid)
        if changed:
            nodes |= {node.uuid: node for node in compute_nodes.by_uuids(connection, changed)}
        self._store(nodes, cached, parts, history)
        return [nodes[uuid] for uuid in unique if uuid in nodes]

    def _reset_on_failover(self, history: ServerEpoch) -> None:
        if history != self._history:
            self._history, self._nodes = history, {}

    def _store(
        self,
        nodes: Mapping[str, ComputeNode],
        cached: Mapping[str, tuple[ComputeNode, int, int]],
        parts: HostVersions,
        history: ServerEpoch,
    ) -> None:
        with self._lock:
            self._reset_on_failover(history)
            stored = self._nodes
            # The order of use matters only when the cache is filling up.
            is_ordered = 2 * (len(stored) + len(nodes)) > self._limit
            for uuid, node in nodes.items():
                entry = cached.get(uuid)
                is_same = entry is not None and entry[0] is node
                if entry is None or not is_same or parts.get(entry[1], 0) != entry[2]:
                    part = host_changes.part_of(node.host)
                    entry = (node, part, parts.get(part, 0))
                elif not is_ordered:
                    continue
                # Moved to the end, as most recently used.
                stored.pop(uuid, None)
                stored[uuid] = entry
            while len(stored) > self._limit:
                del stored[next(iter(stored))]

    def __len__(self) -> int:
        return len(self._nodes)


class ServiceCache:
    """The compute services of hosts in the form of host states, at most ``limit``."""

    def __init__(self, limit: int = NODES) -> None:
        self._limit = limit
        # Each view with the part of its host, and the version of that part at the read.
        self._views: tuple[ServerEpoch, dict[str, tuple[Mapping[str, Any], int, int]]] = (None, {})

    def get(
        self, connection: Connection, hosts: Collection[str], parts: HostVersions
    ) -> dict[str, Mapping[str, Any]]:
        """Return the service of each host, with a single SQL statement for changed hosts."""
        result: dict[str, Mapping[str, Any]] = {}
        changed: list[str] = []
        history = epoch_of(connection)
        views = self._views_of(history)
        cached_of, version_of = views.get, parts.get
        for host in hosts:
            entry = cached_of(host)
            if entry is not None and version_of(entry[1], 0) == entry[2]:
                result[host] = entry[0]
            else:
                changed.append(host)
        if not changed:
            return result
        changed_services = services.by_hosts(connection, changed)
        if len(views) + len(changed) > self._limit:
            views = {}
            self._views = history, views
        for host in changed:
            service, part = changed_services.get(host), host_changes.part_of(host)
            view = NO_SERVICE if service is None else service_view(service)
            result[host] = view
            views[host] = (view, part, version_of(part, 0))
        return result

    def _views_of(self, history: ServerEpoch) -> dict[str, tuple[Mapping[str, Any], int, int]]:
        """Return the cached views, which are reset after a database failover."""
        cached_history, views = self._views
        if cached_history != history:
            views = {}
            self._views = history, views
        return views

    def __len__(self) -> int:
        return len(self._views[1])


class Aggregates:
    """All host aggregates at a point in time, by id.

    ``version`` is the server epoch and the value of the change counter of aggregates. The
    aggregates include at least all changes up to this value.
    """

    def __init__(
        self, every: Iterable[HostAggregate] = (), version: tuple[ServerEpoch, int] = (None, 0)
    ) -> None:
        self.every = tuple(every)
        self.version = version

    @cached_property
    def by_host(self) -> dict[str, tuple[HostAggregate, ...]]:
        """Return the aggregates of each host in an aggregate, in order of id."""
        by_host: dict[str, list[HostAggregate]] = defaultdict(list)
        for aggregate in self.every:
            for host in aggregate.hosts:
                by_host[host].append(aggregate)
        return {host: tuple(members) for host, members in by_host.items()}

    def of_host(self, host: str) -> tuple[HostAggregate, ...]:
        """Return the aggregates of a host, in order of id."""
        return self.by_host.get(host, ())

    @cached_property
    def of_policies(self) -> tuple[HostAggregate, ...]:
        """Return the aggregates that name a policy, in order of id."""
        return tuple(aggregate for aggregate in self.every if aggregate.policy)


class AggregateCache(change_counters.VersionedCache[Aggregates]):
    """The cache of all host aggregates of a process."""

    def __init__(self) -> None:
        super().__init__(
            host_aggregates.SUBJECT,
            lambda connection, version: Aggregates(host_aggregates.snapshot(connection), version),
        )

    def policies_in_use(self, database: Database) -> frozenset[str]:
        """Return the policies that aggregates name.

        If the database is down, returns the policies that were last read.
        """
        try:
            with database.read() as connection:
                self.current(connection)
        except Exception as failure:  # noqa: BLE001 - of a database in any state
            LOG.info("Cannot read which policies are in use: %s", failure)
        aggregates = self.last
        if aggregates is None:
            return frozenset()
        return frozenset(aggregate.policy or "" for aggregate in aggregates.of_policies)


class NodeHistory:
    """The compute nodes of CachingScheduler in a process, safe for any number of threads."""

    def __init__(self, nodes: NodeCache) -> None:
        self._read = nodes
        self._nodes: dict[str, ComputeNode] = {}
        self._placed: dict[str, list[RequestSpec]] = defaultdict(list)
        self._since: datetime | None = None
        self._history: ServerEpoch = None
        self._lock = Lock()

    def refresh(self, now: datetime, interval: int, history: ServerEpoch = None) -> float:
        """Clear the cache after ``interval`` seconds, and return its age.

        With a negative interval, the cache is never cleared. A database failover clears it at once.
        """
        with self._lock:
            age = 0.0 if self._since is None else (now - self._since).total_seconds()
            is_expired = self._since is None or 0 <= interval <= age
            if is_expired or history != self._history:
                self._nodes.clear()
                self._placed.clear()
                self._since, self._history, age = now, history, 0.0
            return age

    def get(
        self, connection: Connection, uuids: Iterable[str], parts: HostVersions | None = None
    ) -> list[ComputeNode]:
        """Return the existing nodes with these uuids, in this order."""
        requested = list(dict.fromkeys(uuids))
        with self._lock:
            nodes = {uuid: self._nodes[uuid] for uuid in requested if uuid in self._nodes}
        if len(nodes) < len(requested):
            missing = [uuid for uuid in requested if uuid not in nodes]
            new = self._read.get(connection, missing, parts)
            nodes |= {node.uuid: node for node in new}
            with self._lock:
                if epoch_of(connection) == self._history:
                    self._nodes |= {node.uuid: node for node in new}
        return [nodes[uuid] for uuid in requested if uuid in nodes]

    def placed_on(self, uuid: str) -> Sequence[RequestSpec]:
        """Return the requests of the instances placed on a node since it was read."""
        with self._lock:
            return tuple(self._placed.get(uuid, ()))

    def note(self, placed: Iterable[tuple[str, RequestSpec]]) -> None:
        """Record claimed instances with the uuids of their nodes."""
        with self._lock:
            for uuid, spec in placed:
                self._placed[uuid].append(spec)


class IgnoredLog:
    """Log of ignored extra specs and image properties, once per process.

    After :data:`IGNORED` different entries, the oldest entry may be logged again. Any number of
    threads may use a log.
    """

    def __init__(self) -> None:
        self._logged: dict[int, None] = {}
        self._lock = Lock()

    def log(self, ignored: Iterable[IgnoredValue]) -> None:
        """Log a warning for each entry that was not logged before."""
        for entry in ignored:
            key = hash(entry)  # of constant size, for values of any length
            with self._lock:
                if key in self._logged:
                    continue
                if len(self._logged) >= IGNORED:
                    del self._logged[next(iter(self._logged))]
                self._logged[key] = None
            LOG.warning("%s", entry.detail)


class ProcessCaches:
    """All caches of a process between requests.

    ``provider_cache`` has all providers, or is None if they are not cached. ``supposed`` are the
    requests of instances that a simulation has placed, by node uuid.
    """

    def __init__(self, provider_cache: ProviderCache | None = None) -> None:
        self.provider_cache = provider_cache
        self.nodes = NodeCache()
        self.services = ServiceCache()
        self.kept_nodes = NodeHistory(self.nodes)
        self.aggregates = AggregateCache()
        self.node_names = NodeNames()
        self.ignored = IgnoredLog()
        self.supposed: dict[str, list[RequestSpec]] = defaultdict(list)

    @classmethod
    def of(
        cls,
        settings: Settings,
        database: Database,
        report: Callable[[CacheFigures], None] = lambda _figures: None,
    ) -> Self:
        """Return the caches of a process with these settings.

        ``report`` is called with the figures of the provider cache, if any.
        """
        if not settings.placement.providers_in_memory:
            return cls()
        return cls(ProviderCache(change_log, report=report, opened=database.read))

    def fill(self, database: Database, seconds: float = READING) -> None:
        """Start to fill the provider cache, if any, and wait at most ``seconds``.

        Until the cache is filled, requests read the database. Raises :class:`Unavailable` if the
        database does not answer.
        """
        if self.provider_cache is None:
            return
        with database.read() as connection:
            is_filled = self.provider_cache.refresh(connection)
        if not is_filled:
            self.provider_cache.wait(seconds)

    def provider_source(self, connection: Connection) -> ProviderSource:
        """Return the providers for a request: the refreshed cache, or a database loader."""
        if self.provider_cache is not None and self.provider_cache.refresh(connection):
            return CachedProviders(self.provider_cache, epoch_of(connection))
        return LoadedProviders(connection)
