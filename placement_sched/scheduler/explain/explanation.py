# SPDX-License-Identifier: Apache-2.0
"""Explanation of a run, with verdicts on the named hosts, if any."""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache

from placement_sched.candidates.request import Search
from placement_sched.db.transaction import Connection
from placement_sched.errors import PluginFailed
from placement_sched.explain.advice import build_change
from placement_sched.explain.host_verdict import HostVerdict
from placement_sched.explain.near_misses import (
    find_nearest_amounts,
    remove_constraints,
    with_amount,
)
from placement_sched.explain.phrases import (
    build_reason,
    describe_other_amount,
    describe_reserved,
    describe_would_fit,
    format_clause,
    format_label,
)
from placement_sched.explain.report import SearchRun, list_near_misses
from placement_sched.explain.stages import Stage, list_stages
from placement_sched.explain.values import (
    EVERYTHING,
    ExplanationView,
    FitSuggestion,
    Funnel,
    NearMiss,
    NearMisses,
    build_hosts_json,
    constraint_as_json,
    select_fewest_changes,
)
from placement_sched.limits import MAX_NEAR_MISS_HOSTS, MAX_NEAR_MISSES
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from placement_sched.model.constraint import REQUIRED, Constraint
from placement_sched.model.decision import NO_VALID_HOST, SELECTED
from placement_sched.model.document import Json
from placement_sched.model.grouping import group_rows
from placement_sched.model.image import ImageProperties
from placement_sched.model.rejection import (
    CANDIDATES,
    COMPUTE_NODES,
    FILTERS,
    REQUEST_FILTERS,
    Rejection,
)
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.explain.funnel import (
    build_fresh_states,
    build_funnel,
    find_tree_candidates,
    get_first_spec,
    search_run,
)
from placement_sched.scheduler.explain.verdicts import (
    CloudNames,
    build_verdicts,
    iterate_searches,
    map_reported_trees,
)
from placement_sched.scheduler.filtering import run_request_filters
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import tolerate_failures
from placement_sched.scheduler.selection import SchedulingRun

#: Fields of flavors by resource class.
_FLAVOR_FIELDS = {"MEMORY_MB": "memory_mb", "VCPU": "vcpus", "PCPU": "vcpus", "DISK_GB": "root_gb"}

#: A host, and the stages that reject it, by name.
_RejectedState = tuple[HostState, Sequence[tuple[str, Rejection]]]
#: Hosts by the stages that reject them, with the hosts that pass under (). A stage is a pair of its
#: name and its clause for several hosts.
_HostsByRejection = Mapping[tuple[tuple[str, str], ...], Sequence[_RejectedState]]


def find_fitting_changes(
    connection: Connection, run: SchedulingRun, near_misses: NearMisses
) -> tuple[FitSuggestion, ...]:
    """Find the smallest changes after which the first instance fits."""
    if run.choice is None or run.choice.first.ordered or run.searches.main is None:
        return ()
    search_result = run.searches.main
    results = list(_evaluate_filters(run, (), _group_by_rejection(run, list(map(copy, run.hosts)))))
    misses = near_misses.misses
    searched = search_run(connection, run, search_result)
    if run.searches.candidates.requests:
        misses = list_near_misses(searched).misses
    evaluation = _NearMissEvaluation(run, searched)
    for miss in misses[:MAX_NEAR_MISSES]:
        results += evaluation.evaluate_miss(miss)
    return select_fewest_changes(results)


def _group_by_rejection(
    run: SchedulingRun, states: Sequence[HostState], spec: RequestSpec | None = None
) -> _HostsByRejection:
    """Group hosts by the stages after the search that reject them.

    The stages are evaluated for the first instance, with ``spec`` or else the run's request.
    The filters change the states. Returns no groups if a filter raises an error, as it may for a
    host that the run did not reach.
    """
    try:
        with tolerate_failures():
            rejections = run.selector.list_rejections(states, spec or get_first_spec(run))
    except PluginFailed:
        return {}
    pairs = zip(states, rejections, strict=True)
    return group_rows(
        (
            tuple(
                (name, format_clause(name, each.as_json(), several=True)) for name, each in reasons
            ),
            (state, reasons),
        )
        for state, reasons in pairs
    )


