# SPDX-License-Identifier: Apache-2.0
"""Evaluation of a changed request on a few hosts.

The same candidate search and the same filters as for a scheduling request evaluate the changed
request.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from copy import copy
from typing import Any

from placement_sched.candidates.search import find_on, prepare
from placement_sched.errors import PluginFailed, TooComplex
from placement_sched.model.candidates_query import Candidates, CandidatesQuery
from placement_sched.model.explanation import FilterReport
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_manager import host_states
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import tolerate_failures
from placement_sched.scheduler.selection import SchedulingRun

#: A candidate for hosts without candidates, so that filters can check the hosts themselves.
_EMPTY_CANDIDATE: Mapping[str, Any] = {"allocations": {}, "mappings": {}}


def candidates_on(run: SchedulingRun, query: CandidatesQuery, roots: Collection[str]) -> Candidates:
    """Return the candidates on these trees, none for an expensive search."""
    source = run.cloud.providers
    try:
        return find_on(source, prepare(source, query), run.request.settings, roots)
    except TooComplex:
        return Candidates()


def states_before(
    run: SchedulingRun, candidates: Candidates, include: Iterable[str] = (), *, anyway: bool = False
) -> list[HostState]:
    """Return the host states before the run placed anything.

    With ``anyway``, a host without candidates gets an empty candidate.
    """
    states = host_states(run.cloud, candidates, run.filtered_request.spec, include)
    for state in states if anyway else ():
        if not state.allocation_candidates:
            state.allocation_candidates = [_EMPTY_CANDIDATE]
    return states


def first_instance(run: SchedulingRun) -> RequestSpec:
    """Return the request of a run for its first instance."""
    spec = run.filtered_request.spec
    return spec.for_instance(spec.instance_uuids[0] if spec.instance_uuids else None)


def next_tolerated(reports: Iterator[FilterReport]) -> FilterReport | None:
    """Return the next report, if any. The failure of a filter is not logged as an error."""
    with tolerate_failures():
        return next(reports, None)


def passes_after_changes(run: SchedulingRun, state: HostState, spec: RequestSpec) -> bool | None:
    """Return whether a host passes after the first change of each rejection.

    Returns None if a change cannot be tried.
    """
    changed_state, changed_spec, tried_filters = copy(state), spec, set[str]()
    try:
        while report := next_tolerated(
            run.chooser.rejections_of_host(copy(changed_state), changed_spec)
        ):
            change = next(iter(report.rejected[0].changes), None)
            if change is None or not change.may_be_tried:
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
