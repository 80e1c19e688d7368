"""The verdict of a run on each host that is asked about, with all reasons and what would change it.

A verdict is passed, with rank and weight, or rejected, with the stages that reject the host. It is
read off the run. What the run did not ask of a host, since an earlier stage had rejected it, the
same stages are asked of this host alone; of many hosts and a large request only for the first ones.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Self

import os_traits

from placement_sched.candidates.explain import each_refusal
from placement_sched.candidates.explain_stages import stages_of
from placement_sched.candidates.near_misses import query_without
from placement_sched.candidates.search import Search, prepare
from placement_sched.db.sql import grouped
from placement_sched.db.transaction import Connection
from placement_sched.errors import PluginFailed, UnknownNames
from placement_sched.model.aggregates import HostAggregate
from placement_sched.model.candidates_query import Candidates, CandidatesQuery, together
from placement_sched.model.compute_node import ComputeNode
from placement_sched.model.explanation import (
    CANDIDATES,
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
from placement_sched.model.names import if_few, listed, nearest, read_uuid
from placement_sched.model.verdict import Refusal, Remedy
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
from placement_sched.scheduler.resource_request import AnsweredSearch
from placement_sched.scheduler.selection import Run
from placement_sched.store.compute import compute_nodes
from placement_sched.store.placement import resource_providers


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
    # By every name: one question may have thousands of names, and a cloud as many nodes.
    meaning = defaultdict[str, dict[str, AskedHost]](dict)
    for node in nodes.values():
        for called in (node.host, node.hypervisor_hostname, node.uuid):
            meaning[called][node.uuid] = AskedHost.of(node)
    found: dict[str, list[AskedHost]] = {}
    for name in wanted:
        meant = meaning.get(name, {}) | meaning.get(uuids.get(name, name), {})
        found[name] = sorted(meant.values(), key=lambda one: (one.host, one.node))
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


#: The name of a constraint of the search: its kind and detail.
Term = tuple[str, str]
_SENTENCES_DISABLED = ("root_required", f"!{os_traits.COMPUTE_STATUS_DISABLED}")


def would_fit_but(
    terms: Sequence[Term],
    refusals: Sequence[tuple[str, Refusal]],
    name: Callable[[str], str],
    *,
    several: bool,
) -> str:
    """Return what follows the hosts: that they would fit without these terms and refusals.

    ``refusals`` are by the name of the stage, those of one host; with ``several`` others have the
    same clauses. ``name`` gives an aggregate of a uuid its name.
    """
    without = [one for one in map(_without, terms) if one]
    clauses = [one for term in terms for one in _of_hosts(term, name, several=several)]
    clauses += [clause_of(*one, several=several) for one in refusals]
    words = f"would fit without {listed(without)}" if without else "would fit"
    return f"{words}, but {listed(clauses)}" if clauses else words


def traits_named(names: Sequence[str]) -> str:
    """Return traits as a sentence names them: ``trait A``, ``traits A and B``."""
    return f"trait{'s' * (len(names) > 1)} {listed(names)}"


def clause_of(stage: str, refusal: Refusal, *, several: bool) -> str:
    """Return what one stage finds of a host, or of several."""
    if several:
        return refusal.of_several or f"{stage} rejects them"
    return refusal.of_one or f"{stage} rejects it: {refusal.reason}"


def _without(term: Term) -> str:
    """Return how a constraint is named that the request may do without; empty for one of hosts."""
    (kind, detail), group = term, ""
    if kind in {"member_of", "in_tree"} or term == _SENTENCES_DISABLED:
        return ""
    if detail.endswith(")"):
        detail, _, group = detail.partition(" (")
        group = f" ({group}"
    if kind == "resources":
        return f"{detail}{group}"
    if kind in {"required", "root_required"}:
        if detail.startswith("!"):
            return f"forbidding trait {detail.removeprefix('!')}{group}"
        return f"trait {' or '.join(detail.removeprefix('in:').split(','))}{group}"
    return f"{kind}={'isolate' if kind == 'group_policy' else detail}{group}"


def _of_hosts(term: Term, name: Callable[[str], str], *, several: bool) -> Iterator[str]:
    """Yield what a constraint says of the hosts that do not meet it, where it is about them."""
    kind, detail = term
    their, are = ("their", "are") if several else ("its", "is")
    if term == _SENTENCES_DISABLED:
        yield f"{their} nova-compute is disabled"
    elif kind == "in_tree":
        yield "the request names another host"
    elif kind == "member_of":
        uuids, _, group = detail.partition(" ")
        named = [name(uuid) for uuid in uuids.removeprefix("!").removeprefix("in:").split(",")]
        place = f"{are} in" if uuids.startswith("!") else f"{are} not in"
        yield f"{place} {' or '.join(named)} {group}".rstrip()


_DISABLED = [os_traits.COMPUTE_STATUS_DISABLED]


@dataclass(frozen=True, slots=True)
class CloudNames:
    """The host aggregates by uuid, and which aggregates each of some providers is in.

    ``busy`` are those of the providers whose hosts have instances.
    """

    aggregates: Mapping[str, HostAggregate]
    memberships: Mapping[str, frozenset[str]]
    busy: frozenset[str]

    @classmethod
    def of(cls, run: Run, roots: Collection[str]) -> "CloudNames":
        """Return the names that changes on these trees may need, in two statements at most."""
        every = {one.uuid: one for one in run.cloud.host_aggregates()}
        if not roots:
            return cls(every, {}, frozenset())
        zoned = any(one.availability_zone for one in every.values())
        busy = run.cloud.nodes_with_instances(roots) if zoned else frozenset()
        return cls(every, run.cloud.provider_aggregates(roots), busy)

    def with_names(self, root: str, reason: RejectReason) -> RejectReason:
        """Return a reason of the search whose changes name what they are about."""
        changes = [one for change in reason.changes for one in self._named(root, change)]
        return replace(reason, changes=tuple(changes))

    def _named(self, root: str, change: Remedy) -> Iterator[Remedy]:
        if change.action == "remove_trait" and change.values["traits"] == _DISABLED:
            yield Remedy(
                "enable_service", "enable its compute service", {"steps": ["enable_service"]}
            )
        elif change.action == "drop_constraint" and change.values["detail"] == f"!{_DISABLED[0]}":
            return  # no request may be free of it
        elif change.action == "leave_aggregate":
            provider, uuids = change.values.get("provider"), change.values["aggregates"]
            words = f"remove {provider or 'it'} from aggregate {listed(map(self.name, uuids))}"
            yield replace(change, words=words, values=self._values(change, uuids))
        elif change.action == "ask_traits":
            if needed := self.needed(change.values["aggregates"]):
                words = f"ask for {traits_named(needed)}"
                yield Remedy("ask_traits", words, {"traits": list(needed)})
        elif change.action == "join_aggregate":
            provider, uuids = change.values.get("provider"), change.values["aggregates"]
            if provider is None:
                uuids = [uuid for uuid in uuids if self._may_join(root, uuid)]
            if uuids:
                words = f"add {provider or 'it'} to aggregate "
                words += " or ".join(map(self.name, uuids))
                yield replace(change, words=words, values=self._values(change, uuids))
        elif change.values.get("constraint") == "member_of":
            uuids = change.values["detail"].removeprefix("in:").split(",")
            words = f"ask without being confined to aggregate {' or '.join(map(self.name, uuids))}"
            yield replace(change, words=words)
        else:
            yield change

    def _may_join(self, root: str, uuid: str) -> bool:
        """Return whether a host may join an aggregate.

        It is in one zone at most, and does not leave the default zone with its instances.
        """
        zone = self._zone(uuid)
        zones = {self._zone(other) for other in self.memberships.get(root, ())} - {None}
        return zone is None or zones == {zone} or (not zones and root not in self.busy)

    def _zone(self, uuid: str) -> str | None:
        known = self.aggregates.get(uuid)
        return known.availability_zone if known else None

    def _values(self, change: Remedy, uuids: Sequence[str]) -> dict[str, Any]:
        return {**change.values, "aggregates": self._shown(uuids)}

    def needed(self, uuids: Collection[str]) -> tuple[str, ...]:
        """Return the traits that a request needs for all these aggregates, none if one has none."""
        known = [self.aggregates[uuid] for uuid in uuids if uuid in self.aggregates]
        if len(known) < len(uuids) or not all(one.reserving_traits for one in known):
            return ()
        return tuple(sorted({trait for one in known for trait in one.reserving_traits}))

    def name(self, uuid: str) -> str:
        """Return how an aggregate is called: by its name, where it is a host aggregate."""
        known = self.aggregates.get(uuid)
        return known.name if known else uuid

    def _shown(self, uuids: Collection[str]) -> list[dict[str, str]]:
        return [{"uuid": uuid, "name": self.name(uuid)} for uuid in uuids]


#: So many rejected hosts have all their reasons, however large the request is.
LEAST = 20
#: What the verdicts of a request may cost together, in the time that a name in a list takes, about
#: a microsecond: of a usual request several hundred hosts have all their reasons.
_BUDGET = 250_000
#: How many times as much as a name costs what a filter compares: an extra spec or a property.
_COMPARED = 10
#: How many times as much a constraint of the search costs, which each group may have to meet.
_CONSTRAINT = 35

#: What is said in place of the other reasons.
NOT_SOUGHT = (
    "only the first reason is shown, without changes: a request as large as this one is evaluated "
    "by every stage for {} of the rejected hosts; name fewer hosts"
)
_UNSEEN = (
    "why was not sought: a request as large as this one is evaluated by every stage for {} of the "
    "rejected hosts; name fewer hosts"
)


def number_with_all_reasons(run: Run, searches: Sequence[Search]) -> int:
    """Return how many rejected hosts have all their reasons, the fewer the larger the request."""
    spec = run.narrowed.spec
    group = spec.instance_group
    lists: list[Sized | None] = [
        spec.force_hosts,
        spec.force_nodes,
        spec.ignore_hosts,
        *spec.scheduler_hints.values(),
        *((group.hosts, group.members) if group else ()),
    ]
    names = sum(len(some) for some in lists if some)
    compared = len(spec.flavor.extra_specs) + len(spec.image.properties.to_dict())
    constraints = sum(len(stages_of(one)) * len(one.query.groups) for one in searches)
    price = 1 + names + _COMPARED * compared + _CONSTRAINT * constraints
    return max(LEAST, _BUDGET // price)


class FirstReasons:
    """The first reason of each host that the funnel of a run lists as rejected."""

    def __init__(self, funnel: Funnel, complete: int) -> None:
        """Take the funnel, and of how many hosts all reasons are sought, which the others say."""
        self._of_request = [one for one in funnel.request_filters if one.refusal]
        self._by_host = _by_host(funnel)
        self._complete = complete

    def of(self, host: str, node: str) -> tuple[RejectReason, ...]:
        """Return the first reason of a node, and that others were not sought."""
        first = self._by_host.get((host, node))
        if self._of_request:
            first = RejectReason.of_request_filter(self._of_request[0])
        if first is None:  # the run did not come to it, or a limit cut it
            return (RejectReason(FILTERS, "", _UNSEEN.format(self._complete)),)
        return first, RejectReason(FILTERS, "", NOT_SOUGHT.format(self._complete))


def _by_host(funnel: Funnel) -> Mapping[tuple[str, str], RejectReason]:
    found: dict[tuple[str, str], RejectReason] = {}
    stages = [(CANDIDATES, one.label, one.rejected) for one in funnel.allocation_candidates.steps]
    stages += [(FILTERS, one.name, one.rejected) for one in funnel.filters]
    for stage, name, rejected in stages:
        for one in rejected:
            found.setdefault((one.host, one.node), RejectReason(stage, name, one.reason))
    return found


#: The reasons of the candidates search by the uuid of a root provider.
Refusals = Mapping[str, Sequence[RejectReason]]
#: So many known names are given for one that is not known.
_MEANT = 3


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
