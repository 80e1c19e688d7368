"""What the flavors of one question have in common: they are counted in the same cloud."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache

from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import HostAggregate, zones
from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.hosts.caches import Aggregates, Memory
from placement_sched.scheduler.hosts.states import CloudView, SharedStates
from placement_sched.scheduler.requests.reading import SchedulingRequest


class Per(Enum):
    """What the capacity may be shown for each of."""

    ZONE = "zone"
    AGGREGATE = "aggregate"
    HOST = "host"
    CELL = "cell"


#: Gives the names of the parts that a host is in.
PartsOf = Callable[[str], tuple[str, ...]]


@dataclass(slots=True)
class OneCloud:
    """The cloud as the requests of one question see it, read once for all that can share it."""

    connection: Connection
    memory: Memory
    _view: CloudView | None = None
    _parts: dict[tuple[Aggregates, Per, str], PartsOf] = field(default_factory=dict)

    def view_for(self, request: SchedulingRequest) -> CloudView:
        """Return what a request looks at: what those before it did, or a view of its own.

        Host states are shared where nothing is written to them. Filters that are shipped return
        what they leave, and write nothing; one from elsewhere may write, as nova's do.
        """
        fresh = CloudView.of(self.connection, request, self.memory)
        plugins = request.plugins
        filters = {type(one) for one in plugins.driver.filters(plugins.filters)}
        kept = fresh.states_age is not None
        if kept or request.spec.instance_group or not filters <= {*all_filters()}:
            return fresh
        if self._view is None or self._view.policies is not fresh.policies:
            self._view = fresh
            self._view.shared_states = SharedStates()
        return self._view

    def parts_of(self, aggregates: Aggregates, per: Per, default_zone: str) -> PartsOf:
        """Return what gives the zones or aggregates of a host, or the host."""
        key = (aggregates, per, default_zone)
        if key not in self._parts:
            self._parts[key] = cache(_named(aggregates, per, default_zone))
        return self._parts[key]


def _named(aggregates: Aggregates, per: Per, default_zone: str) -> PartsOf:
    of_host = aggregates.of_host
    if per is Per.HOST:
        return lambda host: (host,)
    if per is Per.AGGREGATE:
        return lambda host: tuple(dict.fromkeys(each.name for each in of_host(host)))
    return lambda host: tuple(zones_of(of_host(host))) or (default_zone,)


def zones_of(aggregates: Iterable[HostAggregate]) -> frozenset[str]:
    """Return the zones of these aggregates."""
    return frozenset().union(*(zones(one.availability_zone) for one in aggregates))
