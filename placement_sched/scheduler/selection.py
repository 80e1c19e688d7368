"""From host states to chosen hosts: filter, weigh, take the best, once for each instance."""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from typing import Any, Self

from placement_sched.config.settings import Settings
from placement_sched.db.sql import grouped
from placement_sched.db.transaction import Connection
from placement_sched.model.aggregates import ANTI_AFFINITY, MOST_PER_HOST
from placement_sched.model.candidates_query import Candidates
from placement_sched.model.clock import timed
from placement_sched.model.decision import DecisionSeed, Selection
from placement_sched.model.explanation import USED_UP, FilterReport, HostReport, Rejected
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler import filtering
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.host_manager import ClosedAmong, CloudView, none_closed
from placement_sched.scheduler.host_state import HostState, offer, with_candidates
from placement_sched.scheduler.narrowing import RequestFilterRun
from placement_sched.scheduler.plugins import Plugins
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.resource_request import Searches
from placement_sched.scheduler.weighing import Weighing, WeighRun
from placement_sched.scheduler.weights import WeighedHost
from placement_sched.store.placement import capacity, resource_classes

#: A provider's uuid and the name of a class.
InventoryName = tuple[str, str]


class Headroom:
    """Free units of what instances of this request took something of.

    ``connection`` is None for a request that needs no accounts: of one instance, or a rebuild.
    """

    def __init__(self, connection: Connection | None, candidates: Candidates) -> None:
        self._connection = connection
        self._candidates = candidates
        self._free: dict[InventoryName, int] = {}
        self._taken: set[InventoryName] = set()
        # The root providers of hosts that have a candidate on a provider that was taken from.
        self._touched: set[str] = set()
        # Of each provider, the root providers of the hosts that have a candidate on it.
        self._roots: dict[str, list[str]] = defaultdict(list)
        # Those of these hosts of which it is not known whether their first candidate still fits.
        self._open: set[str | None] = set()

    @classmethod
    def of(cls, connection: Connection, spec: RequestSpec, candidates: Candidates) -> Self:
        """Return the accounts of a request: none for one instance, or a rebuild."""
        needed = spec.num_instances > 1 and not spec.is_rebuild
        return cls(connection, candidates) if needed else cls.unbounded()

    @classmethod
    def unbounded(cls) -> Self:
        """Return a headroom that limits nothing."""
        return cls(None, Candidates())

    @property
    def is_kept(self) -> bool:
        """Return whether accounts are kept at all."""
        return self._connection is not None

    def left(
        self, hosts: Mapping[str | None, Sequence[HostState]]
    ) -> list[tuple[HostState, Sequence[Any]]]:
        """Return the hosts of which other candidates are left than they have, with these.

        The hosts are given by their uuids. The first candidate by which one more instance fits
        beside those placed before comes first: of two equal devices the second instance takes the
        other. None are left where none fits.
        """
        # Most hosts are as they were when the instance before was placed.
        asked = [host for uuid in self._open for host in hosts.get(uuid, ())]
        pairs = [(host, self._in_order(host)) for host in asked]
        return [(host, left) for host, left in pairs if left is not host.allocation_candidates]

    def look_again(self, hosts: Iterable[HostState]) -> None:
        """Note that these hosts may have other candidates, of which a filter dropped some."""
        self._open.update([host.uuid for host in hosts if host.uuid in self._touched])

    def _in_order(self, host: HostState) -> Sequence[Any]:
        """Return the candidates of a host that was taken from, or none where no instance fits."""
        candidates = host.allocation_candidates
        at = next((at for at, one in enumerate(candidates) if self._is_free(one)), None)
        if at is None:
            return ()
        if at:
            return [candidates[at], *candidates[:at], *candidates[at + 1 :]]
        self._open.discard(host.uuid)
        return candidates

    def _is_free(self, candidate: Mapping[str, Any]) -> bool:
        """Return whether an instance can still take what it takes by this allocation request."""
        free, taken = self._free, self._taken
        for uuid, part in candidate["allocations"].items():
            for name, amount in part["resources"].items():
                if (uuid, name) in taken and free[uuid, name] < amount:
                    return False
        return True

    def most(self, hosts: Sequence[HostState]) -> int:
        """Return a number of instances that these hosts have room for at most, in two statements.

        What a host's candidates may take of, they may take together only once: so no request of
        more instances can find hosts for all of them. (One of fewer need not either.)
        """
        if self._connection is None:
            raise AssertionError("no accounts are kept")
        self._read(self._connection, hosts)
        return sum(map(self._most_on, hosts))

    def _most_on(self, host: HostState) -> int:
        """Return how many instances the providers of a host's candidates have room for at most.

        Only classes that every candidate takes of bound it: some may take PCPU, others VCPU.
        """
        places: dict[str, set[InventoryName]] = defaultdict(set)
        asked: dict[str, list[int]] = defaultdict(list)
        for candidate in host.allocation_candidates:
            amounts: dict[str, int] = defaultdict(int)
            for place, amount in _amounts(candidate):
                places[place[1]].add(place)
                amounts[place[1]] += amount
            for name, amount in amounts.items():
                asked[name].append(amount)
        number = len(host.allocation_candidates)
        return min(
            (
                sum(max(self._free[place], 0) for place in places[name]) // min(each)
                for name, each in asked.items()
                if len(each) == number and min(each)
            ),
            default=sys.maxsize,
        )

    def take(self, host: HostState, next_best: Iterable[HostState] = ()) -> None:
        """Note that one more instance goes there.

        ``next_best`` are hosts that others are likely to go to: what is free there is read along,
        so that the number of statements does not follow that of the instances.
        """
        if self._connection is None:
            return
        amounts = dict(_amounts(host.allocation_candidates[0]))
        if not amounts.keys() <= self._free.keys():
            self._read(self._connection, (host, *next_best))
        for place, amount in amounts.items():
            self._free[place] -= amount
        self._taken.update(amounts)
        if not self._roots:
            for request in self._candidates.requests:
                for uuid in request.uuids:
                    self._roots[uuid].append(request.root_uuid)
        for uuid in {uuid for uuid, _ in amounts}:
            self._touched.update(self._roots[uuid])
            self._open.update(self._roots[uuid])

    def _read(self, connection: Connection, hosts: Iterable[HostState]) -> None:
        """Learn what is free now of all that the hosts' candidates use, in two statements."""
        ids = {provider.uuid: provider.id for provider in self._candidates.providers}
        classes = {name: key for key, name in resource_classes.all_by_id(connection).items()}
        candidates = (one for host in hosts for one in host.allocation_candidates)
        used = {place for candidate in candidates for place, _ in _amounts(candidate)}
        wanted = used - self._free.keys()
        keys = {place: (ids.get(place[0], 0), classes[place[1]]) for place in wanted}
        rooms = capacity.read(connection, keys.values())
        for place, key in keys.items():
            room = rooms.get(key)
            self._free[place] = room.inventory.capacity - room.used if room else 0


