"""The parts of a request as a report names them, each with how to leave it out."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from placement_sched.candidates.search import Search
from placement_sched.candidates.sieve import Sieve
from placement_sched.model.query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)

Loosening = Callable[[CandidatesQuery], CandidatesQuery]


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a request: its name, ``(constraint, detail)``, and how to leave it out."""

    name: tuple[str, str]
    drop: Loosening


def terms_of(search: Search, sieves: Sequence[Sieve]) -> Iterator[Term]:
    """Yield the terms of a request: one for each sieve, in their order, then rules of groups."""
    query = search.query
    for sieve, drop in zip(sieves, _drops(query), strict=True):
        yield Term((sieve.kind, sieve.detail), drop)
    if query.isolates:
        yield Term(("group_policy", "isolate"), _without_policy)
    for suffixes in dict.fromkeys(query.same_subtrees):
        yield Term(("same_subtree", ",".join(suffixes)), partial(_without_subtree, suffixes))


def without(search: Search, terms: Iterable[Term]) -> Search:
    """Return the search that does not ask for these."""
    query = search.query
    for term in terms:
        query = term.drop(query)
    return Search(query, search.names)


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
