"""The answer to a question of capacity: how many, what stops the hosts, what is left stranded."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from placement_sched.db.transaction import Connection
from placement_sched.model.document import Json
from placement_sched.model.host_aggregate import HostAggregate, zones
from placement_sched.model.placement.candidate import CandidateProvider
from placement_sched.model.results.stages import EVERYTHING
from placement_sched.scheduler.capacity.counting import CapacityCount
from placement_sched.scheduler.capacity.ledger import Ledger, Stop
from placement_sched.scheduler.explain.funnel import funnel_of

#: The step of the candidates search that asks for amounts.
_RESOURCES = "resources"


class Per(Enum):
    """What the capacity may be shown for each of."""

    ZONE = "zone"
    AGGREGATE = "aggregate"
    HOST = "host"
    CELL = "cell"


#: The answer where nothing can fit, but for the reason.
NOTHING: Json = {"capacity": 0, "exact": True, "limited_by": [], "stranded": {}}


@dataclass(slots=True)
class Part:
    """Some of the hosts: what each stops for, and what is free there, by class."""

    ledgers: list[Ledger] = field(default_factory=list)
    stops: Counter[Stop] = field(default_factory=Counter)
    stranded: Counter[str] = field(default_factory=Counter)

    def as_json(self, done: CapacityCount) -> Json:
        """Return the part as the contract shows it."""
        return {
            "capacity": done.of(self.ledgers),
            "limited_by": [_shown(stop, hosts) for stop, hosts in _sorted(self.stops)],
            "stranded": {name: free for name, free in sorted(self.stranded.items()) if free},
        }


@dataclass(frozen=True, slots=True)
class Stopped:
    """One node with why it takes no more, and what is free there of the classes asked for."""

    host: str
    uuid: str | None
    stop: Stop
    free: Mapping[str, int]
    ledger: Ledger | None = None


def report(connection: Connection, done: CapacityCount, per: Per | None) -> Json:
    """Return the answer for one request."""
    every = [*_counted(done), *_never_fitting(connection, done)]
    whole = Part()
    parts: dict[str, Part] = defaultdict(Part)
    names_of = _naming(done, connection, every, per)
    for one in every:
        for part in (whole, *(parts[name] for name in names_of(one))):
            if one.ledger is not None:
                part.ledgers.append(one.ledger)
            part.stops[one.stop] += 1
            if one.stop.is_resource:
                part.stranded.update(one.free)
    refusal = done.run.narrowed.refusal
    shown = whole.as_json(done)
    chosen = done.run.request.chosen
    return {
        "capacity": shown.pop("capacity"),
        "exact": not done.doubts,
        **({"policy": chosen.policy.name} if chosen else {}),
        **({"inexact_because": done.doubts} if done.doubts else {}),
        **({"refused": refusal.reason} if refusal else {}),
        **shown,
        **(
            {"per": [{"name": name, **parts[name].as_json(done)} for name in sorted(parts)]}
            if per
            else {}
        ),
    }


def _never_fitting(connection: Connection, done: CapacityCount) -> Iterable[Stopped]:
    """Yield the nodes without a candidate, each with the first step of the search it fails."""
    run = done.run
    if run.narrowed.refusal:
        return
    names = run.cloud.memory.explaining.names.current(connection)
    uuids = {called: uuid for uuid, called in names.items()}
    stops: dict[str, Stop] = {}
    for step in funnel_of(run, connection, EVERYTHING).allocation_candidates.steps:
        stop = Stop(step.constraint, step.detail)
        if step.constraint == _RESOURCES:
            stop = Stop(step.detail.partition(":")[0], is_resource=True)
        for one in step.rejected:
            if (uuid := uuids.get((one.host, one.node))) is not None:
                stops[uuid] = stop
    free = _free_on(done, [uuid for uuid, stop in stops.items() if stop.is_resource])
    for uuid, stop in stops.items():
        yield Stopped(names[uuid][0], uuid, stop, free.get(uuid, {}))


def _free_on(done: CapacityCount, roots: Sequence[str]) -> Mapping[str, Mapping[str, int]]:
    """Return what is free on these trees of the classes that are asked for, by root and class."""
    asked = done.run.searches.asked
    if asked is None or not roots:
        return {}
    source, classes = done.run.cloud.providers, asked.search.names.classes
    trees = {key: root for root, key in source.ids_of(roots).items()}
    if not asked.search.is_single:
        known = [CandidateProvider(key, root, 0, root, None) for key, root in trees.items()]
        trees = {one.id: one.root_uuid for one in source.whole_trees(known)}
    places = [(key, class_id) for key in trees for class_id in classes.values()]
    found: dict[str, Counter[str]] = defaultdict(Counter)
    called = {class_id: name for name, class_id in classes.items()}
    for (key, class_id), free in source.free(places).items():
        if key in trees and class_id in called:
            found[trees[key]][called[class_id]] += max(free.amount, 0)
    return found


def _naming(
    done: CapacityCount, connection: Connection, every: Sequence[Stopped], per: Per | None
) -> Callable[[Stopped], Iterable[str]]:
    """Return what gives the names of the parts that a node is in."""
    aggregates = done.run.cloud.aggregates.of_host
    if per is Per.HOST:
        return lambda one: (one.host,)
    if per is Per.AGGREGATE:
        return lambda one: dict.fromkeys(each.name for each in aggregates(one.host))
    if per is Per.ZONE:
        default = done.run.request.settings.DEFAULT.default_availability_zone
        return lambda one: zones_of(aggregates(one.host)) or (default,)
    if per is None:
        return lambda _one: ()
    view = done.run.cloud
    uuids = [one.uuid for one in every if one.uuid]
    nodes = view.memory.nodes.get(connection, uuids, view.host_versions)
    cells = {node.uuid: node.cell_uuid or "" for node in nodes}
    return lambda one: (cells.get(one.uuid or "", ""),)


def zones_of(aggregates: Iterable[HostAggregate]) -> Iterable[str]:
    """Return the zones of these aggregates."""
    return frozenset().union(*(zones(one.availability_zone) for one in aggregates))


def _sorted(stops: Counter[Stop]) -> list[tuple[Stop, int]]:
    return sorted(stops.items(), key=lambda item: (-item[1], item[0]))


def _shown(stop: Stop, hosts: int) -> Json:
    detail = {"detail": stop.detail} if stop.detail else {}
    return {"reason": stop.reason, **detail, "hosts": hosts}


def _counted(done: CapacityCount) -> Iterable[Stopped]:
    stock = done.stock
    for ledger in done.ledgers:
        free: dict[str, int] = {}
        for place in dict.fromkeys([place for way in ledger.every for place, _ in way.amounts]):
            name = stock.names[place[1]]
            free[name] = free.get(name, 0) + max(stock.free.get(place, 0), 0)
        stop = ledger.stop or Stop("capacity_budget")
        yield Stopped(ledger.host.host, ledger.host.uuid, stop, free, ledger)
