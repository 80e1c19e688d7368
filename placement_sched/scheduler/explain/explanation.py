"""The explanation of a run, with a verdict on each host that is asked about.

A verdict is passed, with rank and weight, or rejected, with the stages that reject the host. It is
read off the run. What the run did not ask of a host, since an earlier stage had rejected it, the
same stages are asked of this host alone. Hosts are found by any of their names.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from placement_sched.candidates.explain.report import each_refusal
from placement_sched.candidates.explain.trees import SearchRun
from placement_sched.candidates.search import find_on, prepare
from placement_sched.db.transaction import Connection
from placement_sched.errors import PluginFailed, TooComplex, UnknownNames
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.document import Json
from placement_sched.model.host_aggregate import DEFAULT_POLICY
from placement_sched.model.naming import nearest, read_uuid
from placement_sched.model.placement.candidate import Candidates, together
from placement_sched.model.results.decision import NO_VALID_HOST, SELECTED
from placement_sched.model.results.funnel import (
    FILTERS,
    PASSED,
    REJECTED,
    UNKNOWN,
    HostVerdict,
    RejectReason,
    hosts_as_json,
)
from placement_sched.model.results.stages import COMPUTE_NODES, CandidatesReport, FilterReport, View
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.explain.funnel import NOT_REPORTED, funnel_of, with_reasons
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.hosts.states import host_states
from placement_sched.scheduler.question import AnsweredSearch
from placement_sched.store.compute import compute_nodes
from placement_sched.store.placement import resource_providers

#: Stands for the ways to allocate on a host that the search finds none for, so that filters judge
#: what the host itself has.
_NOTHING: Mapping[str, Any] = {"allocations": {}, "mappings": {}}

#: The reasons of the candidates search by the uuid of a root provider.
Refusals = Mapping[str, Sequence[RejectReason]]
#: So many known names are given for one that is not known.
_MEANT = 3


def explained(connection: Connection, run: Run, view: View) -> Json:
    """Return how a run went; where the view is of some hosts, with a verdict on each of them."""
    judged: Json = {}
    if view.hosts is not None:
        asked = asked_hosts(connection, view.hosts)
        nodes = (one.node for some in asked.values() for one in some)
        view = View(frozenset([*asked, *nodes]), view.max_rejected)
        judged = {"verdicts": [one.as_json() for one in verdicts(connection, run, asked)]}
    chosen = run.request.chosen
    hosts = run.choice.first.host_reports() if run.choice else ()
    return {
        "outcome": SELECTED if run.selections else NO_VALID_HOST,
        "policy": chosen.policy.name if chosen else DEFAULT_POLICY,
        "funnel": funnel_of(run, connection, view).as_json(view),
        "hosts": hosts_as_json(hosts, view),
        "selections": [[one.as_json() for one in some] for some in run.selections],
        **judged,
    }


@dataclass(frozen=True, slots=True)
class AskedHost:
    """One provider tree that a name means: its root's uuid, and how host and node are called.

    ``is_node`` is false for a provider tree without a compute node.
    """

    uuid: str
    host: str
    node: str
    is_node: bool = True

    @classmethod
    def of(cls, node: ComputeNode) -> Self:
        """Return a compute node."""
        return cls(node.uuid, node.host, node.hypervisor_hostname)


#: What each name means, in the order asked; a host may have several nodes, and a name no meaning.
AskedHosts = Mapping[str, Sequence[AskedHost]]


def asked_hosts(connection: Connection, names: Iterable[str]) -> AskedHosts:
    """Return what these names mean: a host, a node's name, a provider's name, or a uuid of either.

    A child provider means the host of its tree.
    """
    wanted = tuple(dict.fromkeys(names))
    uuids = {name: uuid for name in wanted if (uuid := read_uuid(name))}
    named = compute_nodes.named(connection, hosts=wanted, nodes=wanted)
    nodes = {
        node.uuid: node for node in (*named, *compute_nodes.by_uuids(connection, uuids.values()))
    }
    found: dict[str, list[AskedHost]] = {}
    for name in wanted:
        meant = [
            AskedHost.of(node)
            for node in nodes.values()
            if name in {node.host, node.hypervisor_hostname} or uuids.get(name) == node.uuid
        ]
        found[name] = sorted(meant, key=lambda one: (one.host, one.node))
    if missing := [name for name in wanted if not found[name]]:
        found |= _by_provider(connection, missing, uuids)
    return found


def _by_provider(
    connection: Connection, names: Sequence[str], uuids: Mapping[str, str]
) -> dict[str, list[AskedHost]]:
    """Return what names of providers mean: the compute nodes at the roots of their trees."""
    providers = {one.name: one for one in resource_providers.by_names(connection, names)}
    given = [uuids[name] for name in names if name in uuids]
    by_uuid = resource_providers.by_uuids(connection, given)
    providers |= {name: by_uuid[uuids[name]] for name in names if uuids.get(name) in by_uuid}
    roots = {one.root_uuid for one in providers.values()}
    called = resource_providers.names_of(connection, roots)
    trees = {}
    for root in roots:
        name = called.get(root, root)
        trees[root] = AskedHost(root, name, name, is_node=False)
    for node in compute_nodes.by_uuids(connection, roots):
        trees[node.uuid] = AskedHost.of(node)
    return {name: [trees[providers[name].root_uuid]] for name in names if name in providers}


def verdicts(connection: Connection, run: Run, asked: AskedHosts) -> tuple[HostVerdict, ...]:
    """Return the verdict of a run on each of these hosts, in the order in which they were asked."""
    ordered = run.choice.first.ordered if run.choice else ()
    # The nodes that passed all stages for the first instance, with their rank.
    passed = {host.obj.uuid: (rank, host.weight) for rank, host in enumerate(ordered, 1)}
    out = {one.uuid: one for some in asked.values() for one in some if one.uuid not in passed}
    refused, found = _candidates_alone(connection, run, list(out))
    states = _states(run, [one.uuid for one in out.values() if one.is_node], found)
    known: set[str] = set()
    if not all(asked.values()):
        known.update(compute_nodes.all_names(connection))
        known.update(resource_providers.all_names(connection))
    judged: list[HostVerdict] = []
    for name, some in asked.items():
        if not some:
            near = nearest(name, known, _MEANT)
            judged.append(HostVerdict(asked=name, verdict=UNKNOWN, did_you_mean=near))
        for one in some:
            uuid = one.uuid if one.is_node else None
            verdict = HostVerdict(
                asked=name, verdict=PASSED, host=one.host, node=one.node, compute_node_uuid=uuid
            )
            if one.uuid in passed:
                rank, weight = passed[one.uuid]
                verdict = replace(verdict, rank=rank, of=len(ordered), weight=weight)
            else:
                reasons = tuple(_reasons(run, one, refused, states.get(one.uuid)))
                verdict = replace(verdict, verdict=REJECTED, reasons=reasons)
            judged.append(verdict)
    return tuple(judged)


def _reasons(
    run: Run, one: AskedHost, refused: Refusals, state: HostState | None
) -> Iterator[RejectReason]:
    """Yield why a host that did not pass was rejected: by each stage that rejects it."""
    refusing = (report for report in run.narrowed.reports if report.refusal)
    reasons = [*map(RejectReason.of_request_filter, refusing), *refused.get(one.uuid, ())]
    if state is None:
        reasons.append(RejectReason(FILTERS, COMPUTE_NODES, NOT_REPORTED))
    else:
        reasons += _filter_reasons(run, one, state)
    left_none = "the filters removed all its allocation candidates"
    yield from reasons or [RejectReason(FILTERS, "", left_none)]


def _filter_reasons(run: Run, one: AskedHost, state: HostState) -> Iterator[RejectReason]:
    """Yield the reasons of the host filters: the run's own for the first, then of this host alone.

    A filter that fails for a host to which the run would not have come does not make the run fail.
    """
    first = next(_own_refusals(run, one), None)
    seen = first is None
    if first is not None:
        yield from RejectReason.of_filters(first)
    try:
        for report in run.chooser.each_refusal(state, run.narrowed.spec):
            if seen:
                yield from RejectReason.of_filters(report)
            seen = seen or (first is not None and report.name == first.name)
    except PluginFailed as failure:
        reason = f"later filters were not evaluated: {failure.detail}"
        yield RejectReason(FILTERS, "", reason)


def _own_refusals(run: Run, one: AskedHost) -> Iterator[FilterReport]:
    """Yield what a stage that rejected a host in the run says of this host alone."""
    for report in run.choice.first.filters if run.choice else ():
        for rejected in report.rejected:
            if (rejected.host, rejected.node) == (one.host, one.node):
                yield FilterReport(name=report.name, before=1, after=0, rejected=(rejected,))


def _candidates_alone(
    connection: Connection, run: Run, roots: Sequence[str]
) -> tuple[Refusals, Candidates]:
    """Return why the run has no candidates on these trees, by root, and those that there are.

    There are some on a tree that a limit cut, or that the run did not come to.
    """
    reasons: dict[str, list[RejectReason]] = {}
    found = [run.searches.found]
    known, source = run.searches.roots, run.cloud.providers
    outside = [root for root in roots if root not in known]
    for before, asked in _asked(run) if outside else ():
        try:
            alone = find_on(source, asked.search, run.request.settings, outside)
        except TooComplex:  # the steps of the search show the reason
            alone = Candidates()
        found.append(alone)
        # A run that did not ask has cut nothing.
        was = alone if run.searches.asked is None else asked.found
        searched = SearchRun(connection, source, asked.search, was, run.request.settings)
        steps = each_refusal(searched, outside)
        every = [(root, step) for root, some in steps.items() for step in some]
        report = CandidatesReport(query="", steps=tuple(step for _, step in every))
        with_texts = with_reasons(connection, report).steps
        for (root, _), step in zip(every, with_texts, strict=True):
            reasons.setdefault(root, []).append(RejectReason.of_step(step, before))
    return reasons, together(found)


def _asked(run: Run) -> Iterator[tuple[str, AnsweredSearch]]:
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
    states = host_states(run.cloud, Candidates(requests=some), run.narrowed.spec, nodes)
    for state in states:
        if not state.allocation_candidates:
            state.allocation_candidates = [_NOTHING]
    return {state.uuid or "": state for state in states}