def _list_passing_hosts(rejecting: _HostsByRejection) -> list[HostState]:
    return [state for state, _ in rejecting.get((), ())]


def _list_dropped(constraints: Sequence[Constraint]) -> tuple[tuple[str, Json], ...]:
    """Return the constraints as stages that a suggestion leaves out."""
    keys = map(constraint_as_json, constraints)
    return tuple((CANDIDATES, {"name": format_label(each), **each}) for each in keys)


def _evaluate_filters(
    run: SchedulingRun,
    constraints: Sequence[Constraint],
    rejecting: _HostsByRejection,
    *,
    exact: bool = True,
) -> Iterator[FitSuggestion]:
    aggregate_names = CloudNames.read_names(run, ()).names
    keys = [each.as_json() for each in constraints]
    for stages, rejected in rejecting.items():
        if not stages:
            continue
        (state, reasons), change = rejected[0], None
        if len(rejected) == 1 and not constraints and len(stages) == 1:
            original = next(each for each in run.hosts if each.uuid == state.uuid)
            reports = run.selector.iterate_rejections(copy(original), get_first_spec(run))
            changes = (each for report in reports for each in report.rejected[0].changes)
            change = next(changes, None)
        several = len(rejected) > 1 or not exact
        filters = [
            (FILTERS, {"name": name, **each.as_json()} | {"name": name}) for name, each in reasons
        ]
        clauses = [(name, build_reason(each)) for name, each in reasons]
        yield FitSuggestion(
            without=(*_list_dropped(constraints), *filters),
            hosts=tuple(state.host for state, _ in rejected),
            clause=describe_would_fit(keys, clauses, aggregate_names, several=several),
            change=change,
            exact=exact,
        )


