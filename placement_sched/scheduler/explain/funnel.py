# SPDX-License-Identifier: Apache-2.0
"""Funnel of a run: its stages with the numbers of hosts before and after.

The module also repeats the search and the filters for single hosts.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple

from placement_sched.candidates.search import find_on, prepare
from placement_sched.db.transaction import Connection
from placement_sched.errors import PluginFailed, TooComplex
from placement_sched.explain.phrases import describe_unexamined
from placement_sched.explain.report import SearchRun, explain
from placement_sched.explain.values import (
    CandidatesReport,
    ExplanationView,
    FilterReport,
    Funnel,
    IneffectiveKey,
    LaterInstanceReport,
    Rejected,
    RoomReport,
)
from placement_sched.limits import MAX_COMPARED_NAMES
from placement_sched.model.candidates_query import Candidates, CandidatesQuery
from placement_sched.model.constraint import NOT_DISABLED
from placement_sched.model.names import shorten_names, suggest_name
from placement_sched.model.rejection import COMPUTE_NODES, Rejection
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.explain.ineffective_specs import iterate_ineffective_specs
from placement_sched.scheduler.host_manager import build_host_states
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import tolerate_failures
from placement_sched.scheduler.resource_request import CandidateResult
from placement_sched.scheduler.selection import FilterWeighResult, SchedulingRun
from placement_sched.scheduler.spread import iterate_ineffective_keys
from placement_sched.store.compute import compute_nodes, services
from placement_sched.store.placement import resource_providers

NOT_REPORTED = Rejection(kind="no_compute_node")
#: A candidate for hosts without candidates, so that filters can check the hosts themselves.
_EMPTY_CANDIDATE: Mapping[str, Any] = {"allocations": {}, "mappings": {}}


class _NamedHost(NamedTuple):
    key: str
    position: int
    name: str
    noun: str


def find_unknown_hosts(connection: Connection, spec: RequestSpec) -> tuple[IneffectiveKey, ...]:
    """Return the forced or ignored hosts and nodes that do not exist.

    As in nova's filters, names are compared without case. If the request names no hosts or nodes,
    the database is not read. After the first ten unknown names, the last element counts the others.
    """
    names = [
        _NamedHost(key, position, name, "node" if key == "force_nodes" else "host")
        for key in ("force_hosts", "ignore_hosts", "force_nodes")
        for position, name in enumerate(getattr(spec, key) or ())
    ]
    if not names:
        return ()
    hosts = {each.name for each in names if each.noun == "host"}
    nodes = {each.name for each in names if each.noun == "node"}
    rows = compute_nodes.list_by_names(connection, hosts=hosts, nodes=nodes)
    existing = {
        "host": {each.host for each in rows},
        "node": {each.hypervisor_hostname for each in rows},
    }
    missing = [each for each in names if each.name not in existing[each.noun]]
    if not missing:
        return ()
    pairs = compute_nodes.map_names_by_uuid(connection).values()
    all_names = {"host": {host for host, _ in pairs}, "node": {node for _, node in pairs}}
    folded = {noun: {name.casefold() for name in names} for noun, names in all_names.items()}
    unknown = [each for each in missing if each.name.casefold() not in folded[each.noun]]
    reports = []
    for key, position, name, noun in unknown[:MAX_COMPARED_NAMES]:
        detail = f"there is no {noun} {name!r}{suggest_name(noun, name, all_names[noun])}"
        reports.append(IneffectiveKey(key, "request_spec", detail, position))
    if more := unknown[MAX_COMPARED_NAMES:]:
        number = "1 more name" if len(more) == 1 else f"{len(more)} more names"
        detail = f"and {number} without a host or node, such as {more[0].name!r}"
        reports.append(IneffectiveKey(more[0].key, "request_spec", detail, more[0].position))
    return tuple(reports)


def build_funnel(
    run: SchedulingRun, connection: Connection | None, view: ExplanationView | None = None
) -> Funnel:
    """Build the funnel of a run for its first instance.

    Without a connection no SQL statement is executed. The funnel then lacks the steps of the
    candidate search, and shows uuids for providers without a compute node.
    """
    searches, choice, unreported = run.searches, run.choice, run.roots_without_node
    names: dict[str, str] = {}
    unknown = (
        () if connection is None else find_unknown_hosts(connection, run.filtered_request.spec)
    )
    query = searches.query.as_querystring() if searches.query else ""
    candidates = CandidatesReport(query=query)
    if connection is None:
        candidates = CandidatesReport(query=query, hosts=len(searches.roots))
    elif searches.main is not None:
        candidates = _build_candidates_report(connection, run, view or ExplanationView())
        names = dict(resource_providers.map_names(connection, unreported)) if unreported else {}
    filters = list(choice.first.filters) if choice else []
    if unreported:  # the stage that rejects providers without a compute node
        provider_names = (names.get(uuid, uuid) for uuid in unreported)
        count_before = len(searches.roots)
        compute_nodes_report = FilterReport(
            name=COMPUTE_NODES,
            before=count_before,
            after=count_before - len(unreported),
            rejected=tuple(Rejected(name, name, NOT_REPORTED) for name in provider_names),
        )
        filters.insert(0, compute_nodes_report)
    reading = run.view.cells.describe_reading(run.hosts)
    later_report = room_report = None
    if choice and choice.later:
        later_report = LaterInstanceReport(
            placed=choice.placed_count,
            requested=run.filtered_request.spec.num_instances,
            filters=choice.later.filters,
        )
    if choice and choice.max_fitting is not None:
        room_report = RoomReport(
            run.filtered_request.spec.num_instances, choice.max_fitting, choice.limiting_class
        )
    return Funnel(
        request_filters=run.filtered_request.reports,
        allocation_candidates=candidates,
        filters=tuple(filters),
        weighers=choice.first.weighed.reports if choice else (),
        states_age=run.view.states_age,
        policy=run.request.chosen.report if run.request.chosen else None,
        later=later_report,
        room=room_report,
        selected=bool(run.selections),
        warnings=(
            *searches.ignored,
            *unknown,
            *_describe_other_roots(candidates),
            *([IneffectiveKey("last_seen_up", "nova", reading)] if reading else []),
            *(_iterate_unexamined(choice.first) if choice else ()),
            *iterate_ineffective_specs(run),
            *iterate_ineffective_keys(run.filtered_request.spec, run.view),
        ),
    )


def _iterate_unexamined(result: FilterWeighResult) -> Iterator[IneffectiveKey]:
    """Yield a warning about each unknown field that a plugin reads."""
    hosts: dict[str, set[tuple[str, str]]] = {}
    plugins: dict[str, dict[str, None]] = {}
    for report in result.filters:
        for each in report.unexamined:
            hosts.setdefault(each.field, set()).add((each.host, each.node))
            plugins.setdefault(each.field, {})[report.name] = None
    for weigher in result.weighed.reports:
        if weigher.unexamined is not None:
            plugins.setdefault(weigher.unexamined, {})[weigher.name] = None
    for field, names in plugins.items():
        count = len(hosts.get(field, result.ordered))
        yield IneffectiveKey(field, "host", describe_unexamined(field, list(names), count))


def _describe_other_roots(report: CandidatesReport) -> Iterator[IneffectiveKey]:
    """Yield a warning about root providers that are no hosts."""
    if roots := sorted(report.other_roots):
        verb = "root provider has" if len(roots) == 1 else "root providers have"
        detail = (
            f"{len(roots):,} {verb} the resources but no compute node, so that no instance is "
            f"placed there: {shorten_names(roots)}"
        )
        yield IneffectiveKey(COMPUTE_NODES, "providers", detail)


def _build_candidates_report(
    connection: Connection, run: SchedulingRun, view: ExplanationView
) -> CandidatesReport:
    report, *second = (
        with_reasons(connection, explain(search_run(connection, run, search), view))
        for search in run.searches.results
    )
    return replace(report, fallback=second[0], hosts=len(run.searches.roots)) if second else report


def search_run(connection: Connection, run: SchedulingRun, searched: CandidateResult) -> SearchRun:
    """Return the input for the explanation of a search of the run."""
    view, settings = run.view, run.request.settings
    names = view.caches.node_names
    return SearchRun(
        connection, view.providers, searched.search, searched.candidates, settings, names
    )


def with_reasons(connection: Connection, report: CandidatesReport) -> CandidatesReport:
    """Add the reasons for disabling hosts to the report of a search.

    The search rejects disabled hosts by a trait, without the reason of the operator. If the report
    lists such hosts, an SQL statement reads the reasons. A provider with the trait but without a
    disabled service keeps the reason that names the trait.
    """
    listed = {
        rejected.host
        for step in report.steps
        if step.constraint == NOT_DISABLED
        for rejected in step.rejected
    }
    if not listed:
        return report
    by_host = services.map_by_host(connection, listed)

    def with_reason(rejected: Rejected) -> Rejected:
        service = by_host.get(rejected.host)
        if service is None or not service.disabled:
            return rejected
        values = {**rejected.rejection.values, "disabled_reason": service.disabled_reason or ""}
        return replace(rejected, rejection=replace(rejected.rejection, values=values))

    steps = [
        replace(step, rejected=tuple(map(with_reason, step.rejected)))
        if step.constraint == NOT_DISABLED
        else step
        for step in report.steps
    ]
    return replace(report, steps=tuple(steps))


def find_tree_candidates(
    run: SchedulingRun, query: CandidatesQuery, roots: Collection[str]
) -> Candidates:
    """Return candidates on these trees, or none if the search is too complex."""
    source = run.view.providers
    try:
        return find_on(source, prepare(source, query), run.request.settings, roots)
    except TooComplex:
        return Candidates()


def build_fresh_states(
    run: SchedulingRun,
    candidates: Candidates,
    include: Iterable[str] = (),
    *,
    with_empty_candidates: bool = False,
) -> list[HostState]:
    """Build host states as they were before the run's first placement.

    ``include`` are uuids of nodes to include without candidates. With ``with_empty_candidates``,
    such a node gets an empty candidate, so that filters can check it.
    """
    states = build_host_states(run.view, candidates, run.filtered_request.spec, include)
    for state in states if with_empty_candidates else ():
        if not state.allocation_candidates:
            state.allocation_candidates = [_EMPTY_CANDIDATE]
    return states


def get_first_spec(run: SchedulingRun) -> RequestSpec:
    """Return the request after the request filters, for the first instance."""
    spec = run.filtered_request.spec
    return spec.with_instance(spec.instance_uuids[0] if spec.instance_uuids else None)


def read_next_report(reports: Iterator[FilterReport]) -> FilterReport | None:
    """Return the next report, or None at the end or after a plugin failed."""
    with tolerate_failures():
        return next(reports, None)


def passes_after_changes(run: SchedulingRun, state: HostState, spec: RequestSpec) -> bool | None:
    """Return whether a host passes after the first change for each rejection.

    Returns None if a change cannot be tested.
    """
    changed_state, changed_spec, tried_filters = copy(state), spec, set[str]()
    try:
        while report := read_next_report(
            run.selector.iterate_rejections(copy(changed_state), changed_spec)
        ):
            change = next(iter(report.rejected[0].changes), None)
            if change is None or not change.can_be_tested:
                return None
            if report.name in tried_filters:  # the change is not enough
                return False
            tried_filters.add(report.name)
            for name, value in change.host.items():
                setattr(changed_state, name, value)
            changed_spec = change.spec or changed_spec
    except PluginFailed:
        return None
    return True
