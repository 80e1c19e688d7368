"""The verdict of a run on each host that is asked about, with all reasons and what would change it.

A verdict is passed, with rank and weight, or rejected, with the stages that reject the host. It is
read off the run. What the run did not ask of a host, since an earlier stage had rejected it, the
same stages are asked of this host alone; of many hosts and a large request only for the first ones.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from placement_sched.candidates.explain import each_refusal
from placement_sched.candidates.near_misses import query_without
from placement_sched.candidates.search import prepare
from placement_sched.db.sql import grouped
from placement_sched.db.transaction import Connection
from placement_sched.errors import PluginFailed, UnknownNames
from placement_sched.model.candidates_query import Candidates, CandidatesQuery, together
from placement_sched.model.explanation import (
    COMPUTE_NODES,
    FILTERS,
    PASSED,
    REJECTED,
    UNKNOWN,
    CandidatesReport,
    FilterReport,
    Funnel,
    HostVerdict,
    RejectReason,
    StepReport,
    View,
)
from placement_sched.model.names import if_few, nearest
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.explain.asked_hosts import AskedHost, AskedHosts
from placement_sched.scheduler.explain.cloud_names import CloudNames
from placement_sched.scheduler.explain.first_reasons import FirstReasons, number_with_all_reasons
from placement_sched.scheduler.explain.funnel import (
    NOT_REPORTED,
    funnel_of,
    search_run,
    with_reasons,
)
from placement_sched.scheduler.explain.trials import (
    first_instance,
    found_on,
    passes_after_changes,
    states_of,
)
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import tolerated
from placement_sched.scheduler.question import AnsweredSearch
from placement_sched.store.compute import compute_nodes
from placement_sched.store.placement import resource_providers

#: The reasons of the candidates search by the uuid of a root provider.
Refusals = Mapping[str, Sequence[RejectReason]]
#: So many known names are given for one that is not known.
_MEANT = 3
#: For so many names of a question that are not known. Each is compared with all names of the cloud,
#: which takes milliseconds; one question may have thousands.
_COMPARED = 10


def verdicts(
    connection: Connection, run: Run, asked: AskedHosts, funnel: Funnel | None = None
) -> tuple[HostVerdict, ...]:
    """Return the verdict of a run on each of these hosts, in the order in which they were asked.

    ``funnel`` is that of the run, with all rejected of these hosts, where the caller has it.
    """
    ordered = run.choice.first.ordered if run.choice else ()
    # The nodes that passed all stages for the first instance, with their rank.
    passed = {host.obj.uuid: (rank, host.weight) for rank, host in enumerate(ordered, 1)}
    out = [one for some in asked.values() for one in some if one.uuid not in passed]
    rejected = iter(_rejected(connection, run, out, funnel))
    unknown = _unknown(connection, asked)
    judged: list[HostVerdict] = []
    for name, some in asked.items():
        if not some:
            judged.append(unknown[name])
        for one in some:
            uuid = one.uuid if one.is_node else None
            verdict = HostVerdict(
                asked=name, verdict=PASSED, host=one.host, node=one.node, compute_node_uuid=uuid
            )
            if one.uuid in passed:
                rank, weight = passed[one.uuid]
                verdict = replace(verdict, rank=rank, of=len(ordered), weight=weight)
            else:
                reasons, would_pass = next(rejected)
                verdict = replace(verdict, verdict=REJECTED, reasons=reasons, would_pass=would_pass)
            judged.append(verdict)
    return tuple(judged)


def _unknown(connection: Connection, asked: AskedHosts) -> dict[str, HostVerdict]:
    """Return the verdicts on the names without a meaning, with known names that may be meant."""
    names = [name for name, some in asked.items() if not some]
    known: set[str] = set()
    if names:
        known.update(compute_nodes.all_names(connection))
        known.update(resource_providers.all_names(connection))
    there_are, found = if_few(known), {}
    for position, name in enumerate(names):
        near = nearest(name, known, _MEANT) if position < _COMPARED else ()
        found[name] = HostVerdict(
            asked=name, verdict=UNKNOWN, did_you_mean=near, there_are=() if near else there_are
        )
    return found


def _rejected(
    connection: Connection, run: Run, out: Sequence[AskedHost], funnel: Funnel | None
) -> Iterator[tuple[tuple[RejectReason, ...], bool | None]]:
    """Yield the reasons of each host that did not pass, and whether it would after the changes.

    Only the first ones have all their reasons, where the request is large.
    """
    most = number_with_all_reasons(run, [asked.search for _, asked in asked_searches(run)])
    # One host may be asked for by several names.
    first = {one.uuid: one for one in out[:most]}
    alone = _candidates_alone(connection, run, list(first))
    states = _states(run, [one.uuid for one in first.values() if one.is_node], alone.found)
    would, own = _would_pass(run, alone, states), _own_refusals(run)
    reported = {
        one.uuid: tuple(
            _reasons(
                run,
                own.get((one.host, one.node), ()),
                alone.refused.get(one.uuid, ()),
                states.get(one.uuid),
            )
        )
        for one in first.values()
    }
    for one in out[:most]:
        yield reported[one.uuid], would.get(one.uuid)
    if others := out[most:]:
        names = frozenset(one.node for one in others)
        brief = FirstReasons(funnel or funnel_of(run, connection, View(names, 0)), most)
        for one in others:
            yield brief.of(one.host, one.node), None


def _reasons(
    run: Run, own: Sequence[RejectReason], refused: Sequence[RejectReason], state: HostState | None
) -> Iterator[RejectReason]:
    """Yield why a host that did not pass was rejected: by each stage that rejects it.

    ``own`` is what filters said of it in the run, ``refused`` what the search says.
    """
    refusing = (report for report in run.narrowed.reports if report.refusal)
    reasons = [*map(RejectReason.of_request_filter, refusing), *refused]
    if state is None:
        reasons.append(RejectReason(FILTERS, COMPUTE_NODES, NOT_REPORTED))
    else:
        reasons += _filter_reasons(run, own, state)
    left_none = "the filters removed all its allocation candidates"
    yield from reasons or [RejectReason(FILTERS, "", left_none)]


def _filter_reasons(
    run: Run, in_run: Sequence[RejectReason], state: HostState
) -> Iterator[RejectReason]:
    """Yield the reasons of the host filters: the run's own for the first, then of this host alone.

    A filter that fails for a host to which the run would not have come does not make the run fail.
    """
    own = {reason.name: reason for reason in in_run}
    seen = not own
    try:
        reports = run.chooser.each_refusal(state, first_instance(run))
        while report := _next_tolerated(reports):
            (reason,) = RejectReason.of_filters(report)
            if first := own.pop(report.name, None):
                reason, seen = replace(reason, reason=first.reason), True
            if seen:
                yield reason
    except PluginFailed as failure:
        yield from own.values()
        own = {}
        words = f"later filters were not evaluated: {failure.detail}"
        yield RejectReason(FILTERS, "", words)
    yield from own.values()


def _next_tolerated(reports: Iterator[FilterReport]) -> FilterReport | None:
    with tolerated():
        return next(reports, None)


def _own_refusals(run: Run) -> Mapping[tuple[str, str], Sequence[RejectReason]]:
    """Return by host and node what the stages that rejected it in the run say of it."""
    return grouped(
        ((one.host, one.node), RejectReason(FILTERS, report.name, one.reason))
        for report in (run.choice.first.filters if run.choice else ())
        for one in report.rejected
    )


@dataclass(frozen=True, slots=True)
class _Alone:
    """What the search says of single trees, by the uuid of the root.

    ``refused`` are its reasons, ``found`` the candidates that there are on them. ``relaxed`` is the
    query of each without the constraints that keep it out. Of those ``uncertain`` it is not known
    whether they serve after the changes.
    """

    refused: Refusals
    found: Candidates
    relaxed: Mapping[str, CandidatesQuery]
    uncertain: Collection[str]


def _candidates_alone(connection: Connection, run: Run, roots: Sequence[str]) -> _Alone:
    """Return why the run has no candidates on these trees, and those that there are.

    There are some on a tree that a limit cut, or that the run did not come to. Of the two
    searches for pinned CPUs, the one with fewer reasons is reported, since either is enough.
    """
    reasons: dict[str, list[RejectReason]] = {}
    relaxed: dict[str, CandidatesQuery] = {}
    uncertain: set[str] = set()
    found = [run.searches.found]
    known = run.searches.roots
    outside = [root for root in roots if root not in known]
    names = CloudNames.of(run, outside)
    for before, asked in asked_searches(run) if outside else ():
        alone = found_on(run, asked.search.query, outside)
        found.append(alone)
        # A run that did not ask has cut nothing.
        was = alone if run.searches.asked is None else asked.found
        searched = search_run(connection, run, replace(asked, found=was))
        rejected = each_refusal(searched, outside)
        every = [
            (root, step)
            for root, (some, _) in rejected.items()
            if root not in reasons or len(some) < len(reasons[root])
            for step in some
        ]
        report = CandidatesReport(query="", steps=tuple(step for _, step in every))
        with_texts = with_reasons(connection, report).steps
        of_roots = ((root, step) for (root, _), step in zip(every, with_texts, strict=True))
        for root, some in grouped(of_roots).items():
            own = [RejectReason.of_step(step, before) for step in some]
            reasons[root] = [names.with_names(root, reason) for reason in own]
            uncertain.discard(root)
            if not (rejected[root].is_certain and _are_certain(reasons[root])):
                uncertain.add(root)
            terms = {_term(step) for step in some if step.constraint != "limit"}
            if terms:
                relaxed[root] = query_without(asked.search, terms)
    return _Alone(reasons, together(found), relaxed, uncertain)


def _are_certain(reasons: Sequence[RejectReason]) -> bool:
    """Return whether it is known what the first change of each reason leads to."""
    firsts = [next(iter(one.changes), None) for one in reasons]
    return all(one is not None and one.action != "ask_traits" for one in firsts)


def _term(step: StepReport) -> tuple[str, str]:
    """Return the term of the query without which a step does not reject; of rules, by a change."""
    (rejected,) = step.rejected
    first = next(iter(rejected.changes), None)
    if step.constraint == "combination" and first and first.action == "drop_constraint":
        return first.values["constraint"], first.values["detail"]
    return step.constraint, step.detail


def _would_pass(run: Run, alone: _Alone, states: Mapping[str, HostState]) -> dict[str, bool | None]:
    """Return by root whether a host passes after the first change of each of its reasons.

    The search is asked again without the constraints that keep the host out, which after the change
    do not, and the filters are asked with the host and the request as they are after it. A request
    that a request filter refuses is not tried.
    """
    if run.narrowed.refusal is not None:
        return {}
    spec = first_instance(run)
    would: dict[str, bool | None] = {}
    for query, roots in grouped((alone.relaxed.get(root), root) for root in states).items():
        tried = {root: states[root] for root in roots}
        if query is not None:
            found = found_on(run, query, roots) if query.groups else Candidates()
            tried = {str(one.uuid): one for one in states_of(run, found)}
        for root in roots:
            state = tried.get(root)
            if state is None or root in alone.uncertain:
                would[root] = None
            else:
                would[root] = passes_after_changes(run, state, spec)
    return would


def asked_searches(run: Run) -> Iterator[tuple[str, AnsweredSearch]]:
    """Yield the searches of a run; the one it would have made, where it was refused before."""
    if run.searches.asked is not None:
        yield "", run.searches.asked
        if run.searches.fallback is not None:
            yield "with VCPU for PCPU: ", run.searches.fallback
    elif run.searches.query is not None:
        try:
            search = prepare(run.cloud.providers, run.searches.query)
        except UnknownNames:  # no provider could be asked for them
            return
        yield "", AnsweredSearch(search, Candidates())


def _states(run: Run, nodes: Sequence[str], found: Candidates) -> dict[str, HostState]:
    """Return the states of these nodes as the run saw them before it placed anything."""
    if not nodes:
        return {}
    wanted = set(nodes)
    some = tuple([request for request in found.requests if request.root_uuid in wanted])
    states = states_of(run, Candidates(requests=some), nodes, anyway=True)
    return {state.uuid or "": state for state in states}