@dataclass(slots=True)
class PlacedSoFar:
    """What the instances of a request placed so far leave to those that come.

    ``hosts`` are those that may still have room, ``spec`` is the request with the earlier
    instances in its server group. ``asks_again`` is whether filters look at all of them for each
    instance; else only at those of the ``touched`` names, where an instance went. ``own`` are those
    that have instances of the request from before.
    """

    headroom: Headroom
    weighing: Weighing
    hosts: list[HostState]
    spec: RequestSpec
    asks_again: bool = True
    chosen: list[WeighedHost] = field(default_factory=list)
    touched: set[str] = field(default_factory=set)
    own: list[HostState] | None = None
    # The list whose hosts have candidates, and where they are in it: of many hosts, those that have
    # changed are then found without a look at the others.
    _known: list[HostState] | None = None
    _by_uuid: dict[str | None, list[HostState]] = field(default_factory=dict)
    _places: dict[str, list[int]] = field(default_factory=dict)

    def note(self, host: HostState) -> None:
        """Note that an instance goes to a host, before it does.

        Those that have instances of the request from before count as changed, too: each of these
        joins the server group when it is placed.
        """
        if self.own is None:
            group = self.spec.instance_group
            uuids = frozenset(self.spec.instance_uuids if group else ())
            self.own = [one for one in self.hosts if uuids and not uuids.isdisjoint(one.instances)]
        for one in (host, *self.own):
            self.weighing.note(one)
            self.touched.add(one.host)

    def with_room(self, hosts: list[HostState]) -> list[HostState]:
        """Offer the hosts the candidates that are left, and return those where one more fits.

        It is the same list where that is all of them.
        """
        if not self.headroom.is_kept:
            return hosts
        if hosts is not self._known:
            hosts = self._learn(with_candidates(hosts))
        changed = self.headroom.left(self._by_uuid)
        for host, candidates in changed:
            offer(host, candidates)
            self.touched.add(host.host)
        if all(candidates for _, candidates in changed):
            return hosts
        return self._learn(with_candidates(hosts))

    def changed_among(self, hosts: list[HostState]) -> list[HostState]:
        """Return the hosts of the touched names, in their order, and forget these names."""
        if hosts is not self._known:
            self._learn(hosts)
        places = sorted(at for name in self.touched for at in self._places.get(name, ()))
        self.touched.clear()
        return [hosts[at] for at in places]

    def _learn(self, hosts: list[HostState]) -> list[HostState]:
        """Learn where each of the hosts is, and return them."""
        self._known = hosts
        self._by_uuid = grouped((host.uuid, host) for host in hosts)
        self._places = grouped((host.host, at) for at, host in enumerate(hosts))
        return hosts


