"""The nearest misses of a whole run: what is least to change so that a request finds hosts.

Where no host was found: of the hosts that the search finds, those that the fewest filters reject;
of the others, those that the fewest constraints keep out, tried again without them, or with the
nearest amount, by the search and every filter. A host is counted only if it would be selected.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from placement_sched.candidates.explain import amounts
from placement_sched.candidates.explain.near_misses import amount_named, query_asking, query_without
from placement_sched.candidates.explain.report import near_misses_of
from placement_sched.candidates.explain.trees import SearchRun
from placement_sched.candidates.search import Search
from placement_sched.db.transaction import Connection
from placement_sched.errors import PluginFailed
from placement_sched.model.placement.query import CandidatesQuery
from placement_sched.model.results.funnel import FILTERS
from placement_sched.model.results.stages import CANDIDATES, FilterReport, NearMiss, NearMisses
from placement_sched.model.results.would_fit import WouldFit, least
from placement_sched.model.verdict import Change
from placement_sched.scheduler.choose import Run
from placement_sched.scheduler.explain.cloud_names import CloudNames
from placement_sched.scheduler.explain.trials import first_instance, found_on, states_of
from placement_sched.scheduler.host_state import HostState

#: So many hosts are tried without constraints, as many as a selection looks at by default.
_TRIED = 1000
#: So many sets of constraints are tried.
_SETS = 5

#: Some hosts by the names of the stages that reject each, with what those stages say.
_Rejecting = Mapping[tuple[str, ...], Sequence[tuple[HostState, tuple[FilterReport, ...]]]]


def would_fit(connection: Connection, run: Run, known: NearMisses) -> tuple[WouldFit, ...]:
    """Return what is least to change, where the first instance of a request found no host.

    ``known`` are the nearest misses of the search where it found nothing.
    """
    if run.choice is None or run.choice.first.ordered or run.searches.asked is None:
        return ()
    asked, settings = run.searches.asked, run.request.settings
    found = list(_by_filters((), _rejecting(run, run.hosts)))
    misses = known.found
    if run.searches.found.requests:
        source = run.cloud.providers
        searched = SearchRun(connection, source, asked.search, asked.found, settings)
        misses = near_misses_of(searched).found
    trial = _Trial(connection, run, asked.search)
    for miss in misses[:_SETS]:
        found += trial.of(miss)
    return least(found)


def _rejecting(run: Run, states: Collection[HostState]) -> _Rejecting:
    """Return the hosts by the names of all stages after the search that reject them."""
    by_names = defaultdict[tuple[str, ...], list[tuple[HostState, tuple[FilterReport, ...]]]](list)
    spec = first_instance(run)
    for state in states:
        try:
            reports = tuple(run.chooser.each_refusal(copy(state), spec))
        except PluginFailed:
            continue
        by_names[tuple(one.name for one in reports)].append((state, reports))
    return by_names


def _passing(rejecting: _Rejecting) -> list[HostState]:
    return [state for state, _ in rejecting.get((), ())]


def _labels(terms: Sequence[tuple[str, str]]) -> list[str]:
    return [f"{kind} {detail}".strip() for kind, detail in terms]


def _by_filters(
    terms: Sequence[tuple[str, str]], rejecting: _Rejecting, *, exact: bool = True
) -> Iterator[WouldFit]:
    """Yield the hosts that would fit but for filters, and for these terms of the search."""
    labels = _labels(terms)
    for names, some in rejecting.items():
        if not names:
            continue
        reports = some[0][1]
        why, change = f"would fit but for {' and '.join([*labels, *names])}", None
        if len(some) == 1:
            why += f": {'; '.join(report.rejected[0].reason for report in reports)}"
            if not labels and len(names) == 1:
                change = next(iter(reports[0].rejected[0].changes), None)
        yield WouldFit(
            without=(*((CANDIDATES, one) for one in labels), *((FILTERS, one) for one in names)),
            hosts=tuple(state.host for state, _ in some),
            why=why,
            change=change,
            exact=exact,
        )


@dataclass(slots=True)
class _Trial:
    """Tries the nearest misses of a search; ``left`` is how many hosts may be tried yet."""

    connection: Connection
    run: Run
    search: Search
    left: int = _TRIED

    def of(self, miss: NearMiss) -> Iterator[WouldFit]:
        """Yield what would fit without the terms of a near miss, or with another amount."""
        asked = amount_named(self.search, miss.terms[0]) if not miss.others else None
        nearest: Mapping[int, int] = {}
        roots: Sequence[int] = miss.roots
        if asked is not None:
            nearest = amounts.nearest_amounts(self.connection, self.search, roots, *asked)
            roots = sorted(roots, key=lambda root: abs(asked[1] - nearest.get(root, -asked[1])))
        tried = roots[: self.left]
        self.left -= len(tried)
        query = query_without(self.search, miss.terms)
        if not tried or not query.groups:
            return
        exact = len(tried) == len(roots)
        uuids = amounts.uuids_of(self.connection, tried)
        rejecting = self._tried(query, uuids.values())
        yield from _by_filters(miss.terms, rejecting, exact=exact)
        if nearest:
            few = {uuid: nearest[root] for root, uuid in uuids.items() if root in nearest}
            yield from self._with_amount(miss, few, exact=exact)
        elif passed := _passing(rejecting):
            yield from self._without(miss, passed, exact=exact)

    def _tried(self, query: CandidatesQuery, roots: Collection[str]) -> _Rejecting:
        return _rejecting(self.run, states_of(self.run, found_on(self.run, query, roots)))

    def _with_amount(
        self, miss: NearMiss, few: Mapping[str, int], *, exact: bool
    ) -> Iterator[WouldFit]:
        """Yield how many of a few hosts fit with the amount nearest to the one requested.

        Each of ``few`` has its own: in a cloud without trees the first of them serves.
        """
        name, was = amount_named(self.search, miss.terms[0]) or ("", 0)
        below = [one for one in few.values() if one < was]
        values = sorted(set(below or few.values()), key=lambda one: abs(was - one))

        def passing(amount: int) -> list[HostState]:
            query = query_asking(self.search, miss.terms[0], amount)
            return _passing(self._tried(query, list(few)))

        passed, at = passing(values[0]), 0
        if not passed:  # the less is requested, the more hosts have room for it
            at = 1 + bisect_left(values[1:], 1, key=lambda amount: len(passing(amount)) > 0)
            passed = passing(values[at]) if at < len(values) else []
        if not passed:
            return
        amount, most = values[at], "most" if values[at] < was else "least"
        change = Change(
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
            exact=exact or amount != values[-1],
        )

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
            why, change = f"would fit but for {' and '.join(labels)}", None
            if uuids:
                why = "fits but is in " if len(states) == 1 else "fit but are in "
                why += " and ".join(map(names.name, uuids))
            if needed := names.needed(uuids):
                named = " and ".join(needed)
                why += f", which needs trait {named}"
                change = Change("ask_traits", f"ask for trait {named}", {"traits": list(needed)})
            hosts = tuple(state.host for state in states)
            yield WouldFit(without=without, hosts=hosts, why=why, change=change, exact=exact)


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
