"""Tries a changed request on some hosts: the search, the states and the filters of the real run.

Nothing here decides by itself: whether a host passes is what the candidates search and every stage
after it say of the request as it is after the change.
"""

from collections.abc import Collection, Iterable, Mapping
from copy import copy
from typing import Any

from placement_sched.candidates.search import find_on, prepare
from placement_sched.errors import PluginFailed, TooComplex
from placement_sched.model.candidates_query import Candidates, CandidatesQuery
from placement_sched.model.explanation import FilterReport
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.host_manager import host_states
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import tolerated
from placement_sched.scheduler.selection import Run

#: Stands for the ways to allocate on a host that the search finds none for, so that filters judge
#: what the host itself has.
_NOTHING: Mapping[str, Any] = {"allocations": {}, "mappings": {}}


def found_on(run: Run, query: CandidatesQuery, roots: Collection[str]) -> Candidates:
    """Return the candidates that a query finds on the trees of these roots, without a limit.

    None where that takes more work than the search may do.
    """
    source = run.cloud.providers
    try:
        return find_on(source, prepare(source, query), run.request.settings, roots)
    except TooComplex:
        return Candidates()


def states_of(
    run: Run, found: Candidates, also: Iterable[str] = (), *, anyway: bool = False
) -> list[HostState]:
    """Return the states of the hosts as the run saw them before it placed anything.

    ``anyway`` gives a host that has no way to allocate one that takes nothing.
    """
    states = host_states(run.cloud, found, run.narrowed.spec, also)
    for state in states if anyway else ():
        if not state.allocation_candidates:
            state.allocation_candidates = [_NOTHING]
    return states


def first_instance(run: Run) -> RequestSpec:
    """Return the request of a run for its first instance."""
    spec = run.narrowed.spec
    return spec.for_instance(spec.instance_uuids[0] if spec.instance_uuids else None)


def _first_refusal(run: Run, state: HostState, spec: RequestSpec) -> FilterReport | None:
    """Return the first stage that refuses a host; raises :class:`PluginFailed`, to be caught."""
    with tolerated():
        return next(iter(run.chooser.each_refusal(copy(state), spec)), None)


def passes(run: Run, state: HostState, spec: RequestSpec) -> bool:
    """Return whether every stage after the search lets a host pass."""
    try:
        return _first_refusal(run, state, spec) is None
    except PluginFailed:
        return False


def passes_after_changes(run: Run, state: HostState, spec: RequestSpec) -> bool | None:
    """Return whether a host passes the filters once the first change of each that rejects is made.

    None where a change cannot be tried, or a filter fails.
    """
    after, asked, changed = copy(state), spec, set[str]()
    try:
        while (report := _first_refusal(run, after, asked)) is not None:
            change = next(iter(report.rejected[0].changes), None)
            if change is None or not change.may_be_tried:
                return None
            if report.name in changed:  # it rejects for another reason still
                return False
            changed.add(report.name)
            for name, value in change.host.items():
                setattr(after, name, value)
            asked = change.spec or asked
    except PluginFailed:
        return None
    return True