def _amounts(candidate: Mapping[str, Any]) -> Iterator[tuple[InventoryName, int]]:
    """Yield what an instance takes by an allocation request, and how much of it."""
    for uuid, part in candidate["allocations"].items():
        for name, amount in part["resources"].items():
            yield (uuid, name), amount


#: From so many instances times hosts on it pays to count first how many there is room for.
_MANY = 10_000

#: Why hosts have no room: because of instances of the same request, or of others.
_USED_UP = "no capacity left after the earlier instances of this request"
_TAKEN = "concurrent requests took the capacity that was left, or had the host locked"


@dataclass(frozen=True, slots=True)
class Look:
    """How the hosts looked to one instance: what refused some, and the rest, best first."""

    filters: tuple[FilterReport, ...]
    weighed: WeighRun
    ordered: tuple[WeighedHost, ...]

    def host_reports(self) -> tuple[HostReport, ...]:
        """Return the hosts that passed, in final order, with their weights."""
        pairs = zip(self.weighed.hosts, self.weighed.host_reports(), strict=True)
        reports = {id(host.obj): report for host, report in pairs}
        return tuple([reports[id(host.obj)] for host in self.ordered])

    def best_reports(self, most: int) -> tuple[HostReport, ...]:
        """Return the first of these alone, ``most`` of them."""
        return self.weighed.reports_on(self.ordered[:most])


@dataclass(frozen=True, slots=True)
class Choice:
    """A host and its alternates for every instance, or for none; ``first`` is the first's look.

    Where one that came later found no host, ``placed`` is how many came before it, ``later`` its
    look. Where the hosts cannot have room for all instances, ``room_for`` is how many they have
    room for at most.
    """

    selections: tuple[tuple[Selection, ...], ...]
    first: Look
    placed: int = 0
    later: Look | None = None
    room_for: int | None = None


@dataclass(frozen=True, slots=True)
class NextBest:
    """Another way to place the only instance of a request: a host by its place in the order."""

    place: int
    allocation_request: Mapping[str, Any]


