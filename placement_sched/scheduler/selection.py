# SPDX-License-Identifier: Apache-2.0
"""Host selection: filters, weighers, and the best host of each instance.

A request for several instances places them in turn. :class:`RemainingCapacity` tracks the capacity
that remains in the inventories which the earlier instances use.
"""

import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from random import Random
from typing import Self

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.explain.values import FilterReport, HostReport, Rejected
from placement_sched.model.aggregates import ANTI_AFFINITY, MAX_SERVER_PER_HOST
from placement_sched.model.candidates_query import (
    AllocationRequest,
    Candidates,
    InventoryName,
    find_lacking_class,
    iterate_amounts,
)
from placement_sched.model.clock import measure
from placement_sched.model.decision import DecisionSeed, Selection
from placement_sched.model.grouping import group_rows
from placement_sched.model.rejection import USED_UP, Rejection
from placement_sched.model.request_spec import REBUILD_HINT, RequestSpec
from placement_sched.scheduler import filtering
from placement_sched.scheduler.filtering import RequestFilterRun
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.host_manager import CellStates, RequestView, UnclaimedInstance
from placement_sched.scheduler.host_state import (
    HostState,
    get_candidates,
    set_candidates,
    with_candidates,
    with_device_providers,
)
from placement_sched.scheduler.plugins import Plugins
from placement_sched.scheduler.request import SchedulingRequest
from placement_sched.scheduler.resource_request import CandidateResults
from placement_sched.scheduler.weights import IncrementalWeighing, WeighedHost, WeighRun
from placement_sched.store.placement import capacity, resource_classes

#: Minimum product of the numbers of instances and hosts. From this product on, an upper bound of
#: the instances that fit is computed before all instances are placed.
_MIN_PAIRS = 10_000


