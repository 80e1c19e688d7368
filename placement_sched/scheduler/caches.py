"""What one process remembers of hosts between requests; right with any number of processes."""

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
from placement_sched.db.failover import History, history_of
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.explanation import Ignored
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_state import NO_SERVICE, service_view
from placement_sched.store import change_counters
from placement_sched.store.compute import compute_nodes, host_aggregates, host_changes, services
from placement_sched.store.compute.compute_nodes import NodeNames
from placement_sched.store.placement import change_log

#: So many nodes are kept, more than most clouds have; a parsed report takes some kilobytes.
NODES = 20_000

#: The version of each part of the hosts, read before what it is about.
HostVersions = Mapping[int, int]


class NodeCache:
    """The nodes that one process has parsed, at most ``limit`` of them, longest unused go first.

    It is right with any number of processes: where hosts of a part have changed, each :meth:`get`
    asks the database for the version of every node asked of that part, and parses again those
    whose version is another.
    """

    def __init__(self, limit: int = NODES) -> None:
        self._limit = limit
        # Each with its host's part, and the version of that which it was read under.
        self._nodes: dict[str, tuple[ComputeNode, int, int]] = {}
        self._history: History = None
        self._lock = Lock()

    def get(
        self, connection: Connection, uuids: Iterable[str], parts: HostVersions | None = None
    ) -> list[ComputeNode]:
        """Return the nodes of these uuids in this order, without those that are not there.

        ``parts`` are the versions that the request read, if it has. No statement where nothing
        has changed, one more where something has, and another for nodes that are new or changed.
        """
        history = history_of(connection)
        parts = host_changes.versions(connection) if parts is None else parts
        asked = list(dict.fromkeys(uuids))
        with self._lock:
            self._begin(history)
            known = {uuid: held for uuid in asked if (held := self._nodes.get(uuid)) is not None}
        nodes: dict[str, ComputeNode] = {}
        doubtful: list[str] = []
        changed = [uuid for uuid in asked if uuid not in known]
        version_of = parts.get
        for uuid, (node, part, version) in known.items():
            if version_of(part, 0) == version:
                nodes[uuid] = node
            else:
                doubtful.append(uuid)
        if doubtful:
            versions = compute_nodes.versions(connection, doubtful)
            for uuid, (version, last_seen_up) in versions.items():
                node = known[uuid][0]
                if node.version == version:
                    nodes[uuid] = node.seen_at(last_seen_up)
                else:
                    changed.append(uuid)
        if changed:
            nodes |= {node.uuid: node for node in compute_nodes.by_uuids(connection, changed)}
        self._keep(nodes, known, parts, history)
        return [nodes[uuid] for uuid in asked if uuid in nodes]

    def _begin(self, history: History) -> None:
        """Forget what was read in another history."""
        if history != self._history:
            self._history, self._nodes = history, {}

    def _keep(
        self,
        nodes: Mapping[str, ComputeNode],
        known: Mapping[str, tuple[ComputeNode, int, int]],
        parts: HostVersions,
        history: History,
    ) -> None:
        with self._lock:
            self._begin(history)
            kept = self._nodes
            # As long as there is room for all, it is no matter which were used last.
            ordered = 2 * (len(kept) + len(nodes)) > self._limit
            for uuid, node in nodes.items():
                held = known.get(uuid)
                same = held is not None and held[0] is node
                if held is None or not same or parts.get(held[1], 0) != held[2]:
                    part = host_changes.part_of(node.host)
                    held = (node, part, parts.get(part, 0))
                elif not ordered:
                    continue
                # Taken out and put back at the end: the order shows which were used last.
                kept.pop(uuid, None)
                kept[uuid] = held
            while len(kept) > self._limit:
                del kept[next(iter(kept))]

    def __len__(self) -> int:
        return len(self._nodes)


class ServiceCache:
    """The compute services of hosts as their states show them, at most ``limit`` of them."""

    def __init__(self, limit: int = NODES) -> None:
        self._limit = limit
        # Each with its host's part, and the version of that which it was read under; all together
        # with the history that they were read in.
        self._views: tuple[History, dict[str, tuple[Mapping[str, Any], int, int]]] = (None, {})

    def get(
        self, connection: Connection, hosts: Collection[str], parts: HostVersions
    ) -> dict[str, Mapping[str, Any]]:
        """Return the service of each host; one statement where some may have changed."""
        found: dict[str, Mapping[str, Any]] = {}
        changed: list[str] = []
        history = history_of(connection)
        views = self._of(history)
        held_of, version_of = views.get, parts.get
        for host in hosts:
            held = held_of(host)
            if held is not None and version_of(held[1], 0) == held[2]:
                found[host] = held[0]
            else:
                changed.append(host)
        if not changed:
            return found
        read = services.by_hosts(connection, changed)
        if len(views) + len(changed) > self._limit:
            views = {}
            self._views = history, views
        for host in changed:
            service, part = read.get(host), host_changes.part_of(host)
            view = NO_SERVICE if service is None else service_view(service)
            found[host] = view
            views[host] = (view, part, version_of(part, 0))
        return found

    def _of(self, history: History) -> dict[str, tuple[Mapping[str, Any], int, int]]:
        """Return what was read in this history, having forgotten what was in another."""
        known, views = self._views
        if known != history:
            views = {}
            self._views = history, views
        return views

    def __len__(self) -> int:
        return len(self._views[1])


LOG = log.getLogger(__name__)

#: Seconds that a process waits at its start until all providers are read.
READING = 2.0
#: So many keys and values that were ignored. Of more, the oldest may be logged again.
IGNORED = 1000


