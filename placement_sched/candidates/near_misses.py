"""The smallest sets of constraints without which a request on trees would have candidates.

The request is asked again without a constraint, and where that never helps without two. Which sets
are worth asking is read off what every provider misses, so that few are asked.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

from sqlalchemy import Connection

from placement_sched.candidates.combine import Budget, can_serve
from placement_sched.candidates.forest import serving_roots
from placement_sched.candidates.search import Search, forest_of
from placement_sched.candidates.sieve import Grove, Sieve, groves_of, sieves_of
from placement_sched.candidates.trees import read_trees
from placement_sched.config.settings import Settings
from placement_sched.errors import TooComplex
from placement_sched.model.query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.report import NearMiss

Loosening = Callable[[CandidatesQuery], CandidatesQuery]


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What stands in the way of a tree, the same for very many trees.

    The constraints that its root misses; and for each slot, of all that might serve it, the sets
    of constraints that each of them misses.
    """

    root: frozenset[int]
    slots: tuple[frozenset[frozenset[int]], ...]


@dataclass(frozen=True, slots=True)
class _Term:
    """A part of the request, as a report names it, and how to leave it out.

    ``index`` is the position of its sieve; a rule about groups together has none.
    """

    kind: str
    detail: str
    drop: Loosening
    index: int | None = None


def near_misses(connection: Connection, search: Search, settings: Settings) -> tuple[NearMiss, ...]:
    """Return the single terms without which trees would serve, else the pairs; most trees first."""
    sieves = sieves_of(search)
    patterns = Counter(_pattern(grove, sieves) for grove in groves_of(connection, search))
    terms = tuple(_terms(search, sieves))
    for size in (1, 2):
        found = []
        for some in combinations(terms, size):
            dropped = {term.index for term in some if term.index is not None}
            if not any(_might_serve(pattern, sieves, dropped) for pattern in patterns):
                continue
            if trees := _serving(connection, _without(search, some), settings):
                found.append(NearMiss.of([(term.kind, term.detail) for term in some], trees))
        if found:
            return tuple(sorted(found, key=lambda miss: -miss.hosts))
    return ()


def _pattern(grove: Grove, sieves: Sequence[Sieve]) -> _Pattern:
    root = frozenset(s.index for s in sieves if s.of_root and not grove.root.met[s.index])
    slots = tuple(
        frozenset(
            frozenset(s.index for s in sieves if slot in s.slots and not member.met[s.index])
            for member in members
        )
        for slot, members in enumerate(grove.slots)
    )
    return _Pattern(root, slots)


def _might_serve(pattern: _Pattern, sieves: Sequence[Sieve], dropped: Collection[int]) -> bool:
    """Return whether such trees could serve without some constraints; a no is final.

    A slot of which an amount is dropped may be gone altogether, and is not looked at. Memberships
    are asked together, so that none is looked at in a slot of which one is dropped.
    """
    together = {sieve.index for sieve in sieves if sieve.together}
    free = {
        slot
        for sieve in sieves
        if sieve.index in dropped and sieve.constraint.resource_class
        for slot in sieve.slots
    }
    lenient = together.union(dropped, _beside(sieves, dropped))
    left = [[one for one in slot if one <= lenient] for slot in pattern.slots]
    return (
        pattern.root <= set(dropped)
        and all(left[slot] for slot in range(len(left)) if slot not in free)
        and all(
            any(sieve.index not in one for slot in sieve.slots for one in left[slot])
            for sieve in sieves
            if sieve.together and sieve.index not in dropped
        )
    )


def _beside(sieves: Sequence[Sieve], dropped: Collection[int]) -> set[int]:
    """Return the memberships that are asked of the same group as one of those dropped."""
    members = [sieve for sieve in sieves if sieve.constraint.kind == "member_of"]
    suffixes = {sieve.suffix for sieve in members if sieve.index in dropped}
    return {sieve.index for sieve in members if sieve.suffix in suffixes}