def _never_over() -> None:
    """Return: there is time without end."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """Chooses among hosts under given settings; ``alternates`` is how many to add for each.

    ``closed_cells`` says of which cells the hosts are left out. ``watch``
    is called with how the hosts look to each instance, before one is chosen for it. ``check`` is
    called before each, and raises where time is over. ``seconds`` is added to: how long filters and
    weighers take.
    """

    plugins: Plugins
    settings: Settings
    random: Random
    alternates: int = 0
    closed_cells: ClosedAmong = none_closed
    watch: Callable[[Look], None] | None = None
    check: Callable[[], None] = _never_over
    seconds: dict[str, float] = field(default_factory=dict)

    def choose(self, hosts: Sequence[HostState], spec: RequestSpec, headroom: Headroom) -> Choice:
        """Return a host for every instance of the request, or for none if one finds no host.

        Hosts chosen are consumed virtually, so that the next instance sees less of them, and a
        server group has the instances placed before among its members.
        """
        uuids = spec.instance_uuids or (None,) * spec.num_instances
        progress = self.begun(hosts, spec, headroom)
        selections: list[Selection] = []
        first: Look | None = None
        for look in self.one_by_one(uuids, progress, len(uuids)):
            if self.watch is not None:
                self.watch(look)
            if first is None:
                first = look
                room = self._room(look, spec, headroom)
                if room is not None and room < len(uuids):
                    return Choice((), first, room_for=room)
            if not look.ordered:
                placed = len(selections)
                return Choice((), first, placed, look if placed else None)
            # Made now: what the next instance is given of the same host may be another part of it.
            selections.append(self._selection(look.ordered[0]))
        if first is None:  # a request is for one instance at least
            raise AssertionError("no instance was requested")
        others = self._alternates(progress, look)
        pairs = zip(selections, others, strict=True)
        return Choice(tuple((best, *map(self._selection, some)) for best, some in pairs), first)

    def begun(
        self, hosts: Sequence[HostState], spec: RequestSpec, headroom: Headroom
    ) -> PlacedSoFar:
        """Return what instances leave to those that come, before there is any."""
        weighers = self.plugins.driver.weighers(self.plugins.weighers)
        # The verdict of a filter from elsewhere may be another though the host has not changed.
        ours = {type(one) for one in self.filters_for(spec)} <= {*all_filters()}
        again = not ours or not self._caps_members(spec)
        return PlacedSoFar(headroom, Weighing(weighers), list(hosts), spec, again)

    def _caps_members(self, spec: RequestSpec) -> bool:
        """Return whether a host that passes does so until an instance of the group goes there."""
        group = spec.instance_group
        policies = group.policies if group else ()
        return all(
            vars(type(one)).get("caps_group_members")
            for one in self.filters_for(spec)
            if one.server_group_policy in policies
        )

    def one_by_one(
        self, uuids: Iterable[str | None], progress: PlacedSoFar, number: int
    ) -> Iterator[Look]:
        """Yield how the hosts look to each of these instances, up to the first that has none.

        Each is placed on the first in order before the next one looks. There are ``number``.
        """
        chosen, headroom = progress.chosen, progress.headroom
        for uuid in uuids:
            self.check()
            one = progress.spec.for_instance(uuid)
            look, progress.hosts = self._look(progress.hosts, one, progress, len(chosen))
            yield look
            if not look.ordered:
                return
            best = look.ordered[0]
            chosen.append(best)
            to_come = number - len(chosen)
            headroom.take(best.obj, (host.obj for host in islice(look.ordered, 1, 1 + to_come)))
            if number > 1:
                progress.note(best.obj)
            best.obj.consume_from_request(one)
            progress.spec = one.in_group_on(best.obj.host)

    def next_best(self, choice: Choice, most: int) -> list[NextBest]:
        """Return how a request of one instance may be placed where others took what was chosen.

        Host by host, in the order in which they were to be taken, and of each its candidates;
        ``most`` at most. None where there are several instances: each has its own order.
        """
        if len(choice.selections) != 1:
            return []
        every = (
            NextBest(place, candidate)
            for place, host in enumerate(choice.first.ordered)
            for candidate in host.obj.allocation_candidates
        )
        return list(islice(every, 1, 1 + most))

    def instead(self, choice: Choice, other: NextBest) -> Choice:
        """Return the choice of the next best, where the hosts before it have no room any more."""
        look, place = choice.first, other.place
        best, *others = look.ordered[place:]
        same_cell = [host for host in others if host.obj.cell_uuid == best.obj.cell_uuid]
        selection = replace(self._selection(best), allocation_request=other.allocation_request)
        if place:
            passed = [host.obj for host in look.ordered[:place]]
            report = _report_without(passed, len(look.ordered), "room_at_claim", _TAKEN)
            look = replace(look, filters=(*look.filters, report))
        alternates = map(self._selection, same_cell[: self.alternates])
        return replace(choice, selections=((selection, *alternates),), first=look)

    def _room(self, look: Look, spec: RequestSpec, headroom: Headroom) -> int | None:
        """Return how many instances the hosts have room for at most; None where few are asked for.

        To place one after the other until no host is left takes long where many are. With few it
        is left to that: then it is known which stage rejected the last hosts.
        """
        hosts = [weighed.obj for weighed in look.ordered]
        number = spec.num_instances
        if number * len(hosts) < _MANY or number <= len(hosts) or not headroom.is_kept:
            return None
        most, group = headroom.most(hosts), spec.instance_group
        kept = any(vars(type(one)).get("caps_group_members") for one in self.filters_for(spec))
        if group is None or group.policy != ANTI_AFFINITY or not kept:
            return most
        # An instance may stay on the host that it is on already.
        own = frozenset(spec.instance_uuids)
        apart = group.rules.get(MOST_PER_HOST, 1)
        return min(most, sum(apart + len(own & host.instances.keys()) for host in hosts))

    def each_refusal(self, host: HostState, spec: RequestSpec) -> Iterator[FilterReport]:
        """Yield each stage that refuses one host, evaluated alone, also after the first refusal.

        The first instance is asked for. Raises :class:`PluginFailed` where a filter raises.
        """
        closed = self.closed_cells([host], spec)
        return filtering.each_refusal(host, spec, self.filters_for(spec), closed)

    def every_refusal(
        self, hosts: Sequence[HostState], spec: RequestSpec
    ) -> list[list[tuple[str, Refusal]]]:
        """Return for each host the stages that refuse it, each with its refusal.

        The same as :meth:`each_refusal` yields of one after the other, in less time.
        """
        closed = self.closed_cells(hosts, spec)
        return filtering.every_refusal(hosts, spec, self.filters_for(spec), closed)

    def stage_names(self, spec: RequestSpec) -> list[str]:
        """Return the names of the stages by which single hosts are refused, in their order."""
        return filtering.stage_names(spec, self.filters_for(spec))

    def filters_for(self, spec: RequestSpec) -> Sequence[BaseHostFilter]:
        """Return the filters that run for this request."""
        return (
            () if filtering.is_forced(spec) else self.plugins.driver.filters(self.plugins.filters)
        )

    def passing(self, hosts: Sequence[HostState], spec: RequestSpec) -> filtering.FilterRun:
        """Return the hosts that pass for the first instance: by name, then by filter."""
        closed = self.closed_cells(hosts, spec)
        named, by_name = filtering.filter_by_name(hosts, spec, closed)
        with timed(self.seconds, "filters"):
            filtered = filtering.run_filters(self.filters_for(spec), named, spec)
        return replace(filtered, reports=(*by_name, *filtered.reports))

    def _look(
        self, hosts: list[HostState], spec: RequestSpec, progress: PlacedSoFar, index: int
    ) -> tuple[Look, list[HostState]]:
        """Return how the hosts look to the instance of this index, and those the next may ask."""
        named = progress.with_room(hosts)
        if index:
            reports = _report_of_room(hosts, named)
            with timed(self.seconds, "filters"):
                filtered = self._still_passing(named, spec, progress, index)
        else:
            reports = []
            filtered = self.passing(named, spec)
        # Once more: a filter may have dropped the candidate there was room for.
        standing = progress.with_room(filtered.hosts)
        with timed(self.seconds, "weighers"):
            weighed = progress.weighing.weigh(standing, spec)
        ordered = self.plugins.driver.ordered(weighed.hosts, progress.chosen, self.random)
        return Look((*reports, *filtered.reports), weighed, ordered), standing

    def _still_passing(
        self, hosts: list[HostState], spec: RequestSpec, progress: PlacedSoFar, index: int
    ) -> filtering.FilterRun:
        """Return the hosts that pass for a later instance, all of which passed for the last.

        Those where none went since are as they were, and filters are not asked of them again.
        """
        filters = self.filters_for(spec)
        changed = hosts if progress.asks_again else progress.changed_among(hosts)
        others = len(hosts) - len(changed)
        run = filtering.run_filters(filters, changed, spec, index, besides=others)
        progress.headroom.look_again(run.hosts)
        if not others:
            return run
        passed = with_candidates(run.hosts) if progress.headroom.is_kept else run.hosts
        gone = {id(host) for host in changed} - {id(host) for host in passed}
        left = [host for host in hosts if id(host) not in gone] if gone else hosts
        return replace(run, hosts=left)

    def _alternates(self, progress: PlacedSoFar, look: Look) -> list[list[WeighedHost]]:
        """Return other hosts for each instance: of the same cell, chosen for none (as in nova).

        ``look`` is how they looked to the last instance. As in nova again, they are looked at again
        only where there are several, and then as for the last.
        """
        chosen = progress.chosen
        if not self.alternates:
            return [[] for _ in chosen]
        if len(chosen) > 1:
            look, _ = self._look(progress.hosts, progress.spec, progress, len(chosen) - 1)
        taken = {id(host.obj) for host in chosen}
        free = [host for host in look.ordered if id(host.obj) not in taken]
        return [
            [host for host in free if host.obj.cell_uuid == best.obj.cell_uuid][: self.alternates]
            for best in chosen
        ]

    def _selection(self, weighed: WeighedHost) -> Selection:
        host = weighed.obj
        named = {each.availability_zone for each in host.aggregates if each.availability_zone}
        zone = min(named, default=self.settings.DEFAULT.default_availability_zone)
        return Selection(
            service_host=host.host,
            nodename=host.nodename,
            compute_node_uuid=host.uuid or "",
            cell_uuid=host.cell_uuid,
            availability_zone=zone,
            weight=weighed.weight,
            allocation_request=next(iter(host.allocation_candidates), None),
            limits=dict(host.limits),
        )


def _report_of_room(
    hosts: Sequence[HostState], with_room: Sequence[HostState]
) -> list[FilterReport]:
    """Return a report as of a filter, where some hosts have no room for one more instance."""
    if len(with_room) == len(hosts):
        return []
    kept = {id(host) for host in with_room}
    without = [host for host in hosts if id(host) not in kept]
    return [_report_without(without, len(hosts), USED_UP, _USED_UP)]


def _report_without(
    without: Sequence[HostState], before: int, name: str, reason: str
) -> FilterReport:
    rejected = tuple(Rejected(host.host, host.nodename, reason) for host in without)
    return FilterReport(name=name, before=before, after=before - len(without), rejected=rejected)


@dataclass(frozen=True, slots=True)
class Run:
    """How one request went, stage by stage; stages that were not reached are empty.

    ``seed`` is what its random choices are made from.
    """

    request: SchedulingRequest
    seed: DecisionSeed
    cloud: CloudView
    chooser: Chooser
    narrowed: RequestFilterRun
    searches: Searches
    hosts: tuple[HostState, ...] = ()
    choice: Choice | None = None

    def next_best(self, most: int) -> list[NextBest]:
        """Return how it may go where others took what was chosen, as :meth:`Chooser.next_best`."""
        return self.chooser.next_best(self.choice, most) if self.choice else []

    def instead(self, other: NextBest) -> "Run":
        """Return the run with the next best in place of what was chosen."""
        if self.choice is None:
            raise AssertionError("there is no other choice where nothing was chosen")
        return replace(self, choice=self.chooser.instead(self.choice, other))

    @property
    def unreported(self) -> list[str]:
        """Return the root providers with candidates that are not known compute nodes."""
        if self.choice is None:
            return []
        known = {host.uuid for host in self.hosts}
        return [root for root in self.searches.roots if root not in known]

    @property
    def selections(self) -> tuple[tuple[Selection, ...], ...]:
        """Return the hosts chosen for each instance, the best first; empty where one has none."""
        return self.choice.selections if self.choice else ()
