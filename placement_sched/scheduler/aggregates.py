"""Host aggregates as the scheduler sees them: remembered, and right across processes."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from placement_sched.db.connection import Connection
from placement_sched.model.host_aggregate import HostAggregate
from placement_sched.store import change_counters, host_aggregates


class Aggregates:
    """All host aggregates of one moment, to be looked up by host and by metadata key."""

    def __init__(self, every: Iterable[HostAggregate] = ()) -> None:
        #: Every aggregate, by id.
        self.every = tuple(every)
        self._tagged: dict[str, tuple[HostAggregate, ...]] = {}

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

    def with_key_prefix(self, prefix: str) -> tuple[HostAggregate, ...]:
        """Return the aggregates with a metadata key that starts with ``prefix``, case included."""
        found = self._tagged.get(prefix)
        if found is None:
            found = self._tagged[prefix] = tuple(
                aggregate
                for aggregate in self.every
                if any(key.startswith(prefix) for key in aggregate.metadata)
            )
        return found


class AggregateCache:
    """This process's memory of all host aggregates.

    Each use reads the aggregates' change counter, one row, and loads them again only when it
    moved. The counter is read before the aggregates: a change that comes between is loaded under
    the older version, so the next use finds the counter moved and loads once more.
    """

    def __init__(self) -> None:
        self._seen: tuple[int, Aggregates] | None = None

    def current(self, connection: Connection) -> Aggregates:
        """Return the aggregates as they are now, to be used through one request."""
        version = change_counters.version(connection, host_aggregates.SUBJECT)
        seen = self._seen
        if seen is None or seen[0] != version:
            seen = self._seen = (version, Aggregates(host_aggregates.snapshot(connection)))
        return seen[1]

    def policies_seen(self) -> frozenset[str]:
        """Return the policies that aggregates named when they were last looked at."""
        seen = self._seen
        return frozenset(one.policy or "" for one in seen[1].of_policies) if seen else frozenset()

    def get(self, connection: Connection) -> tuple[HostAggregate, ...]:
        """Return every aggregate as it is now, by id."""
        return self.current(connection).every
