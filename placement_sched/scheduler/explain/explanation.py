"""The explanation of a run, with a verdict on each host that is asked about."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cache

from placement_sched.candidates import amounts
from placement_sched.candidates.explain import SearchRun, near_misses_of
from placement_sched.candidates.explain_stages import stages_of
from placement_sched.candidates.near_misses import amount_named, query_asking, query_without
from placement_sched.candidates.search import Search
from placement_sched.db.transaction import Connection
from placement_sched.errors import PluginFailed
from placement_sched.model.aggregates import DEFAULT_POLICY
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from placement_sched.model.decision import NO_VALID_HOST, SELECTED
from placement_sched.model.document import Json
from placement_sched.model.explanation import (
    CANDIDATES,
    COMPUTE_NODES,
    FILTERS,
    REQUEST_FILTERS,
    HostVerdict,
    NearMiss,
    NearMisses,
    View,
    WouldFit,
    hosts_as_json,
    least,
)
from placement_sched.model.image import ImageProperties
from placement_sched.model.names import listed
from placement_sched.model.request_spec import RequestSpec
from placement_sched.model.verdict import Refusal, Remedy
from placement_sched.scheduler.explain.funnel import funnel_of, search_run
from placement_sched.scheduler.explain.trials import first_instance, found_on, states_of
from placement_sched.scheduler.explain.verdicts import (
    CloudNames,
    asked_hosts,
    asked_searches,
    clause_of,
    traits_named,
    verdicts,
    would_fit_but,
)
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.narrowing import narrow
from placement_sched.scheduler.plugin import tolerated
from placement_sched.scheduler.selection import Run

#: So many hosts are tried without constraints, as many as a selection looks at by default.
_TRIED = 1000
#: So many sets of constraints are tried.
_SETS = 5
#: The part of a flavor that asks for a class.
_OF_FLAVOR = {"MEMORY_MB": "memory_mb", "VCPU": "vcpus", "PCPU": "vcpus", "DISK_GB": "root_gb"}

#: A host with the stages that reject it, by name.
_RejectedState = tuple[HostState, Sequence[tuple[str, Refusal]]]
#: Such hosts by the names of these stages, with what each says of several hosts.
_Rejecting = Mapping[tuple[tuple[str, str], ...], Sequence[_RejectedState]]


def would_fit(connection: Connection, run: Run, known: NearMisses) -> tuple[WouldFit, ...]:
    """Return what is least to change, where the first instance of a request found no host.

    ``known`` are the nearest misses of the search where it found nothing.
    """
    if run.choice is None or run.choice.first.ordered or run.searches.asked is None:
        return ()
    asked = run.searches.asked
    found = list(_by_filters(run, (), _rejecting(run, run.hosts)))
    misses = known.found
    searched = search_run(connection, run, asked)
    if run.searches.found.requests:
        misses = near_misses_of(searched).found
    trial = _Trial(run, searched)
    for miss in misses[:_SETS]:
        found += trial.of(miss)
    return least(found)


def _rejecting(
    run: Run, states: Sequence[HostState], spec: RequestSpec | None = None
) -> _Rejecting:
    """Return the hosts by all stages after the search that reject them, for the first instance.

    ``spec`` is what is asked for in its place. None where a filter fails for one of them, to which
    the run would not have come.
    """
    alike = defaultdict[tuple[tuple[str, str], ...], list[_RejectedState]](list)
    tried = [copy(state) for state in states]
    try:
        with tolerated():
            every = run.chooser.every_refusal(tried, spec or first_instance(run))
    except PluginFailed:
        return {}
    for state, refusals in zip(states, every, strict=True):
        said = tuple((name, clause_of(name, one, several=True)) for name, one in refusals)
        alike[said].append((state, refusals))
    return alike


def _passing(rejecting: _Rejecting) -> list[HostState]:
    return [state for state, _ in rejecting.get((), ())]


def _labels(terms: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{kind} {detail}".strip() for kind, detail in terms]


def _by_filters(
    run: Run, terms: Sequence[tuple[str, str]], rejecting: _Rejecting, *, exact: bool = True
) -> Iterator[WouldFit]:
    """Yield the hosts that would fit but for filters, and for these terms of the search."""
    labels, called = _labels(terms), CloudNames.of(run, ()).name
    for said, some in rejecting.items():
        if not said:
            continue
        (state, refusals), change = some[0], None
        if len(some) == 1 and not labels and len(said) == 1:
            change = _change(run, state)
        yield WouldFit(
            without=(
                *((CANDIDATES, one) for one in labels),
                *((FILTERS, name) for name, _ in said),
            ),
            hosts=tuple(state.host for state, _ in some),
            why=would_fit_but(terms, refusals, called, several=len(some) > 1 or not exact),
            change=change,
            exact=exact,
        )


def _change(run: Run, state: HostState) -> Remedy | None:
    """Return what would have to change for a host that one stage rejects."""
    reports = run.chooser.each_refusal(copy(state), first_instance(run))
    changes = (change for report in reports for change in report.rejected[0].changes)
    return next(changes, None)


@dataclass(slots=True)
class _Trial:
    """Tries the nearest misses of a search; ``left`` is how many hosts may be tried yet."""

    run: Run
    searched: SearchRun
    left: int = _TRIED

    @property
    def search(self) -> Search:
        """Return the search whose nearest misses are tried."""
        return self.searched.search

    def of(self, miss: NearMiss) -> Iterator[WouldFit]:
        """Yield what would fit without the terms of a near miss, or with another amount."""
        asked = amount_named(self.search, miss.terms[0]) if not miss.others else None
        if asked is not None:
            nearest = amounts.nearest_amounts(self.searched, miss.terms[0], self.left)
            found = list(self._with_amount(miss, asked, nearest))
            yield from found
            if found:  # no two changes are needed
                self.left -= len(nearest)
                return
        tried = miss.roots[: self.left]
        self.left -= len(tried)
        query = self._query_without(miss.terms)
        if not tried or not query.groups:
            return
        exact = len(tried) == len(miss.roots)
        uuids = amounts.uuids_of(self.searched.connection, tried)
        rejecting = self._tried(query, uuids.values())
        yield from _by_filters(self.run, miss.terms, rejecting, exact=exact)
        if passed := _passing(rejecting):
            yield from self._without(miss, passed, exact=exact)

    def _query_without(self, terms: Sequence[tuple[str, str]]) -> CandidatesQuery:
        """Return the query without these terms, as request filters narrow the request then.

        Without a trait the aggregates that require it are forbidden.
        """
        query, request = query_without(self.search, terms), self.run.request
        traits = {
            name
            for kind, detail in terms
            if kind == "required" and not detail.startswith("!")
            for name in detail.split(" ")[0].removeprefix("in:").split(",")
        }
        if not traits or any(detail.startswith("!in:") for _, detail in terms):
            return query
        spec = _without_traits(request.spec, traits)
        narrowed = narrow(request.plugins.request_filters, spec, self.run.cloud)
        plain = query.group or RequestGroup()
        forbidden = frozenset(narrowed.spec.destination.forbidden)
        confined = replace(plain, aggregates=replace(plain.aggregates, forbidden=forbidden))
        return replace(query, groups=(confined, *(one for one in query.groups if one.suffix)))

    def _tried(
        self, query: CandidatesQuery, roots: Collection[str], spec: RequestSpec | None = None
    ) -> _Rejecting:
        return _rejecting(self.run, states_of(self.run, found_on(self.run, query, roots)), spec)

    def _with_amount(
        self, miss: NearMiss, asked: tuple[str, int], nearest: Mapping[int, int]
    ) -> Iterator[WouldFit]:
        """Yield how many of a few hosts fit with the amount nearest to the one requested.

        ``nearest`` has by root the amount for which it has room: only a host with as much, or one
        that is nearer, may fit with an amount, and in a cloud without trees each does.
        """
        (name, was), uuids = asked, amounts.uuids_of(self.searched.connection, nearest)
        own = {uuid: nearest[root] for root, uuid in uuids.items()}
        values = sorted(set(own.values()), key=lambda one: abs(was - one))

        @cache
        def passing(at: int) -> list[HostState]:
            query = query_asking(self.search, miss.terms[0], values[at])
            bound = abs(was - values[at])
            near = [uuid for uuid, amount in own.items() if abs(was - amount) <= bound]
            return _passing(self._tried(query, near, self._asking(name, values[at] - was)))

        if not values:
            return
        # The less is requested, the more hosts have room for it.
        every = range(len(values))
        at = 0 if passing(0) else bisect_left(every, 1, key=lambda place: len(passing(place)) > 0)
        if at == len(values) or not (passed := passing(at)):
            return
        amount, most = values[at], "most" if values[at] < was else "least"
        change = Remedy(
            "ask",
            f"ask for at {most} {amount} of {name}",
            {"resource_class": name, "amount": amount, "instead_of": was},
        )
        yield WouldFit(
            without=tuple((CANDIDATES, label) for label in _labels(miss.terms)),
            hosts=tuple(state.host for state in passed),
            why=f"would fit with {name}:{amount} instead of {was}",
            change=change,
            # Hosts that were not tried have room for less, unless the last one tried has as much.
            exact=len(nearest) < self.left or amount != values[-1],
        )

    def _asking(self, name: str, more: int) -> RequestSpec:
        """Return the request with a flavor that asks for so much more of a class, where it does.

        Some filters go by the flavor, and not by what the search was asked for.
        """
        spec = first_instance(self.run)
        part = _OF_FLAVOR.get(name)
        if part is None or f"resources:{name}" in spec.flavor.extra_specs:
            return spec
        amount = max(getattr(spec.flavor, part) + more, 0)
        return replace(spec, flavor=replace(spec.flavor, **{part: amount}))

    def _without(
        self, miss: NearMiss, passed: Sequence[HostState], *, exact: bool
    ) -> Iterator[WouldFit]:
        """Yield the hosts that pass without the terms, by the aggregates that keep them out."""
        labels = _labels(miss.terms)
        without = tuple((CANDIDATES, label) for label in labels)
        by_aggregates: Mapping[tuple[str, ...], Sequence[HostState]] = {(): passed}
        names = CloudNames.of(self.run, ())
        if miss.constraint == "member_of" and miss.detail.startswith("!in:") and not miss.others:
            names = CloudNames.of(self.run, [str(state.uuid) for state in passed])
            by_aggregates = _inside(names, miss.detail, passed)
        for uuids, states in by_aggregates.items():
            several, change = len(states) > 1 or not exact, None
            why = would_fit_but(miss.terms, (), names.name, several=several)
            if uuids:
                why = "fit but are in " if several else "fits but is in "
                why += listed(map(names.name, uuids))
            if needed := names.needed(uuids):
                named = traits_named(needed)
                why += f", which {'needs' if len(uuids) == 1 else 'need'} {named}"
                change = Remedy("ask_traits", f"ask for {named}", {"traits": list(needed)})
            hosts = tuple(state.host for state in states)
            yield WouldFit(without=without, hosts=hosts, why=why, change=change, exact=exact)


def _without_traits(spec: RequestSpec, traits: Collection[str]) -> RequestSpec:
    """Return a request whose flavor and image do not require these traits."""

    def is_left(key: str) -> bool:
        return not (key.startswith("trait") and key.partition(":")[2] in traits)

    extra_specs = {key: value for key, value in spec.flavor.extra_specs.items() if is_left(key)}
    properties = spec.image.properties.to_dict()
    if required := properties.pop("traits_required", None):
        properties["traits_required"] = [name for name in required if name not in traits]
    return replace(
        spec,
        flavor=replace(spec.flavor, extra_specs=extra_specs),
        image=replace(
            spec.image,
            properties=ImageProperties(properties),
            suffixed_traits=spec.image.suffixed_traits - set(traits),
        ),
    )


def _inside(
    names: CloudNames, detail: str, states: Sequence[HostState]
) -> Mapping[tuple[str, ...], Sequence[HostState]]:
    """Return the hosts by those of the forbidden aggregates that they are in."""
    inside = defaultdict[tuple[str, ...], list[HostState]](list)
    forbidden = set(detail.removeprefix("!in:").split(" ")[0].split(","))
    for state in states:
        mine = names.memberships.get(str(state.uuid), frozenset()) & forbidden
        inside[tuple(sorted(mine, key=names.name))].append(state)
    return inside


def explained(connection: Connection, run: Run, view: View) -> Json:
    """Return how a run went; where the view is of some hosts, with a verdict on each of them."""
    judged: Json = {}
    chosen = run.request.chosen
    hosts = run.choice.first.host_reports() if run.choice else ()
    if view.hosts is None:
        funnel = funnel_of(run, connection, view)
    else:
        asked = asked_hosts(connection, view.hosts)
        nodes = (one.node for some in asked.values() for one in some)
        view = View(frozenset([*asked, *nodes]), view.max_rejected)
        # Whatever is shown of it, verdicts may need what it says of each host.
        funnel = funnel_of(run, connection, replace(view, max_rejected=0))
        found = verdicts(connection, run, asked, funnel)
        judged = {"verdicts": [one.as_json() for one in found], "stages": stages_of_run(run, found)}
    if view.hosts is None:  # what is least to change in the whole cloud; verdicts say it of a host
        misses = funnel.allocation_candidates.nearest_misses
        funnel = replace(funnel, would_fit=would_fit(connection, run, misses))
    return {
        "outcome": SELECTED if run.selections else NO_VALID_HOST,
        "policy": chosen.policy.name if chosen else DEFAULT_POLICY,
        **judged,
        "funnel": funnel.as_json(view),
        "hosts": hosts_as_json(hosts, view),
        "selections": [[one.as_json() for one in some] for some in run.selections],
    }


def stages_of_run(run: Run, verdicts: Iterable[HostVerdict]) -> list[Json]:
    """Return family and name of each stage that hosts were asked by, in order, each once.

    A host that is not rejected by one of them passes it. Those that no constraint or plugin stands
    for (``limit``, ``combination``) are there where they reject a host.
    """
    found = [(REQUEST_FILTERS, report.name) for report in run.narrowed.reports if report.applied]
    found += [(REQUEST_FILTERS, one.name) for one in run.narrowed.reports if one.refusal]
    for before, asked in asked_searches(run):
        steps = stages_of(asked.search)
        found += [(CANDIDATES, f"{before}{one.kind} {one.detail}".strip()) for one in steps]
    after = [(FILTERS, name) for name in run.chooser.stage_names(first_instance(run))]
    others = [(one.stage, one.name) for verdict in verdicts for one in verdict.reasons if one.name]
    before_filters = [one for one in others if one[0] != FILTERS]
    every = dict.fromkeys([*found, *before_filters, (FILTERS, COMPUTE_NODES), *after, *others])
    if (FILTERS, COMPUTE_NODES) not in others:
        del every[FILTERS, COMPUTE_NODES]
    return [{"stage": stage, "name": name} for stage, name in every]