@dataclass(slots=True)
class _NearMissEvaluation:
    """Evaluation of a search's near misses, on at most ``remaining`` hosts."""

    run: SchedulingRun
    searched: SearchRun
    remaining: int = MAX_NEAR_MISS_HOSTS

    @property
    def search(self) -> Search:
        return self.searched.search

    def evaluate_miss(self, miss: NearMiss) -> Iterator[FitSuggestion]:
        stages = {each.constraint: each for each in list_stages(self.search)}
        stage = stages.get(miss.constraints[0])
        if len(miss.constraints) == 1 and stage and stage.constraint.resource_class:
            run = self.searched
            nearest = find_nearest_amounts(
                run.source, run.search, run.roots_with_candidates, stage, self.remaining
            )
            results = list(self._with_amount(stage, nearest))
            yield from results
            if results:  # one change is enough
                self.remaining -= len(nearest)
                return
        roots = miss.roots[: self.remaining]
        self.remaining -= len(roots)
        query = self._build_query_without(miss.constraints)
        if not roots or not query.groups:
            return
        exact = len(roots) == len(miss.roots)
        rejecting = self._evaluate(query, roots)
        yield from _evaluate_filters(self.run, miss.constraints, rejecting, exact=exact)
        if passed := _list_passing_hosts(rejecting):
            yield from self._iterate_results(miss, passed, exact=exact)

    def _build_query_without(self, dropped: Sequence[Constraint]) -> CandidatesQuery:
        """Return the query without these constraints.

        If a required trait is dropped, the request filters run again without the trait, and then
        forbid the aggregates that require it.
        """
        query, request = remove_constraints(self.search.query, dropped), self.run.request
        traits = {
            name
            for each in dropped
            if each.family == REQUIRED and not each.is_forbidden
            for name in each.names
        }
        if not traits or any(each.kind == "forbidden_aggregate" for each in dropped):
            return query
        spec = _remove_traits(request.spec, traits)
        filtered = run_request_filters(request.plugins.request_filters, spec, self.run.view)
        plain = query.group or RequestGroup()
        forbidden = frozenset(filtered.spec.destination.forbidden)
        confined = replace(plain, aggregates=replace(plain.aggregates, forbidden=forbidden))
        return replace(query, groups=(confined, *(group for group in query.groups if group.suffix)))

    def _evaluate(
        self, query: CandidatesQuery, roots: Collection[str], spec: RequestSpec | None = None
    ) -> _HostsByRejection:
        return _group_by_rejection(
            self.run,
            build_fresh_states(self.run, find_tree_candidates(self.run, query, roots)),
            spec,
        )

    def _with_amount(self, stage: Stage, nearest: Mapping[str, int]) -> Iterator[FitSuggestion]:
        """Yield the hosts that fit with the smallest change of an amount.

        ``nearest`` maps each root to the fitting amount that is nearest to the requested amount,
        the nearest first. An amount is tried on the hosts whose fitting amount is at least as near.
        In a cloud without trees, all these hosts fit the amount.
        """
        name, requested_amount = stage.constraint.resource_class, stage.constraint.amount
        values = list(dict.fromkeys(nearest.values()))

        @cache
        def find_passing_hosts(index: int) -> list[HostState]:
            query = with_amount(self.search.query, stage, values[index])
            bound = abs(requested_amount - values[index])
            near = [
                uuid for uuid, amount in nearest.items() if abs(requested_amount - amount) <= bound
            ]
            return _list_passing_hosts(
                self._evaluate(
                    query, near, self._with_larger_flavor(name, values[index] - requested_amount)
                )
            )

        if not values:
            return
        # More hosts fit the later amounts. Find the first amount that any host passes with.
        every = range(len(values))
        index = (
            0
            if find_passing_hosts(0)
            else bisect_left(every, 1, key=lambda i: len(find_passing_hosts(i)) > 0)
        )
        if index == len(values) or not (passed := find_passing_hosts(index)):
            return
        amount = values[index]
        change_values = {"resource_class": name, "amount": amount, "instead_of": requested_amount}
        change = build_change("change_request", change_values)
        yield FitSuggestion(
            without=_list_dropped([stage.constraint]),
            hosts=tuple(state.host for state in passed),
            clause=describe_other_amount(change_values),
            change=change,
            # Hosts that were not evaluated fit less, unless the last evaluated host fits the same.
            exact=len(nearest) < self.remaining or amount != values[-1],
        )

    def _with_larger_flavor(self, name: str, difference: int) -> RequestSpec:
        spec = get_first_spec(self.run)
        field = _FLAVOR_FIELDS.get(name)
        if field is None or f"resources:{name}" in spec.flavor.extra_specs:
            return spec
        amount = max(getattr(spec.flavor, field) + difference, 0)
        return replace(spec, flavor=replace(spec.flavor, **{field: amount}))

    def _iterate_results(
        self, miss: NearMiss, passed: Sequence[HostState], *, exact: bool
    ) -> Iterator[FitSuggestion]:
        without = _list_dropped(miss.constraints)
        keys = [each.as_json() for each in miss.constraints]
        by_aggregates: Mapping[tuple[str, ...], Sequence[HostState]] = {(): passed}
        names = CloudNames.read_names(self.run, ())
        first, *further = miss.constraints
        if first.kind == "forbidden_aggregate" and not further:
            names = CloudNames.read_names(self.run, [str(state.uuid) for state in passed])
            memberships = (names.memberships.get(str(each.uuid), frozenset()) for each in passed)
            reserved = (own.intersection(first.names) for own in memberships)
            by_aggregates = group_rows(
                (tuple(sorted(uuids, key=names.get_name)), state)
                for uuids, state in zip(reserved, passed, strict=True)
            )
        for uuids, states in by_aggregates.items():
            several, change = len(states) > 1 or not exact, None
            needed = names.list_needed_traits(uuids)
            clause = (
                describe_reserved(list(map(names.get_name, uuids)), needed, several=several)
                if uuids
                else describe_would_fit(keys, (), names.names, several=several)
            )
            if needed:
                change = build_change("require_traits", {"traits": list(needed)})
            hosts = tuple(state.host for state in states)
            yield FitSuggestion(
                without=without, hosts=hosts, clause=clause, change=change, exact=exact
            )