class Aggregates:
    """All host aggregates of one moment, by id.

    They have at least the ``version`` of their change counter, in the history that it is of.
    """

    def __init__(
        self, every: Iterable[HostAggregate] = (), version: tuple[History, int] = (None, 0)
    ) -> None:
        self.every = tuple(every)
        self.version = version

    @cached_property
    def by_host(self) -> dict[str, tuple[HostAggregate, ...]]:
        """The aggregates of each host that is in any, by id."""
        found: dict[str, list[HostAggregate]] = defaultdict(list)
        for aggregate in self.every:
            for host in aggregate.hosts:
                found[host].append(aggregate)
        return {host: tuple(members) for host, members in found.items()}

    def of_host(self, host: str) -> tuple[HostAggregate, ...]:
        """Return the aggregates that ``host`` is in, by id."""
        return self.by_host.get(host, ())

    @cached_property
    def of_policies(self) -> tuple[HostAggregate, ...]:
        """The aggregates that name a policy, by id."""
        return tuple(each for each in self.every if each.policy)


class AggregateCache(change_counters.VersionedCache[Aggregates]):
    """All host aggregates, as one process keeps them."""

    def __init__(self) -> None:
        super().__init__(
            host_aggregates.SUBJECT,
            lambda connection, version: Aggregates(host_aggregates.snapshot(connection), version),
        )

    def policies_in_use(self, database: Database) -> frozenset[str]:
        """Return the policies that aggregates name; if they cannot be read, those read last."""
        try:
            with database.read() as connection:
                self.current(connection)
        except Exception as failure:  # noqa: BLE001 - of a database in any state
            LOG.info("cannot read which policies are in use: %s", failure)
        aggregates = self.last
        if aggregates is None:
            return frozenset()
        return frozenset(aggregate.policy or "" for aggregate in aggregates.of_policies)


class KeptNodes:
    """The compute nodes of one process as CachingScheduler sees them; for any number of threads."""

    def __init__(self, nodes: NodeCache) -> None:
        self._read = nodes
        self._kept: dict[str, ComputeNode] = {}
        self._placed: dict[str, list[RequestSpec]] = defaultdict(list)
        self._since: datetime | None = None
        self._history: History = None
        self._lock = Lock()

    def refresh(self, now: datetime, interval: int, history: History = None) -> float:
        """Forget all that was read more than ``interval`` seconds ago; return the age in seconds.

        A negative interval never does. What was read in another history is forgotten at once.
        """
        with self._lock:
            age = 0.0 if self._since is None else (now - self._since).total_seconds()
            late = self._since is None or 0 <= interval <= age
            if late or history != self._history:
                self._kept.clear()
                self._placed.clear()
                self._since, self._history, age = now, history, 0.0
            return age

    def get(
        self, connection: Connection, uuids: Iterable[str], parts: HostVersions | None = None
    ) -> list[ComputeNode]:
        """Return the nodes of these uuids in this order, without those that are not there."""
        asked = list(dict.fromkeys(uuids))
        with self._lock:
            known = {uuid: self._kept[uuid] for uuid in asked if uuid in self._kept}
        if len(known) < len(asked):
            lacking = [uuid for uuid in asked if uuid not in known]
            new = self._read.get(connection, lacking, parts)
            known |= {node.uuid: node for node in new}
            with self._lock:
                if history_of(connection) == self._history:
                    self._kept |= {node.uuid: node for node in new}
        return [known[uuid] for uuid in asked if uuid in known]

    def placed_on(self, uuid: str) -> Sequence[RequestSpec]:
        """Return what was placed on a node since it was read, an instance each."""
        with self._lock:
            return tuple(self._placed.get(uuid, ()))

    def note(self, placed: Iterable[tuple[str, RequestSpec]]) -> None:
        """Note instances that were claimed, each on the node of a uuid."""
        with self._lock:
            for uuid, spec in placed:
                self._placed[uuid].append(spec)


class IgnoredLog:
    """What one process has logged already; for any number of threads."""

    def __init__(self) -> None:
        self._logged: dict[int, None] = {}
        self._lock = Lock()

    def log(self, ignored: Iterable[Ignored]) -> None:
        """Log each of these that was not logged before."""
        for one in ignored:
            known = hash(one)  # of one size, however long the value is
            with self._lock:
                if known in self._logged:
                    continue
                if len(self._logged) >= IGNORED:
                    del self._logged[next(iter(self._logged))]
                self._logged[known] = None
            LOG.warning("%s", one.detail)


class Memory:
    """What one process remembers between requests; right with any number of processes.

    ``provider_cache`` has all providers, if the process keeps them. ``supposed`` is what a trial
    has put on nodes, by their uuids, beyond what they have reported.
    """

    def __init__(self, provider_cache: ProviderCache | None = None) -> None:
        self.provider_cache = provider_cache
        self.nodes = NodeCache()
        self.services = ServiceCache()
        self.kept_nodes = KeptNodes(self.nodes)
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
        """Return the memory of a process that serves with these options.

        ``report`` is called with the figures of its provider cache, if there is one.
        """
        if not settings.placement.providers_in_memory:
            return cls()
        return cls(ProviderCache(change_log, report=report, opened=database.read))

    def fill(self, database: Database, seconds: float = READING) -> None:
        """Begin to read all providers, if they are kept here, and wait for that, not for long.

        Until they are read the database answers. Raises :class:`Unavailable` where it does not.
        """
        if self.provider_cache is None:
            return
        with database.read() as connection:
            known = self.provider_cache.refresh(connection)
        if not known:
            self.provider_cache.wait(seconds)

    def provider_source(self, connection: Connection) -> ProviderSource:
        """Return the providers for a request: the cache, refreshed, or what it loads itself."""
        if self.provider_cache is not None and self.provider_cache.refresh(connection):
            return CachedProviders(self.provider_cache, history_of(connection))
        return LoadedProviders(connection)