def _serving(connection: Connection, search: Search, settings: Settings) -> int:
    """Return how many trees serve a request; 0 too where it takes too long to find out."""
    forest = forest_of(search)
    budget = Budget(settings.placement.allocation_candidates_budget)
    stand = read_trees(connection, forest, serving_roots(connection, forest, None))
    try:
        return sum(can_serve(tree, forest.rules, budget) for tree in stand.trees.values())
    except TooComplex:
        return 0


def _without(search: Search, terms: Sequence[_Term]) -> Search:
    query = search.query
    for term in terms:
        query = term.drop(query)
    return Search(query, search.names)


def _terms(search: Search, sieves: Sequence[Sieve]) -> Iterator[_Term]:
    query = search.query
    for sieve, drop in zip(sieves, _drops(query), strict=True):
        yield _Term(sieve.kind, sieve.detail, drop, sieve.index)
    if query.isolates:
        yield _Term("group_policy", "isolate", _without_policy)
    for suffixes in dict.fromkeys(query.same_subtrees):
        yield _Term("same_subtree", ",".join(suffixes), partial(_without_subtree, suffixes))


def _drops(query: CandidatesQuery) -> Iterator[Loosening]:
    """Yield how to leave out each constraint, in the order of the sieves."""
    for group in query.groups:
        for loosen in _loosenings(group):
            yield partial(_in_group, group.suffix, loosen)
    for loosen in _loosenings(RequestGroup(traits=query.root)):
        yield partial(_in_root, loosen)


def _loosenings(group: RequestGroup) -> Iterator[Callable[[RequestGroup], RequestGroup]]:
    """Yield how to leave out each constraint of a group, in the order of ``constraints_of``."""
    for name, _ in group.resources:
        yield partial(_without_class, name)
    for any_of in group.traits.required:
        yield partial(_without_trait, any_of)
    for name in sorted(group.traits.forbidden):
        yield partial(_with_trait, name)
    for uuids in group.aggregates.member_of:
        yield partial(_without_membership, uuids)
    if group.aggregates.forbidden:
        yield lambda some: replace(some, aggregates=AggregateTerms(some.aggregates.member_of))
    if group.in_tree is not None:
        yield lambda some: replace(some, in_tree=None)


def _in_group(
    suffix: str, loosen: Callable[[RequestGroup], RequestGroup], query: CandidatesQuery
) -> CandidatesQuery:
    groups = (loosen(one) if one.suffix == suffix else one for one in query.groups)
    return replace(query, groups=tuple(groups))


def _in_root(
    loosen: Callable[[RequestGroup], RequestGroup], query: CandidatesQuery
) -> CandidatesQuery:
    return replace(query, root=loosen(RequestGroup(traits=query.root)).traits)


def _without_policy(query: CandidatesQuery) -> CandidatesQuery:
    return replace(query, group_policy="none")


def _without_subtree(suffixes: tuple[str, ...], query: CandidatesQuery) -> CandidatesQuery:
    others = tuple(other for other in query.same_subtrees if other != suffixes)
    return replace(query, same_subtrees=others)


def _without_class(name: str, group: RequestGroup) -> RequestGroup:
    return replace(group, resources=tuple(one for one in group.resources if one[0] != name))


def _without_trait(any_of: frozenset[str], group: RequestGroup) -> RequestGroup:
    required = tuple(other for other in group.traits.required if other != any_of)
    return replace(group, traits=TraitTerms(required, group.traits.forbidden))


def _with_trait(name: str, group: RequestGroup) -> RequestGroup:
    return replace(group, traits=TraitTerms(group.traits.required, group.traits.forbidden - {name}))


def _without_membership(uuids: frozenset[str], group: RequestGroup) -> RequestGroup:
    member_of = tuple(other for other in group.aggregates.member_of if other != uuids)
    return replace(group, aggregates=AggregateTerms(member_of, group.aggregates.forbidden))