class RemainingCapacity:
    """The remaining capacity of inventories while instances are placed.

    Without a ``connection``, for a single instance or a rebuild, nothing is tracked.
    """

    def __init__(self, connection: Connection | None, candidates: Candidates) -> None:
        self._connection = connection
        self._candidates = candidates
        self._free: dict[InventoryName, int] = {}
        self._consumed: set[InventoryName] = set()
        # The root providers of hosts that have a candidate on a consumed provider.
        self._affected: set[str] = set()
        # The root providers of the hosts that have a candidate on each provider.
        self._roots: dict[str, list[str]] = defaultdict(list)
        # The affected roots whose first candidate may no longer fit.
        self._unchecked: set[str | None] = set()
        # The resource class that all candidates of a node lack, or "", by the uuid of the node.
        self._used_up: dict[str | None, str] = {}

    @classmethod
    def from_candidates(
        cls,
        connection: Connection,
        spec: RequestSpec,
        candidates: Candidates,
        earlier: Iterable[Selection] = (),
    ) -> Self:
        """Create the remaining capacity of candidates, less earlier selections."""
        selections = tuple(earlier)
        if spec.is_rebuild or (spec.num_instances == 1 and not selections):
            return cls.create_unlimited()
        capacity = cls(connection, candidates)
        capacity.take_selections(selections)
        return capacity

    @classmethod
    def create_unlimited(cls) -> Self:
        """Create a capacity that rejects no candidate."""
        return cls(None, Candidates())

    @property
    def is_tracked(self) -> bool:
        """Return whether capacity is tracked."""
        return self._connection is not None

    def find_changed_candidates(
        self, hosts: Mapping[str | None, Sequence[HostState]]
    ) -> list[tuple[HostState, Sequence[AllocationRequest]]]:
        """Return hosts whose candidates change, each with its new candidates.

        ``hosts`` is by node uuid. The first candidate that fits moves to the front, so that a
        second instance gets the second of two equal devices. The candidates are empty if none fits.
        """
        affected = [host for uuid in self._unchecked for host in hosts.get(uuid, ())]
        return [(host, new) for host in affected if (new := self._reorder(host)) is not None]

    def mark_unchecked(self, hosts: Iterable[HostState]) -> None:
        """Mark hosts to check after filters, which may change candidates."""
        if self._affected:
            self._unchecked.update([host.uuid for host in hosts if host.uuid in self._affected])

    def _reorder(self, host: HostState) -> Sequence[AllocationRequest] | None:
        """Return reordered candidates, () if none fits, None if the first fits."""
        candidates = get_candidates(host)

        def fits(candidate: AllocationRequest) -> bool:
            return all(
                inventory not in self._consumed or self._free[inventory] >= amount
                for inventory, amount in iterate_amounts(candidate)
            )

        index = next((index for index, each in enumerate(candidates) if fits(each)), None)
        if index is None:
            self._used_up[host.uuid] = find_lacking_class(candidates, self._free, self._consumed)
            return ()
        if index:
            return [candidates[index], *candidates[:index], *candidates[index + 1 :]]
        self._unchecked.discard(host.uuid)
        return None

    def find_rejection(self, host: HostState) -> Rejection:
        """Return the rejection of a host without candidates that fit."""
        name = self._used_up.get(host.uuid)
        return Rejection(kind="used_up", values={"resource_class": name} if name else {})

    def compute_upper_bound(self, hosts: Sequence[HostState]) -> tuple[int, str]:
        """Return an upper bound of the instances that fit on these hosts.

        The second value is the resource class that limits most hosts. Fewer instances than the
        bound may still not fit. Executes two SQL statements.
        """
        if self._connection is None:
            raise AssertionError("internal error: compute_upper_bound() without a tracked capacity")
        self._read(self._connection, hosts)
        bounds = list(map(self._compute_max_instances, hosts))
        ((limiting_class, _),) = Counter(name for _, name in bounds).most_common(1)
        return sum(number for number, _ in bounds), limiting_class

    def _compute_max_instances(self, host: HostState) -> tuple[int, str]:
        """Return an upper bound of a host's instances, and the limiting class.

        Classes that only some candidates use are ignored, such as PCPU for VCPU.
        """
        inventories: dict[str, set[InventoryName]] = defaultdict(set)
        amounts_by_class: dict[str, list[int]] = defaultdict(list)
        candidates = get_candidates(host)
        for candidate in candidates:
            amounts: dict[str, int] = defaultdict(int)
            for inventory, amount in iterate_amounts(candidate):
                inventories[inventory[1]].add(inventory)
                amounts[inventory[1]] += amount
            for name, amount in amounts.items():
                amounts_by_class[name].append(amount)
        bounds = []
        for name, class_amounts in amounts_by_class.items():
            if len(class_amounts) == len(candidates) and min(class_amounts):
                free = sum(max(self._free[inventory], 0) for inventory in inventories[name])
                bounds.append((free // min(class_amounts), name))
        return min(bounds, default=(sys.maxsize, ""))

    def take(self, host: HostState, next_best: Iterable[HostState] = ()) -> None:
        """Consume the first candidate of a host for an instance.

        ``next_best`` are likely hosts of the next instances. Their capacity is read in the same SQL
        statements, so that the number of statements does not grow with the number of instances.
        """
        if self._connection is None:
            return
        amounts = dict(iterate_amounts(get_candidates(host)[0]))
        if not amounts.keys() <= self._free.keys():
            self._read(self._connection, (host, *next_best))
        self._consume(amounts)

    def take_selections(self, selections: Sequence[Selection]) -> None:
        """Consume the amounts of selections on providers of the candidates."""
        if self._connection is None or not selections:
            return
        providers = {provider.uuid for provider in self._candidates.providers}
        amounts: dict[InventoryName, int] = defaultdict(int)
        for selection in selections:
            for inventory, amount in iterate_amounts(selection.allocation_request):
                if inventory[0] in providers:
                    amounts[inventory] += amount
        self._read_inventories(self._connection, amounts.keys())
        self._consume(amounts)

    def _consume(self, amounts: Mapping[InventoryName, int]) -> None:
        for inventory, amount in amounts.items():
            self._free[inventory] -= amount
        self._consumed.update(amounts)
        if not self._roots:
            for request in self._candidates.requests:
                for uuid in request.uuids:
                    self._roots[uuid].append(request.root_uuid)
        for uuid in {uuid for uuid, _ in amounts}:
            self._affected.update(self._roots[uuid])
            self._unchecked.update(self._roots[uuid])

    def _read(self, connection: Connection, hosts: Iterable[HostState]) -> None:
        """Read the free amounts for candidates of hosts, in two SQL statements."""
        candidates = (candidate for host in hosts for candidate in get_candidates(host))
        used = {name for candidate in candidates for name, _ in iterate_amounts(candidate)}
        self._read_inventories(connection, used - self._free.keys())

    def _read_inventories(self, connection: Connection, names: Collection[InventoryName]) -> None:
        ids = {provider.uuid: provider.id for provider in self._candidates.providers}
        classes = {name: key for key, name in resource_classes.map_names_by_id(connection).items()}
        keys = {name: (ids.get(name[0], 0), classes[name[1]]) for name in names}
        capacities = capacity.read(connection, keys.values())
        for name, key in keys.items():
            entry = capacities.get(key)
            self._free[name] = entry.inventory.capacity - entry.used if entry else 0


@dataclass(slots=True)
class PlacementProgress:
    """The progress of a request while its instances are placed in turn.

    ``spec`` has the placed instances in its server group, and ``chosen`` are their hosts. If
    ``reruns_filters``, filters run on all ``hosts`` for each instance, else on hosts in
    ``changed_host_names``. If ``keeps_rejected``, a rejected host stays in ``hosts``, as it may
    pass later. ``previous_hosts`` had instances of the request before the first placement.
    """

    capacity: RemainingCapacity
    weighing: IncrementalWeighing
    hosts: list[HostState]
    spec: RequestSpec
    reruns_filters: bool = True
    keeps_rejected: bool = False
    chosen: list[WeighedHost] = field(default_factory=list)
    changed_host_names: set[str] = field(default_factory=set)
    previous_hosts: list[HostState] | None = None
    # The list of hosts that was indexed last, and indexes of it, so that changed hosts are found
    # without a scan of all hosts.
    _indexed_hosts: list[HostState] | None = None
    _by_uuid: dict[str | None, list[HostState]] = field(default_factory=dict)
    _positions: dict[str, list[int]] = field(default_factory=dict)

    def record_placement(self, host: HostState) -> None:
        """Record that an instance is placed on a host.

        Hosts that had instances of the request also change, because they join the group.
        """
        if self.previous_hosts is None:
            group = self.spec.instance_group
            uuids = frozenset(self.spec.instance_uuids if group else ())
            self.previous_hosts = [
                each for each in self.hosts if uuids and not uuids.isdisjoint(each.instances)
            ]
        for changed_host in (host, *self.previous_hosts):
            self.weighing.record_change(changed_host)
            self.changed_host_names.add(changed_host.host)

    def with_capacity(self, hosts: list[HostState]) -> list[HostState]:
        """Update candidates, and return the hosts with any, or the same list."""
        if not self.capacity.is_tracked:
            return hosts
        if hosts is not self._indexed_hosts:
            hosts = self._index_hosts(with_candidates(hosts))
        changed = self.capacity.find_changed_candidates(self._by_uuid)
        for host, candidates in changed:
            set_candidates(host, candidates)
            self.changed_host_names.add(host.host)
        if all(candidates for _, candidates in changed):
            return hosts
        return self._index_hosts(with_candidates(hosts))

    def take_changed_hosts(self, hosts: list[HostState]) -> list[HostState]:
        """Return the hosts with names in ``changed_host_names``, and clear it."""
        if hosts is not self._indexed_hosts:
            self._index_hosts(hosts)
        positions = sorted(
            position
            for name in self.changed_host_names
            for position in self._positions.get(name, ())
        )
        self.changed_host_names.clear()
        return [hosts[position] for position in positions]

    def _index_hosts(self, hosts: list[HostState]) -> list[HostState]:
        self._indexed_hosts = hosts
        self._by_uuid = group_rows((host.uuid, host) for host in hosts)
        self._positions = group_rows((host.host, position) for position, host in enumerate(hosts))
        return hosts


@dataclass(frozen=True, slots=True)
class FilterWeighResult:
    """Reports of filters and weighers, and the passing hosts, best first."""

    filters: tuple[FilterReport, ...]
    weighed: WeighRun
    ordered: tuple[WeighedHost, ...]

    def build_host_reports(self) -> tuple[HostReport, ...]:
        """Build a report on each passing host, in order, with its weights."""
        pairs = zip(self.weighed.hosts, self.weighed.build_host_reports(), strict=True)
        reports = {id(host.obj): report for host, report in pairs}
        return tuple([reports[id(host.obj)] for host in self.ordered])


@dataclass(frozen=True, slots=True)
class SelectionResult:
    """The selections for all instances, or none if any instance has no host.

    ``first`` is the result for the first instance. If a later instance has no host, ``later`` is
    its result, after ``placed_count`` instances. If the hosts cannot have the capacity for all
    instances, ``max_fitting`` is an upper bound of the instances that fit, and ``limiting_class``
    the resource class that limits it, if any.
    """

    selections: tuple[tuple[Selection, ...], ...]
    first: FilterWeighResult
    placed_count: int = 0
    later: FilterWeighResult | None = None
    max_fitting: int | None = None
    limiting_class: str = ""


@dataclass(frozen=True, slots=True)
class Fallback:
    """Another placement of a request, on the host at a position."""

    position: int
    allocation_request: AllocationRequest


@dataclass(frozen=True, slots=True)
class HostSelector:
    """Selector of hosts, with the plugins and settings of a request.

    ``alternates`` is the number of further hosts for each instance. ``check`` raises an error after
    a deadline. The durations of filters and weighers are added to ``seconds``.
    """

    plugins: Plugins
    settings: Settings
    random: Random
    closed_cells: CellStates
    alternates: int = 0
    check: Callable[[], None] = lambda: None
    seconds: dict[str, float] = field(default_factory=dict)

    def choose(
        self,
        hosts: Sequence[HostState],
        spec: RequestSpec,
        remaining_capacity: RemainingCapacity,
        watch: Callable[[FilterWeighResult], None] | None = None,
    ) -> SelectionResult:
        """Choose a host for every instance of the request.

        ``watch`` is called with each result before the instance is placed, which changes the host
        state and the server group in memory. If any instance has no host, there are no selections.
        """
        uuids = spec.instance_uuids
        progress = self.begin(hosts, spec, remaining_capacity)
        selections: list[Selection] = []
        first: FilterWeighResult | None = None
        for result in self.iterate_instances(uuids, progress, len(uuids)):
            if watch is not None:
                watch(result)
            if first is None:
                first = result
                bound, limiting_class = self._compute_capacity_bound(result, spec, progress)
                if bound < len(uuids):
                    return SelectionResult((), first, 0, None, bound, limiting_class)
            if not result.ordered:
                placed_count = len(selections)
                return SelectionResult((), first, placed_count, result if placed_count else None)
            # Convert now: the next instance may change the first candidate of the same host.
            selections.append(self.select(result.ordered[0]))
        if first is None:  # a request is for one instance at least
            raise AssertionError("no instance was requested")
        alternates = self._select_alternates(progress, result)
        pairs = zip(selections, alternates, strict=True)
        return SelectionResult(
            tuple((best, *map(self.select, hosts)) for best, hosts in pairs), first
        )

    def begin(
        self, hosts: Sequence[HostState], spec: RequestSpec, remaining_capacity: RemainingCapacity
    ) -> PlacementProgress:
        """Create the progress of a request before its first instance is placed."""
        weighers = self.plugins.driver.weighers(self.plugins.weighers)
        filters, group = self.select_filters(spec), spec.instance_group
        policies = group.policies if group else ()
        # Unchanged hosts pass again, except if the filter is from a third party, or if a filter of
        # the group's policy does more than limit the members per host.
        is_shipped = {type(plugin) for plugin in filters} <= {*all_filters()}
        reruns = not is_shipped or not all(
            vars(type(plugin)).get("caps_group_members")
            for plugin in filters
            if plugin.server_group_policy in policies
        )
        keeps = self.compares_hosts(spec)
        return PlacementProgress(
            remaining_capacity, IncrementalWeighing(weighers), list(hosts), spec, reruns, keeps
        )

    def compares_hosts(self, spec: RequestSpec) -> bool:
        """Return whether a rejected host may pass for a later instance."""
        return any(plugin.compares_hosts(spec) for plugin in self.select_filters(spec))

    def iterate_instances(
        self, uuids: Iterable[str | None], progress: PlacementProgress, number: int
    ) -> Iterator[FilterWeighResult]:
        """Yield the result of each instance, up to an instance without a host.

        Each instance is placed on its best host before the next instance is evaluated. ``number``
        is the number of instances that the caller places at most.
        """
        chosen, remaining_capacity = progress.chosen, progress.capacity
        for uuid in uuids:
            self.check()
            current = progress.spec.with_instance(uuid)
            result, progress.hosts = self._evaluate(progress.hosts, current, progress, len(chosen))
            yield result
            if not result.ordered:
                return
            best = result.ordered[0]
            chosen.append(best)
            remaining = number - len(chosen)
            remaining_capacity.take(
                best.obj, (host.obj for host in islice(result.ordered, 1, 1 + remaining))
            )
            if number > 1:
                progress.record_placement(best.obj)
            best.obj.consume_from_request(current)
            progress.spec = current.with_group_member_on(best.obj.host)

    def _compute_capacity_bound(
        self, result: FilterWeighResult, spec: RequestSpec, progress: PlacementProgress
    ) -> tuple[int, str]:
        """Return an upper bound of the instances that fit, and its class.

        On many hosts, the bound avoids placing instances until no host remains. On few hosts they
        are placed, because the reports then show which stage rejected the last hosts.
        """
        hosts, number = [weighed.obj for weighed in result.ordered], spec.num_instances
        if (
            number * len(hosts) < _MIN_PAIRS
            or number <= len(hosts)
            or not progress.capacity.is_tracked
            or progress.keeps_rejected
        ):
            return sys.maxsize, ""
        bound, group = progress.capacity.compute_upper_bound(hosts), spec.instance_group
        filters = self.select_filters(spec)
        capped = any(vars(type(plugin)).get("caps_group_members") for plugin in filters)
        if group is None or group.policy != ANTI_AFFINITY or not capped:
            return bound
        # An instance may stay on its current host.
        instance_uuids = frozenset(spec.instance_uuids)
        max_per_host = group.rules.get(MAX_SERVER_PER_HOST, 1)
        members = sum(max_per_host + len(instance_uuids & host.instances.keys()) for host in hosts)
        return bound if bound[0] <= members else (members, "")

    def iterate_rejections(self, host: HostState, spec: RequestSpec) -> Iterator[FilterReport]:
        """Yield a report for each stage that rejects a host.

        Later stages are also evaluated after a rejection. Raises :class:`PluginFailed` if a filter
        raises an error.
        """
        closed_cells = self.closed_cells.map_rejections([host], spec, self.settings)
        return filtering.iterate_rejections(host, spec, self.select_filters(spec), closed_cells)

    def list_rejections(
        self, hosts: Sequence[HostState], spec: RequestSpec
    ) -> list[list[tuple[str, Rejection]]]:
        """List for each host all stages that reject it, with their rejections.

        For many hosts, this is faster than :meth:`iterate_rejections` for each host. The rejections
        are the same.
        """
        closed_cells = self.closed_cells.map_rejections(hosts, spec, self.settings)
        return filtering.list_rejections(hosts, spec, self.select_filters(spec), closed_cells)

    def list_stage_names(self, spec: RequestSpec) -> list[str]:
        """Return the names of the stages that can reject a host, in their order."""
        return filtering.list_stage_names(spec, self.select_filters(spec))

    def select_filters(self, spec: RequestSpec) -> Sequence[BaseHostFilter]:
        """Return the filters that run for a request, none for forced hosts."""
        # As in nova, they run with the hint of a rebuild or of a live migration to a host.
        is_forced = (spec.force_hosts or spec.force_nodes) and not spec.get_scheduler_hint(
            REBUILD_HINT
        )
        return () if is_forced else self.plugins.driver.filters(self.plugins.filters)

    def filter_hosts(self, hosts: Sequence[HostState], spec: RequestSpec) -> filtering.FilterRun:
        """Filter hosts for the first instance: by names, then by plugins."""
        closed_cells = self.closed_cells.map_rejections(hosts, spec, self.settings)
        named_hosts, name_reports = filtering.filter_by_name(hosts, spec, closed_cells)
        with measure(self.seconds, "filters"):
            filtered = filtering.run_filters(self.select_filters(spec), named_hosts, spec)
        return replace(filtered, reports=(*name_reports, *filtered.reports))

    def _evaluate(
        self, hosts: list[HostState], spec: RequestSpec, progress: PlacementProgress, index: int
    ) -> tuple[FilterWeighResult, list[HostState]]:
        hosts_with_capacity, keeps = progress.with_capacity(hosts), progress.keeps_rejected
        reports = []
        if len(hosts_with_capacity) < len(hosts):
            ids = {id(host) for host in hosts_with_capacity}
            full = [host for host in hosts if id(host) not in ids]
            pairs = [(host, progress.capacity.find_rejection(host)) for host in full]
            reports = [_report(pairs, len(hosts), USED_UP)]
        if index and not keeps:
            with measure(self.seconds, "filters"):
                filtered = self._filter_again(hosts_with_capacity, spec, progress, index)
        else:
            filtered = self.filter_hosts(hosts_with_capacity, spec)
            progress.capacity.mark_unchecked(filtered.hosts)
        # A filter may have removed the only candidate with capacity.
        remaining = progress.with_capacity(filtered.hosts)
        weigh = progress.weighing.weigh_all if keeps else progress.weighing.weigh
        with measure(self.seconds, "weighers"):
            weighed = weigh(remaining, spec)
        ordered = self.plugins.driver.ordered(weighed.hosts, progress.chosen, self.random)
        result = FilterWeighResult((*reports, *filtered.reports), weighed, ordered)
        return result, hosts_with_capacity if keeps else remaining

    def _filter_again(
        self, hosts: list[HostState], spec: RequestSpec, progress: PlacementProgress, index: int
    ) -> filtering.FilterRun:
        """Filter hosts that passed before, or only the changed hosts."""
        filters = self.select_filters(spec)
        changed = hosts if progress.reruns_filters else progress.take_changed_hosts(hosts)
        unchanged = len(hosts) - len(changed)
        run = filtering.run_filters(filters, changed, spec, index, already_passed=unchanged)
        progress.capacity.mark_unchecked(run.hosts)
        if not unchanged:
            return run
        passed = with_candidates(run.hosts) if progress.capacity.is_tracked else run.hosts
        rejected = {id(host) for host in changed} - {id(host) for host in passed}
        remaining = [host for host in hosts if id(host) not in rejected] if rejected else hosts
        return replace(run, hosts=remaining)

    def _select_alternates(
        self, progress: PlacementProgress, result: FilterWeighResult
    ) -> list[list[WeighedHost]]:
        """Return the alternates of each instance: other hosts in its cell.

        ``result`` is the result of the last instance. As in nova, the hosts of several instances
        are evaluated again after all are placed.
        """
        chosen = progress.chosen
        if not self.alternates:
            return [[] for _ in chosen]
        if len(chosen) > 1:
            result, _ = self._evaluate(progress.hosts, progress.spec, progress, len(chosen) - 1)
        chosen_ids = {id(host.obj) for host in chosen}
        free = [host for host in result.ordered if id(host.obj) not in chosen_ids]
        return [
            [host for host in free if host.obj.cell_uuid == best.obj.cell_uuid][: self.alternates]
            for best in chosen
        ]

    def select(self, weighed: WeighedHost) -> Selection:
        """Return the selection of a host, with its first candidate."""
        host = weighed.obj
        zones = {each.availability_zone for each in host.aggregates if each.availability_zone}
        zone = min(zones, default=self.settings.DEFAULT.default_availability_zone)
        return Selection(
            service_host=host.host,
            nodename=host.nodename,
            compute_node_uuid=host.uuid or "",
            cell_uuid=host.cell_uuid,
            availability_zone=zone,
            weight=weighed.weight,
            allocation_request=next(iter(get_candidates(host)), None),
            limits=dict(host.limits),
        )


def _report(pairs: Sequence[tuple[HostState, Rejection]], total: int, name: str) -> FilterReport:
    rejected = tuple(Rejected(host.host, host.nodename, reason) for host, reason in pairs)
    return FilterReport(name=name, before=total, after=total - len(pairs), rejected=rejected)


@dataclass(frozen=True, slots=True)
class SchedulingRun:
    """A run of a request, with the results of the stages that it has reached."""

    request: SchedulingRequest
    seed: DecisionSeed
    view: RequestView
    selector: HostSelector
    filtered_request: RequestFilterRun
    searches: CandidateResults
    hosts: tuple[HostState, ...] = ()
    choice: SelectionResult | None = None

    def find_fallback(self, limit: int) -> list[Fallback]:
        """Return at most ``limit`` other placements, for a conflict at the claim.

        Best hosts come first. Several instances have none, as each has its own order of hosts.
        """
        if self.choice is None or len(self.choice.selections) != 1:
            return []
        placements = (
            Fallback(position, candidate)
            for position, host in enumerate(self.choice.first.ordered)
            for candidate in get_candidates(host.obj)
        )
        return list(islice(placements, 1, 1 + limit))

    def use_fallback(self, fallback: Fallback) -> "SchedulingRun":
        """Return the run with another placement as its choice.

        Better hosts than the host of this placement are reported as hosts without capacity.
        """
        if self.choice is None:
            raise AssertionError("use_fallback() was called for a run that selected no hosts")
        result, position, selector = self.choice.first, fallback.position, self.selector
        best, *remaining = result.ordered[position:]
        same_cell = [host for host in remaining if host.obj.cell_uuid == best.obj.cell_uuid]
        selection = replace(selector.select(best), allocation_request=fallback.allocation_request)
        if position:
            claimed = Rejection(kind="claimed")
            pairs = [(host.obj, claimed) for host in result.ordered[:position]]
            report = _report(pairs, len(result.ordered), "room_at_claim")
            result = replace(result, filters=(*result.filters, report))
        alternates = map(selector.select, same_cell[: selector.alternates])
        choice = replace(self.choice, selections=((selection, *alternates),), first=result)
        return replace(self, choice=choice)

    def map_unexamined(self) -> dict[tuple[str, str], list[str]]:
        """Map host and node to the unknown fields that filters read."""
        results = (self.choice.first, self.choice.later) if self.choice else ()
        reports = [report for result in results if result for report in result.filters]
        return group_rows(
            ((each.host, each.node), each.field) for report in reports for each in report.unexamined
        )

    def list_placed_instances(self) -> list[UnclaimedInstance]:
        """Return the instances of the request with their selections."""
        spec = self.request.spec
        return [
            UnclaimedInstance(
                with_device_providers(spec.with_instance(uuid), best.allocation_request), best
            )
            for uuid, (best, *_) in zip(spec.instance_uuids, self.selections, strict=True)
        ]

    @property
    def roots_without_node(self) -> list[str]:
        """Return root providers with candidates that are not compute nodes."""
        if self.choice is None:
            return []
        node_uuids = {host.uuid for host in self.hosts}
        return [root for root in self.searches.roots if root not in node_uuids]

    @property
    def selections(self) -> tuple[tuple[Selection, ...], ...]:
        """Return the selected host and alternates of each instance, or ()."""
        return self.choice.selections if self.choice else ()
