# SPDX-License-Identifier: Apache-2.0
"""Verdicts on single hosts, with reasons and suggested changes.

A host has either passed, with rank and weight, or is rejected, with the stages that reject it. If a
stage rejected the host in the run, the later stages did not evaluate the host. Verdicts evaluate
them for the host alone, to list all reasons. For a large request with many hosts, only the first
hosts get all reasons.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Self

from placement_sched.candidates.request import Search
from placement_sched.candidates.search import prepare
from placement_sched.db.transaction import Connection
from placement_sched.errors import PluginFailed, UnknownResourceClassOrTrait
from placement_sched.explain.advice import build_change
from placement_sched.explain.changes import suggest_dropping
from placement_sched.explain.host_verdict import HostVerdict, RejectReason
from placement_sched.explain.near_misses import remove_constraints
from placement_sched.explain.report import map_rejections_by_root
from placement_sched.explain.stages import list_stages
from placement_sched.explain.values import (
    PASSED,
    REJECTED,
    UNKNOWN,
    CandidatesReport,
    ExplanationView,
    Funnel,
)
from placement_sched.limits import MAX_COMPARED_NAMES, MAX_SIMILAR_NAMES
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.candidates_query import Candidates, CandidatesQuery, merge_results
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.constraint import COMBINATION, LIMIT, MEMBER_OF, NOT_DISABLED
from placement_sched.model.grouping import group_rows, nest_rows
from placement_sched.model.names import find_nearest, list_if_few, read_uuid
from placement_sched.model.rejection import (
    CANDIDATES,
    COMPUTE_NODES,
    FILTERS,
    REQUEST_FILTERS,
    Rejection,
    SuggestedChange,
)
from placement_sched.scheduler.explain.funnel import (
    NOT_REPORTED,
    build_fresh_states,
    build_funnel,
    find_tree_candidates,
    get_first_spec,
    passes_after_changes,
    read_next_report,
    search_run,
    with_reasons,
)
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.resource_request import CandidateResult
from placement_sched.scheduler.selection import SchedulingRun
from placement_sched.store.compute import compute_nodes
from placement_sched.store.placement import resource_providers

#: Reasons of the candidate search, by the root provider's uuid.
ReasonsByRoot = Mapping[str, Sequence[RejectReason]]
#: Minimum number of rejected hosts with all their reasons, however large the request is.
MIN_HOSTS_WITH_ALL_REASONS = 20
#: Maximum cost of the verdicts of a request. The unit is the cost of a name in a list, about a
#: microsecond. A usual request gets all reasons of several hundred hosts.
_BUDGET = 250_000
#: Cost of a comparison by a filter, such as an extra spec or a property.
_COMPARISON_COST = 10
#: Cost of a constraint of the search, for each request group.
_CONSTRAINT_COST = 35
_WITHOUT_CANDIDATES = RejectReason(FILTERS, "", Rejection(kind="candidates"))


@dataclass(frozen=True, slots=True)
class ReportedTree:
    """A provider tree of a report: uuid of the root, names of host and node.

    ``is_node`` is false for a provider tree without a compute node.
    """

    uuid: str
    host: str
    node: str
    is_node: bool = True

    @classmethod
    def from_node(cls, node: ComputeNode) -> Self:
        """Return the provider tree of a compute node."""
        return cls(node.uuid, node.host, node.hypervisor_hostname)


#: Provider trees by requested name, in order. A host may have several, an unknown name has none.
TreesByName = Mapping[str, Sequence[ReportedTree]]


def map_reported_trees(connection: Connection, names: Iterable[str]) -> TreesByName:
    """Map each name or uuid of a host, node or provider to its provider trees.

    The name of a child provider stands for the tree that contains the provider.
    """
    unique_names = tuple(dict.fromkeys(names))
    uuids = {name: uuid for name in unique_names if (uuid := read_uuid(name))}
    by_name = compute_nodes.list_by_names(connection, hosts=unique_names, nodes=unique_names)
    nodes = {
        node.uuid: node
        for node in (*by_name, *compute_nodes.list_by_uuids(connection, uuids.values()))
    }
    # Index the nodes by all their names, because there may be thousands of names and nodes.
    meaning: dict[str, dict[str, ReportedTree]] = nest_rows(
        (alias, node.uuid, ReportedTree.from_node(node))
        for node in nodes.values()
        for alias in (node.host, node.hypervisor_hostname, node.uuid)
    )
    result: dict[str, list[ReportedTree]] = {}
    for name in unique_names:
        trees = meaning.get(name, {}) | meaning.get(uuids.get(name, name), {})
        result[name] = sorted(trees.values(), key=lambda tree: (tree.host, tree.node))
    if missing := [name for name in unique_names if not result[name]]:
        result |= _find_by_provider(connection, missing, uuids)
    return result


def _find_by_provider(
    connection: Connection, names: Sequence[str], uuids: Mapping[str, str]
) -> dict[str, list[ReportedTree]]:
    providers = {each.name: each for each in resource_providers.list_by_names(connection, names)}
    requested_uuids = [uuids[name] for name in names if name in uuids]
    by_uuid = resource_providers.map_by_uuid(connection, requested_uuids)
    providers |= {name: by_uuid[uuids[name]] for name in names if uuids.get(name) in by_uuid}
    roots = {each.root_uuid for each in providers.values()}
    called = resource_providers.map_names(connection, roots)
    trees = {}
    for root in roots:
        name = called.get(root, root)
        trees[root] = ReportedTree(root, name, name, is_node=False)
    for node in compute_nodes.list_by_uuids(connection, roots):
        trees[node.uuid] = ReportedTree.from_node(node)
    return {name: [trees[providers[name].root_uuid]] for name in names if name in providers}


@dataclass(frozen=True, slots=True)
class CloudNames:
    """Names and members of aggregates, for suggested changes.

    ``memberships`` maps root providers to their aggregates. ``busy`` are the roots with instances.
    """

    aggregates: Mapping[str, HostAggregate]
    memberships: Mapping[str, frozenset[str]]
    busy: frozenset[str]

    @classmethod
    def read_names(cls, run: SchedulingRun, roots: Collection[str]) -> "CloudNames":
        """Read the aggregates of these trees, in at most two SQL statements."""
        aggregates = {each.uuid: each for each in run.view.host_aggregates()}
        if not roots:
            return cls(aggregates, {}, frozenset())
        has_zones = any(each.availability_zone for each in aggregates.values())
        busy = run.view.find_nodes_with_instances(roots) if has_zones else frozenset()
        return cls(aggregates, run.view.provider_aggregates(roots), busy)

    def with_names(self, root: str, reason: RejectReason) -> RejectReason:
        """Put names of aggregates into the changes that a reason suggests."""
        changes = [
            named
            for change in reason.changes
            for named in self._iterate_named_changes(root, change)
        ]
        return replace(reason, changes=tuple(changes))

    def _iterate_named_changes(
        self, root: str, change: SuggestedChange
    ) -> Iterator[SuggestedChange]:
        values = dict(change.values)
        dropped = change.drops
        if dropped and dropped.is_forbidden and dropped.names == NOT_DISABLED.names:
            return  # no request may drop this constraint
        if change.action == "remove_trait" and values["traits"] == list(NOT_DISABLED.names):
            yield build_change("enable_service", {"steps": ["enable_service"]})
        elif change.action == "require_traits":
            if needed := self.list_needed_traits(values["aggregates"]):
                yield build_change("require_traits", {"traits": list(needed)})
        elif change.action in {"join_aggregate", "leave_aggregate"}:
            uuids = values["aggregates"]
            if change.action == "join_aggregate" and "provider" not in values:
                uuids = [uuid for uuid in uuids if self._can_join(root, uuid)]
            if uuids:
                shown = [{"uuid": uuid, "name": self.get_name(uuid)} for uuid in uuids]
                yield build_change(change.action, {**values, "aggregates": shown})
        elif dropped is not None and dropped.family == MEMBER_OF:
            names = {uuid: self.get_name(uuid) for uuid in dropped.names}
            yield suggest_dropping(dropped, names)
        else:
            yield change

    def _can_join(self, root: str, uuid: str) -> bool:
        """Return whether a host may join an aggregate with regard to zones.

        A host has at most one zone, and cannot leave the default zone while it has instances.
        """
        zone = self._find_zone(uuid)
        zones = {self._find_zone(current) for current in self.memberships.get(root, ())} - {None}
        return zone is None or zones == {zone} or (not zones and root not in self.busy)

    def _find_zone(self, uuid: str) -> str | None:
        aggregate = self.aggregates.get(uuid)
        return aggregate.availability_zone if aggregate else None

    def list_needed_traits(self, uuids: Collection[str]) -> tuple[str, ...]:
        """Return the traits that a request needs to use all these aggregates.

        Returns no traits if any of these aggregates is not reserved by traits.
        """
        aggregates = [self.aggregates[uuid] for uuid in uuids if uuid in self.aggregates]
        if len(aggregates) < len(uuids) or not all(each.reserving_traits for each in aggregates):
            return ()
        return tuple(sorted({trait for each in aggregates for trait in each.reserving_traits}))

    @property
    def names(self) -> Mapping[str, str]:
        """Return the names of host aggregates by uuid."""
        return {uuid: each.name for uuid, each in self.aggregates.items()}

    def get_name(self, uuid: str) -> str:
        """Return the name of a host aggregate, or the uuid if it is unknown."""
        aggregate = self.aggregates.get(uuid)
        return aggregate.name if aggregate else uuid


def compute_all_reasons_limit(run: SchedulingRun, searches: Sequence[Search]) -> int:
    """Return the maximum number of rejected hosts that get all reasons.

    The number is smaller for larger requests, which take longer to evaluate.
    """
    spec = run.filtered_request.spec
    group = spec.instance_group
    lists: list[Sized | None] = [
        spec.force_hosts,
        spec.force_nodes,
        spec.ignore_hosts,
        *spec.scheduler_hints.values(),
        *((group.hosts, group.members) if group else ()),
    ]
    names = sum(len(values) for values in lists if values)
    compared = len(spec.flavor.extra_specs) + len(spec.image.properties.to_dict())
    constraints = sum(len(list_stages(search)) * len(search.query.groups) for search in searches)
    price = 1 + names + _COMPARISON_COST * compared + _CONSTRAINT_COST * constraints
    return max(MIN_HOSTS_WITH_ALL_REASONS, _BUDGET // price)


def _map_first_reasons(funnel: Funnel) -> Mapping[tuple[str, str], list[RejectReason]]:
    reasons: dict[tuple[str, str], list[RejectReason]] = {}
    stages = [
        (CANDIDATES, each.label, each.rejected) for each in funnel.allocation_candidates.steps
    ]
    stages += [(FILTERS, each.name, each.rejected) for each in funnel.filters]
    for stage, name, rejected in stages:
        for each in rejected:
            reasons.setdefault((each.host, each.node), [RejectReason(stage, name, each.rejection)])
    return reasons


def build_verdicts(
    connection: Connection, run: SchedulingRun, hosts: TreesByName, funnel: Funnel | None = None
) -> tuple[HostVerdict, ...]:
    """Return the verdict of a run on each of these hosts, in their order.

    ``funnel`` is the run's funnel with all rejections of these hosts, if it was already built.
    """
    ordered = run.choice.first.ordered if run.choice else ()
    # The nodes that passed all stages for the first instance, with their rank.
    passed = {weighed.obj.uuid: (rank, weighed.weight) for rank, weighed in enumerate(ordered, 1)}
    not_passed = [tree for trees in hosts.values() for tree in trees if tree.uuid not in passed]
    rejected = iter(_explain_rejected(connection, run, not_passed, funnel))
    unknown = _explain_unknown_names(connection, hosts)
    result: list[HostVerdict] = []
    for name, trees in hosts.items():
        if not trees:
            result.append(unknown[name])
        for tree in trees:
            verdict = HostVerdict(requested=name, verdict=PASSED, host=tree.host, node=tree.node)
            if tree.is_node:
                verdict = replace(verdict, compute_node_uuid=tree.uuid)
            if tree.uuid in passed:
                rank, weight = passed[tree.uuid]
                verdict = replace(verdict, rank=rank, of=len(ordered), weight=weight)
            else:
                reasons, would_pass = next(rejected)
                verdict = replace(verdict, verdict=REJECTED, reasons=reasons, would_pass=would_pass)
            result.append(verdict)
    return tuple(result)


def _explain_unknown_names(connection: Connection, hosts: TreesByName) -> dict[str, HostVerdict]:
    names = [name for name, trees in hosts.items() if not trees]
    existing: set[str] = set()
    if names:
        existing.update(compute_nodes.list_names(connection))
        existing.update(resource_providers.list_names(connection))
    listing, result = list_if_few(existing), {}
    for position, name in enumerate(names):
        near = (
            find_nearest(name, existing, MAX_SIMILAR_NAMES) if position < MAX_COMPARED_NAMES else ()
        )
        result[name] = HostVerdict(
            requested=name, verdict=UNKNOWN, similar_names=near, all_names=() if near else listing
        )
    return result


def _explain_rejected(
    connection: Connection,
    run: SchedulingRun,
    not_passed: Sequence[ReportedTree],
    funnel: Funnel | None,
) -> Iterator[tuple[tuple[RejectReason, ...], bool | None]]:
    """Yield the reasons of each rejected host, and whether changes help.

    The second value is whether the host passes after the first change of each reason, or None if
    this is unknown. For a large request, only the first hosts get all their reasons.
    """
    limit = compute_all_reasons_limit(run, [each.search for _, each in iterate_searches(run)])
    # Several names may stand for the same host.
    evaluated = {tree.uuid: tree for tree in not_passed[:limit]}
    tree_results = _search_trees(connection, run, list(evaluated))
    states = _get_states(
        run, [tree.uuid for tree in evaluated.values() if tree.is_node], tree_results.candidates
    )
    would_pass = _evaluate_changes(run, tree_results, states)
    of_request = [
        RejectReason(REQUEST_FILTERS, report.name, report.rejection)
        for report in run.filtered_request.reports
        if report.rejection is not None
    ]
    run_reasons = group_rows(
        ((rejected.host, rejected.node), RejectReason(FILTERS, report.name, rejected.rejection))
        for report in (run.choice.first.filters if run.choice else ())
        for rejected in report.rejected
    )
    reported: dict[str, tuple[RejectReason, ...]] = {}
    for tree in evaluated.values():
        reasons = [*of_request, *tree_results.reasons.get(tree.uuid, ())]
        if state := states.get(tree.uuid):
            reasons += _list_filter_reasons(run, run_reasons.get((tree.host, tree.node), ()), state)
        else:
            reasons.append(RejectReason(FILTERS, COMPUTE_NODES, NOT_REPORTED))
        reported[tree.uuid] = tuple(reasons or [_WITHOUT_CANDIDATES])
    for tree in not_passed[:limit]:
        yield reported[tree.uuid], would_pass.get(tree.uuid)
    if remaining := not_passed[limit:]:
        names = frozenset(tree.node for tree in remaining)
        funnel = funnel or build_funnel(run, connection, ExplanationView(names, 0))
        first_reasons = _map_first_reasons(funnel)
        for tree in remaining:
            first = of_request[:1] or first_reasons.get((tree.host, tree.node), [])
            # Without a first reason, the run did not reach the host, or a limit dropped it.
            yield (*first, _build_note(reasons=len(first), maximum=limit)), None


def _list_filter_reasons(
    run: SchedulingRun, reported: Sequence[RejectReason], state: HostState
) -> Iterator[RejectReason]:
    """Yield the reasons of host filters, starting with the reasons of the run.

    Filters that the run did not reach for this host are evaluated for the host alone. If such a
    filter raises an error, the explanation does not fail.
    """
    run_reasons = {reason.name: reason for reason in reported}
    is_reached = not run_reasons
    try:
        reports = run.selector.iterate_rejections(state, get_first_spec(run))
        while report := read_next_report(reports):
            rejected = report.rejected[0]
            reason = RejectReason(FILTERS, report.name, rejected.rejection, rejected.changes)
            if in_run := run_reasons.pop(report.name, None):
                reason, is_reached = replace(reason, rejection=in_run.rejection), True
            if is_reached:
                yield reason
    except PluginFailed as failure:
        yield from run_reasons.values()
        run_reasons = {}
        yield _build_note(failure=failure.detail)
    yield from run_reasons.values()


def _build_note(**values: Any) -> RejectReason:
    """Return an entry in place of the reasons that were not evaluated."""
    return RejectReason(FILTERS, "", Rejection(kind="not_evaluated", values=values))


@dataclass(frozen=True, slots=True)
class _TreeResults:
    """Results of the search on rejected trees, by root uuid.

    ``relaxed`` has for each tree the query without the constraints that reject the tree.
    ``uncertain`` are the trees whose suggested changes have an unknown effect.
    """

    reasons: ReasonsByRoot
    candidates: Candidates
    relaxed: Mapping[str, CandidatesQuery]
    uncertain: Collection[str]


def _search_trees(connection: Connection, run: SchedulingRun, roots: Sequence[str]) -> _TreeResults:
    """Search these trees again for the constraints that reject them.

    A tree may have candidates that a limit dropped, or that the run did not reach. If pinned CPUs
    were searched as PCPU and as VCPU, the search with fewer reasons is reported, because a single
    search with candidates is enough.
    """
    reasons: dict[str, list[RejectReason]] = {}
    relaxed: dict[str, CandidatesQuery] = {}
    uncertain: set[str] = set()
    candidates = [run.searches.candidates]
    searched_roots = run.searches.roots
    outside = [root for root in roots if root not in searched_roots]
    names = CloudNames.read_names(run, outside)
    for prefix, search_result in iterate_searches(run) if outside else ():
        on_trees = find_tree_candidates(run, search_result.search.query, outside)
        candidates.append(on_trees)
        # If the run did not search, no limit can have dropped candidates.
        run_candidates = on_trees if run.searches.main is None else search_result.candidates
        searched = search_run(connection, run, replace(search_result, candidates=run_candidates))
        rejected = map_rejections_by_root(searched, outside)
        new_steps = [
            (root, step)
            for root, (steps, _) in rejected.items()
            if root not in reasons or len(steps) < len(reasons[root])
            for step in steps
        ]
        report = CandidatesReport(query="", steps=tuple(step for _, step in new_steps))
        with_texts = with_reasons(connection, report).steps
        of_roots = ((root, step) for (root, _), step in zip(new_steps, with_texts, strict=True))
        for root, steps in group_rows(of_roots).items():
            reasons[root] = []
            for step in steps:
                label, (cause,) = f"{prefix}{step.label}", step.rejected
                reason = RejectReason(CANDIDATES, label, cause.rejection, cause.changes)
                reasons[root].append(names.with_names(root, reason))
            uncertain.discard(root)
            # The effect of a request with more traits is unknown.
            first_changes = [each.changes[:1] for each in reasons[root]]
            if not rejected[root].is_certain or not all(
                change and change[0].action != "require_traits" for change in first_changes
            ):
                uncertain.add(root)
            dropped = set()
            for step in steps:
                first = next(iter(step.rejected[0].changes), None)
                if step.constraint.family == COMBINATION and first and first.drops:
                    dropped.add(first.drops)
                elif step.constraint.family != LIMIT:
                    dropped.add(step.constraint)
            if dropped:
                relaxed[root] = remove_constraints(search_result.search.query, dropped)
    return _TreeResults(reasons, merge_results(candidates), relaxed, uncertain)


def _evaluate_changes(
    run: SchedulingRun, tree_results: _TreeResults, states: Mapping[str, HostState]
) -> dict[str, bool | None]:
    """Return whether each host passes after the first change for each reason.

    The search runs again without the constraints that reject the host, and the filters with the
    changed host and request. The value is None if the effect is unknown. A request that a request
    filter rejects is not evaluated.
    """
    if run.filtered_request.rejection is not None:
        return {}
    spec = get_first_spec(run)
    result: dict[str, bool | None] = {}
    for query, roots in group_rows(
        (tree_results.relaxed.get(root), root) for root in states
    ).items():
        after_changes = {root: states[root] for root in roots}
        if query is not None:
            candidates = find_tree_candidates(run, query, roots) if query.groups else Candidates()
            after_changes = {
                str(changed.uuid): changed for changed in build_fresh_states(run, candidates)
            }
        for root in roots:
            state = after_changes.get(root)
            if state is None or root in tree_results.uncertain:
                result[root] = None
            else:
                result[root] = passes_after_changes(run, state, spec)
    return result


def iterate_searches(run: SchedulingRun) -> Iterator[tuple[str, CandidateResult]]:
    """Yield pairs of a prefix for the names of steps, and a search of the run.

    If a request filter rejected the request, the search that would have run is yielded.
    """
    if run.searches.main is not None:
        yield from zip(("", "with VCPU for PCPU: "), run.searches.results, strict=False)
    elif run.searches.query is not None:
        try:
            search = prepare(run.view.providers, run.searches.query)
        except UnknownResourceClassOrTrait:  # no provider has the class or trait
            return
        yield "", CandidateResult(search, Candidates())


def _get_states(
    run: SchedulingRun, nodes: Sequence[str], candidates: Candidates
) -> dict[str, HostState]:
    if not nodes:
        return {}
    roots = set(nodes)
    requests = tuple([request for request in candidates.requests if request.root_uuid in roots])
    states = build_fresh_states(
        run, Candidates(requests=requests), nodes, with_empty_candidates=True
    )
    return {state.uuid or "": state for state in states}
