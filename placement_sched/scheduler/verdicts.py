"""The verdict on single hosts: passed with rank and weight, or rejected by which stages.

A verdict is read off the run. What the run did not ask of a host, since an earlier stage had
rejected it, the same stages are asked of this host alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from placement_sched.candidates.explain import each_refusal
from placement_sched.candidates.search import find_on, prepare
from placement_sched.db.connection import Connection
from placement_sched.errors import PluginFailed, TooComplex, UnknownNames
from placement_sched.model.candidate import Candidates, together
from placement_sched.model.host_verdict import (
    FILTERS,
    PASSED,
    REJECTED,
    UNKNOWN,
    HostVerdict,
    Reason,
)
from placement_sched.model.report import COMPUTE_NODES, CandidatesReport, FilterReport
from placement_sched.scheduler import disabled_hosts
from placement_sched.scheduler.asked_hosts import AskedHost, AskedHosts
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.hosts import host_states
from placement_sched.scheduler.pipeline import NOT_REPORTED, Asked, Run

#: Stands for the ways to allocate on a host that the search finds none for, so that filters judge
#: what the host itself has.
_NOTHING: Mapping[str, Any] = {"allocations": {}, "mappings": {}}

#: The reasons of the candidates search by the uuid of a root provider.
Refusals = Mapping[str, Sequence[Reason]]


@dataclass(frozen=True, slots=True)
class _Passed:
    """Where a host stands among those that passed, and its weight."""

    rank: int
    of: int
    weight: float


def verdicts(connection: Connection, done: Run, asked: AskedHosts) -> tuple[HostVerdict, ...]:
    """Return the verdict of a run on each of these hosts, in the order in which they were asked."""
    passed = _passed(done)
    out = [one for one in asked.known if one.uuid not in passed]
    roots = list(dict.fromkeys(one.uuid for one in out))
    refused, found = _candidates_alone(connection, done, roots)
    states = _states(done, [one.uuid for one in out if one.is_node], found)
    found_by_name: dict[str, list[HostVerdict]] = {name: [] for name in asked.names}
    for one in asked.known:
        reasons = _reasons(done, one, refused, states.get(one.uuid))
        found_by_name[one.asked].append(_verdict(one, passed.get(one.uuid), reasons))
    for name, near in asked.unknown.items():
        found_by_name[name].append(HostVerdict(asked=name, verdict=UNKNOWN, did_you_mean=near))
    return tuple(verdict for some in found_by_name.values() for verdict in some)


def _verdict(one: AskedHost, passed: _Passed | None, reasons: Iterator[Reason]) -> HostVerdict:
    """Return the verdict on a known host; the reasons are asked for only where it did not pass."""
    verdict = HostVerdict(
        asked=one.asked,
        verdict=REJECTED if passed is None else PASSED,
        host=one.host,
        node=one.node,
        compute_node_uuid=one.uuid if one.is_node else None,
    )
    if passed is None:
        return replace(verdict, reasons=tuple(reasons))
    return replace(verdict, rank=passed.rank, of=passed.of, weight=passed.weight)


def _passed(done: Run) -> dict[str, _Passed]:
    """Return the nodes that passed all stages for the first instance, by uuid."""
    ordered = done.choice.first.ordered if done.choice else ()
    return {
        host.obj.uuid or "": _Passed(rank, len(ordered), host.weight)
        for rank, host in enumerate(ordered, 1)
    }


def _reasons(
    done: Run, one: AskedHost, refused: Refusals, state: HostState | None
) -> Iterator[Reason]:
    """Yield why a host that did not pass was rejected: by each stage that rejects it."""
    reasons = [
        *(Reason.of_request_filter(report) for report in done.narrowed.reports if report.refusal),
        *refused.get(one.uuid, ()),
    ]
    if state is None:
        reasons.append(Reason(FILTERS, COMPUTE_NODES, NOT_REPORTED))
    else:
        reasons += _filter_reasons(done, one, state)
    yield from reasons or [
        Reason(FILTERS, "", "the filters left it no way to allocate what the request asks for")
    ]


def _filter_reasons(done: Run, one: AskedHost, state: HostState) -> Iterator[Reason]:
    """Yield the reasons of the host filters: the run's own for the first, then of this host alone.

    A filter that fails for a host to which the run would not have come is no failure of the run.
    """
    first = _first_refusal(done, one)
    seen = first is None
    if first is not None:
        yield from (reason for reason in Reason.of_filters(first))
    if done.chooser is None:
        return
    try:
        for report in done.chooser.each_refusal(state, done.narrowed.spec):
            if seen:
                yield from Reason.of_filters(report)
            seen = seen or (first is not None and report.name == first.name)
    except PluginFailed as failure:
        yield Reason(FILTERS, "", f"the filters after these could not be asked: {failure.detail}")


def _first_refusal(done: Run, one: AskedHost) -> FilterReport | None:
    """Return what the first stage that rejected a host in the run says of this host alone."""
    for report in done.choice.first.filters if done.choice else ():
        for rejected in report.rejected:
            if (rejected.host, rejected.node) == (one.host, one.node):
                return FilterReport(name=report.name, before=1, after=0, rejected=(rejected,))
    return None


def _candidates_alone(
    connection: Connection, done: Run, roots: Sequence[str]
) -> tuple[Refusals, Candidates]:
    """Return why the run has no candidates on these trees, by root, and those that there are.

    There are some on a tree that a limit cut, or that the run did not come to.
    """
    reasons: dict[str, list[Reason]] = {}
    found = [done.found]
    outside = [root for root in roots if root not in done.roots]
    for before, asked in _asked(connection, done) if outside else ():
        try:
            alone = find_on(connection, asked.search, done.settings, outside)
        except TooComplex:  # the steps of the search tell what there is to tell
            alone = Candidates()
        found.append(alone)
        # A run that did not ask has cut nothing.
        was = alone if done.asked is None else asked.found
        steps = each_refusal(connection, asked.search, was, done.settings, outside)
        every = [(root, step) for root, some in steps.items() for step in some]
        report = CandidatesReport(query="", steps=tuple(step for _, step in every))
        told = disabled_hosts.told(connection, report).steps
        for (root, _), step in zip(every, told, strict=True):
            reasons.setdefault(root, []).append(Reason.of_step(step, before))
    return reasons, together(found)


def _asked(connection: Connection, done: Run) -> Iterator[tuple[str, Asked]]:
    """Yield the searches of a run; the one it would have made, where it was refused before."""
    if done.asked is not None:
        yield "", done.asked
        if done.fallback is not None:
            yield "with VCPU for PCPU: ", done.fallback
    elif done.query is not None:
        try:
            search = prepare(connection, done.query)
        except UnknownNames:  # no provider could be asked for them
            return
        yield "", Asked(search, Candidates())


def _states(done: Run, nodes: Sequence[str], found: Candidates) -> dict[str, HostState]:
    """Return the states of these nodes as the run saw them before it placed anything."""
    if done.world is None or not nodes:
        return {}
    wanted = set(nodes)
    some = tuple([request for request in found.requests if request.root_uuid in wanted])
    states = host_states(done.world, Candidates(requests=some), done.narrowed.spec, nodes)
    for state in states:
        if not state.allocation_candidates:
            state.allocation_candidates = [_NOTHING]
    return {state.uuid or "": state for state in states}
