"""What one process remembers of hosts between requests; right with any number of processes."""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import Self

from oslo_log import log

from placement_sched.candidates.cache import CacheFigures, ProviderCache
from placement_sched.candidates.explain.node_names import NodeNames
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders, ProviderSource
from placement_sched.db.histories import History, history_of
from placement_sched.db.transaction import Connection, Database
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.model.results.funnel import Ignored
from placement_sched.model.spec import RequestSpec
from placement_sched.scheduler.hosts.known import HostVersions, NodeCache, ServiceCache
from placement_sched.settings import Settings
from placement_sched.store import change_counters
from placement_sched.store.compute import host_aggregates, node_traits
from placement_sched.store.placement import change_log

LOG = log.getLogger(__name__)

#: So many traits, more than request filters ask for.
TRAITS = 100
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


class AggregateCache:
    """This process's memory of all host aggregates.

    Each use reads the aggregates' change counter, one row, and loads them again only when it
    moved. The counter is read before the aggregates: a change that comes between is loaded under
    the older version, so the next use finds the counter moved and loads once more. A version of
    another history of the database is another one.
    """

    def __init__(self) -> None:
        self._seen: Aggregates | None = None

    def current(self, connection: Connection) -> Aggregates:
        """Return the aggregates as they are now, to be used through one request."""
        history = history_of(connection)
        version = history, change_counters.version(connection, host_aggregates.SUBJECT)
        seen = self._seen
        if seen is None or seen.version != version:
            seen = self._seen = Aggregates(host_aggregates.snapshot(connection), version)
        return seen

    def policies_in_use(self, database: Database) -> frozenset[str]:
        """Return the policies that aggregates name; those read last where they cannot be read."""
        try:
            with database.read() as connection:
                self.current(connection)
        except Exception as failure:  # noqa: BLE001 - of a database of whatever state
            LOG.info("cannot read which policies are in use: %s", failure)
        seen = self._seen
        return frozenset(one.policy or "" for one in seen.of_policies) if seen else frozenset()


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


class NodeTraitCache:
    """This process's memory of which traits the root providers of all enabled nodes have.

    Each use reads the fingerprint of what the answer follows from, one statement, and looks at all
    nodes again only when it is another. What is remembered is an answer and the fingerprint of the
    same moment: a fingerprint read before might come back later, as a trait that is put on and
    taken off again leaves the same providers, and would then stand for the answer between. That
    of another history of the database says nothing.
    """

    def __init__(self) -> None:
        # Random, so that no change goes unseen by the same chance in every process.
        self._salt = 1 + secrets.randbelow(node_traits.SALTS - 1)
        self._seen: dict[tuple[History, str], node_traits.Coverage] = {}

    def all_have(self, connection: Connection, trait: str) -> bool:
        """Return whether the root provider of every node whose service is enabled has a trait."""
        key = history_of(connection), trait
        seen = self._seen.get(key)
        if seen and seen.fingerprint == node_traits.fingerprint(connection, trait, self._salt):
            return seen.all_have
        found = node_traits.coverage(connection, trait, self._salt)
        if found.fingerprint is not None:
            if len(self._seen) >= TRAITS:
                self._seen.clear()
            self._seen[key] = found
        return found.all_have


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
        self.node_traits = NodeTraitCache()
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
