"""From host states to chosen hosts: filter, weigh, take the best, once for each instance."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from typing import Any

from placement_sched.model.aggregates import ANTI_AFFINITY, MOST_PER_HOST
from placement_sched.model.clock import timed
from placement_sched.model.decision import DecisionSeed, Selection
from placement_sched.model.explanation import USED_UP, FilterReport, HostReport, Rejected
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler import filtering
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.headroom import Headroom, PlacedSoFar
from placement_sched.scheduler.host_state import HostState, with_candidates
from placement_sched.scheduler.hosts.cells import ClosedAmong, none_closed
from placement_sched.scheduler.hosts.states import CloudView
from placement_sched.scheduler.loading import Plugins
from placement_sched.scheduler.narrowing import RequestFilterRun
from placement_sched.scheduler.question import Searches
from placement_sched.scheduler.requests.reading import SchedulingRequest
from placement_sched.scheduler.weighing import Weighing, WeighRun
from placement_sched.scheduler.weights import WeighedHost
from placement_sched.settings import Settings

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