def _remove_traits(spec: RequestSpec, traits: Collection[str]) -> RequestSpec:
    extra_specs = {
        key: value
        for key, value in spec.flavor.extra_specs.items()
        if not (key.startswith("trait") and key.partition(":")[2].strip() in traits)
    }
    properties = spec.image.properties.to_dict()
    if required := properties.pop("traits_required", None):
        properties["traits_required"] = [name for name in required if name.strip() not in traits]
    return replace(
        spec,
        flavor=replace(spec.flavor, extra_specs=extra_specs),
        image=replace(
            spec.image,
            properties=ImageProperties(properties),
            suffixed_traits=spec.image.suffixed_traits - set(traits),
        ),
    )


def make_explanation(
    connection: Connection, run: SchedulingRun, view: ExplanationView, *, is_recorded: bool = False
) -> tuple[Json, Funnel]:
    """Explain a run, with verdicts on the hosts that the view names.

    Also returns the funnel, which has rejections beyond the view if it ``is_recorded``.
    """
    verdict_keys: Json = {}
    chosen = run.request.chosen
    hosts = run.choice.first.build_host_reports() if run.choice else ()
    recorded_view = ExplanationView()
    if view.hosts is None:
        lengths = (view.max_rejected, recorded_view.max_rejected)
        is_longer = is_recorded and all(lengths)  # 0 is no limit
        funnel_view = replace(view, max_rejected=max(lengths)) if is_longer else view
        funnel = build_funnel(run, connection, funnel_view)
        # With named hosts, the verdicts have changes instead.
        misses = funnel.allocation_candidates.nearest_misses
        funnel = replace(funnel, would_fit=find_fitting_changes(connection, run, misses))
    else:
        trees_by_name = map_reported_trees(connection, view.hosts)
        nodes = (each.node for trees in trees_by_name.values() for each in trees)
        view = ExplanationView(frozenset([*trees_by_name, *nodes]), view.max_rejected)
        # Verdicts may need the rejections of all hosts.
        every = EVERYTHING if is_recorded else replace(view, max_rejected=0)
        funnel = build_funnel(run, connection, every)
        host_verdicts = build_verdicts(connection, run, trees_by_name, funnel)
        verdict_keys = {
            "verdicts": [each.as_json() for each in host_verdicts],
            "stages": list_stages_of_run(run, host_verdicts),
        }
    explanation = {
        "outcome": SELECTED if run.selections else NO_VALID_HOST,
        "policy": chosen.policy.name if chosen else DEFAULT_POLICY,
        **verdict_keys,
        "funnel": funnel.document if view == recorded_view else funnel.as_json(view),
        "hosts": build_hosts_json(hosts, view),
        "selections": [[each.as_json() for each in group] for group in run.selections],
    }
    return explanation, funnel


def list_stages_of_run(run: SchedulingRun, verdicts: Iterable[HostVerdict]) -> list[Json]:
    """List type, name and values of each evaluated stage once, in order.

    A host that a stage does not reject passes it. Stages that are neither constraints nor plugins
    (``limit``, ``combination``) are included only if they reject a host.
    """
    stages = [
        (REQUEST_FILTERS, report.name) for report in run.filtered_request.reports if report.applied
    ]
    stages += [
        (REQUEST_FILTERS, each.name) for each in run.filtered_request.reports if each.rejection
    ]
    values: dict[tuple[str, str], Json] = {}
    for prefix, search_result in iterate_searches(run):
        for step in list_stages(search_result.search):
            label = format_label(constraint_as_json(step.constraint))
            values[CANDIDATES, f"{prefix}{label}"] = step.constraint.as_json()
    stages += values
    late = [(FILTERS, name) for name in run.selector.list_stage_names(get_first_spec(run))]
    named = [
        (each.stage, each.name) for verdict in verdicts for each in verdict.reasons if each.name
    ]
    early = [each for each in named if each[0] != FILTERS]
    ordered = dict.fromkeys([*stages, *early, (FILTERS, COMPUTE_NODES), *late, *named])
    if (FILTERS, COMPUTE_NODES) not in named:
        del ordered[FILTERS, COMPUTE_NODES]
    return [{"stage": key[0], "name": key[1], **values.get(key, {})} for key in ordered]
