"""The smallest sets of constraints without which a request on trees would have candidates.

The request is evaluated without one constraint, where that never helps without two, and so on.
What every provider misses limits which sets may help, so that few are evaluated; all work for an
explanation is paid from one budget.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import combinations
from operator import itemgetter, or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from placement_sched.candidates.combine import Budget, FreeCapacity, ProviderTree, can_serve
from placement_sched.candidates.explain_stages import CheckedTrees, Stage, stages_of
from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.request import Rules, serves_alone, slots_of, tree_search
from placement_sched.candidates.search import Search
from placement_sched.candidates.trees import TreeReader
from placement_sched.config.settings import Settings
from placement_sched.errors import TooComplex
from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.model.explanation import NearMiss, NearMisses
from placement_sched.model.verdict import Remedy

#: The part of the search's budget that an explanation may spend, a quarter of a second's worth.
_PART = 4
#: Steps for each tree on top, several times what a tree without difficulties takes.
_EACH = 100

#: The steps of another evaluation, and of each slot in it: about building and running statements.
_EVALUATION = 1000
_SLOT = 500
#: The steps of each tree that is read for it.
_READ = 5


def explanation_budget(settings: Settings, trees: int, shares: int = 1) -> Budget:
    """Return the budget of an explanation of so many trees, or one of so many shares of it.

    A request that no host can serve is always explained, so this is what each such request may
    cost at most. Without bound where ``[placement] allocation_candidates_budget`` is 0.
    """
    steps = settings.placement.allocation_candidates_budget
    return Budget(((steps // _PART) + _EACH * trees) // shares or 1 if steps else 0)


def near_misses(
    source: ProviderSource,
    search: Search,
    checked: CheckedTrees,
    budget: Budget,
    left_out: Collection[int] = (),
) -> NearMisses:
    """Return the smallest sets of terms without which trees would serve, most trees first.

    Trees are left out by the ids of their roots. If the budget does not suffice,
    those found by then of the current size, if any.
    """
    if search.is_single:
        return _of_single(checked, left_out)
    patterns = tuple(_patterns(checked, left_out))
    terms = tuple(_terms(search.query, checked.stages))
    rules = (1 << len(terms)) - (1 << len(checked.stages))
    found: list[NearMiss] = []
    complete = True
    try:
        blockers = _Blockers(search, checked.stages, patterns, budget)
        for size in range(1, len(terms) + 1 if patterns else 1):
            for some in blockers.sets_of(size, rules):
                dropped = [term for position, term in enumerate(terms) if some >> position & 1]
                roots = blockers.trees_without(some)
                looser = tree_search(_without(search.query, dropped), search.names)
                budget.spend(_EVALUATION + _SLOT * len(looser.slots) + _READ * len(roots))
                reader = TreeReader(source, looser, budget, for_explanation=True)
                tried = reader.read(roots).check(budget)
                if helped := tuple(root for root, serves in tried if serves):
                    names = [term.name for term in dropped]
                    found.append(NearMiss.of(names, len(helped), helped))
            if found:
                break
    except TooComplex:
        complete = False
    return NearMisses.of(found, complete=complete)


def _of_single(checked: CheckedTrees, left_out: Collection[int]) -> NearMisses:
    """Return the smallest sets of constraints that are all that a provider does not meet.

    Only without all of them is it found, so that no other set can be smaller.
    """
    ids = checked.uses.ids
    unmet = ~checked.met.T
    numbers = unmet.sum(axis=1)
    numbers[np.isin(ids, list(left_out)) | (numbers == 0)] = len(checked.stages) + 1
    nearest = np.flatnonzero(numbers == numbers.min(initial=len(checked.stages)))
    patterns, which = np.unique(unmet[nearest], axis=0, return_inverse=True)
    names = [(stage.kind, stage.detail) for stage in checked.stages]
    found = []
    for number, pattern in enumerate(patterns):
        roots = tuple(ids[nearest[which.ravel() == number]].tolist())
        terms = [names[at] for at in np.flatnonzero(pattern).tolist()]
        found.append((np.flatnonzero(pattern).tolist(), NearMiss.of(terms, len(roots), roots)))
    return NearMisses.of(miss for _, miss in sorted(found, key=itemgetter(0)))


class _Term(NamedTuple):
    """A part of a request that can be left out, with its name ``(constraint, detail)``.

    A constraint has the ``suffix`` of its group (None: the root) and a group of only that.
    """

    name: tuple[str, str]
    suffix: str | None = None
    constraint: RequestGroup | None = None
    subtree: tuple[str, ...] = ()


_POLICY = _Term(("group_policy", "isolate"))


def _terms(query: CandidatesQuery, stages: Sequence[Stage]) -> Iterator[_Term]:
    """Yield the terms of a request: one for each stage, in their order, then rules of groups."""
    constraints: list[tuple[str | None, RequestGroup]] = [
        (group.suffix, one) for group in query.groups for one in _split(group)
    ]
    constraints += [(None, one) for one in _split(RequestGroup(traits=query.root))]
    for stage, (suffix, one) in zip(stages, constraints, strict=True):
        yield _Term((stage.kind, stage.detail), suffix, one)
    if query.isolates:
        yield _POLICY
    for suffixes in dict.fromkeys(query.same_subtrees):
        yield _Term(("same_subtree", ",".join(suffixes)), subtree=suffixes)


def query_without(search: Search, names: Collection[tuple[str, str]]) -> CandidatesQuery:
    """Return the query of a search without the terms of these names ``(constraint, detail)``."""
    terms = _terms(search.query, stages_of(search))
    return _without(search.query, [term for term in terms if term.name in names])


def amount_named(search: Search, name: tuple[str, str]) -> tuple[str, int] | None:
    """Return the resource class and the amount of a term, None for a term of another kind."""
    for term in _terms(search.query, stages_of(search)):
        if term.name == name and term.constraint is not None and term.constraint.resources:
            return term.constraint.resources[0]
    return None


def query_asking(search: Search, name: tuple[str, str], amount: int) -> CandidatesQuery:
    """Return the query of a search with another amount in the term of this name."""
    terms = _terms(search.query, stages_of(search))
    suffix, asked = next((one.suffix, one.constraint) for one in terms if one.name == name)
    old = asked.resources if asked else ()

    def changed(group: RequestGroup) -> RequestGroup:
        if group.suffix != suffix:
            return group
        resources = [(key, amount if (key, n) in old else n) for key, n in group.resources]
        return replace(group, resources=tuple(resources))

    return replace(search.query, groups=tuple(map(changed, search.query.groups)))


def _without(query: CandidatesQuery, dropped: Sequence[_Term]) -> CandidatesQuery:
    constraints = {(term.suffix, term.constraint) for term in dropped}
    subtrees = {term.subtree for term in dropped}

    def rest(suffix: str | None, group: RequestGroup) -> RequestGroup:
        left = [one for one in _split(group) if (suffix, one) not in constraints]
        return _joined(group.suffix, left)

    return replace(
        query,
        groups=tuple(rest(group.suffix, group) for group in query.groups),
        root=rest(None, RequestGroup(traits=query.root)).traits,
        group_policy="none" if _POLICY in dropped else query.group_policy,
        same_subtrees=tuple(one for one in query.same_subtrees if one not in subtrees),
    )


def _split(group: RequestGroup) -> Iterator[RequestGroup]:
    """Yield a group for each constraint of a group, in the order of ``constraints_of``."""
    for amount in group.resources:
        yield RequestGroup(resources=(amount,))
    for any_of in group.traits.required:
        yield RequestGroup(traits=TraitTerms((any_of,)))
    for name in sorted(group.traits.forbidden):
        yield RequestGroup(traits=TraitTerms((), frozenset({name})))
    for uuids in group.aggregates.member_of:
        yield RequestGroup(aggregates=AggregateTerms((uuids,)))
    if group.aggregates.forbidden:
        yield RequestGroup(aggregates=AggregateTerms((), group.aggregates.forbidden))
    if group.in_tree is not None:
        yield RequestGroup(in_tree=group.in_tree)


def _joined(suffix: str, some: Sequence[RequestGroup]) -> RequestGroup:
    return RequestGroup(
        suffix=suffix,
        resources=tuple(amount for one in some for amount in one.resources),
        traits=TraitTerms(
            tuple(any_of for one in some for any_of in one.traits.required),
            frozenset().union(*(one.traits.forbidden for one in some)),
        ),
        aggregates=AggregateTerms(
            tuple(uuids for one in some for uuids in one.aggregates.member_of),
            frozenset().union(*(one.aggregates.forbidden for one in some)),
        ),
        in_tree=next((one.in_tree for one in some if one.in_tree is not None), None),
    )


#: So many checks of a pattern, each of one provider for one slot, are worth a step.
_QUICK = 8


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What blocks trees, the same for very many of them.

    The constraints that the root misses; for each slot, the constraints that each provider which
    might serve it misses; and the roots of the ``trees`` with this pattern.
    """

    root: int
    slots: tuple[tuple[int, ...], ...]
    trees: tuple[int, ...]

    @property
    def price(self) -> int:
        return 1 + sum(map(len, self.slots)) // _QUICK


class _Blockers:
    """Which constraints block which trees, and which of them may be dropped together.

    Methods raise :class:`TooComplex` where the budget does not suffice.
    """

    def __init__(
        self, search: Search, stages: Sequence[Stage], patterns: Sequence[_Pattern], budget: Budget
    ) -> None:
        self._budget = budget
        self._together = [stage for stage in stages if stage.together]
        self._lenient = _set_of(self._together)
        self._mixing = _mixing(search, stages)
        self._freeing = _freeing(search, stages)
        self._patterns = patterns
        missed = (mask for one in self._patterns for masks in one.slots for mask in masks)
        roots = (one.root for one in self._patterns)
        amounts = _set_of(stage for stage in stages if stage.constraint.resource_class)
        # The constraints that may matter.
        self._relevant = reduce(or_, (*missed, *roots), amounts | self._lenient | self._mixing)

    def sets_of(self, size: int, rules: int) -> Iterator[int]:
        """Yield each set of so many, constraints or ``rules``, without which trees might serve.

        Whether they do, only the search shows; without any other set of this size they do not.
        """
        yielded: set[int] = set()
        for few in sorted(self._least(size), key=lambda some: (-some.bit_count(), some)):
            others = tuple(_bits((self._relevant | rules) & ~few))
            for more in combinations(others, size - few.bit_count()):
                self._budget.spend(1)
                whole = few | sum(more)
                if whole not in yielded:
                    yielded.add(whole)
                    yield whole

    def trees_without(self, dropped: int) -> list[int]:
        """Return the roots of the trees that might serve without some constraints."""
        self._budget.spend(sum(pattern.price for pattern in self._patterns))
        return [
            tree
            for pattern in self._patterns
            if self._blocked_by(pattern, dropped) is None
            for tree in pattern.trees
        ]

    def _least(self, most: int) -> set[int]:
        """Return sets of at most so many constraints without which trees might serve.

        Each such set is one of them, or contains one of them.
        """
        found: set[int] = set()
        for pattern in self._patterns:
            seen, open_sets = {0}, [0]
            while open_sets:
                dropped = open_sets.pop()
                self._budget.spend(pattern.price)
                blockers = self._blocked_by(pattern, dropped)
                if blockers is None:
                    found.add(dropped)
                    continue
                more = {dropped | blocker for blocker in blockers} - seen
                open_sets += (some for some in more if some.bit_count() <= most)
                seen |= more
        return found

    def _blocked_by(self, pattern: _Pattern, dropped: int) -> list[int] | None:
        """Return sets of which one has to be dropped as well, or None where nothing blocks."""
        if missing := pattern.root & ~dropped:
            return [missing]
        lenient = dropped | self._lenient
        if dropped & self._mixing:
            lenient |= self._mixing
        for masks, freeing in zip(pattern.slots, self._freeing, strict=True):
            if not (dropped & freeing or any(not mask & ~lenient for mask in masks)):
                return [*_bits(freeing), *self._missing(masks, lenient)]
        for stage in self._together:
            bit = 1 << stage.index
            having = [m for slot in stage.slots for m in pattern.slots[slot] if not m & bit]
            if not (dropped & bit or any(not mask & ~lenient for mask in having)):
                return [bit, *self._missing(having, lenient)]
        return None

    def _missing(self, masks: Iterable[int], lenient: int) -> Iterator[int]:
        for missing in {mask & ~lenient for mask in masks}:
            if mixed := missing & self._mixing:
                yield from (missing & ~mixed | one for one in _bits(self._mixing))
            else:
                yield missing


def _patterns(checked: CheckedTrees, left_out: Collection[int]) -> Iterator[_Pattern]:
    """Yield the patterns of the trees, which many trees share."""
    uses, stages = checked.uses, checked.stages
    of_root = _set_of(stage for stage in stages if stage.of_root)
    missed, which = _missed(checked.met)
    pairs = np.unique(np.stack((uses.trees, which), axis=1), axis=0)
    bounds = np.searchsorted(pairs[:, 0], np.arange(len(uses) + 1)).tolist()
    numbers, root_ids = pairs[:, 1].tolist(), uses.root_ids.tolist()
    roots = [missed[number] & of_root for number in which[uses.root_uses].tolist()]
    equal: dict[tuple[int, tuple[int, ...]], list[int]] = defaultdict(list)
    for tree, root in enumerate(root_ids):
        if root not in left_out:
            every = tuple(numbers[bounds[tree] : bounds[tree + 1]])
            equal[roots[tree], every].append(root)
    for (of_this_root, every), some in equal.items():
        slots = []
        for slot in range(checked.slots):
            concerned = _set_of(stage for stage in stages if slot in stage.slots)
            slots.append(tuple(sorted({missed[number] & concerned for number in every})))
        yield _Pattern(of_this_root, tuple(slots), tuple(some))


def _missed(met: NDArray[np.bool_]) -> tuple[list[int], NDArray[np.int64]]:
    """Return sets of stages as bits, and which of these sets each use misses."""
    columns, which = np.unique(~met, axis=1, return_inverse=True)
    packed = np.packbits(columns, axis=0, bitorder="little")
    return [int.from_bytes(one.tobytes(), "little") for one in packed.T], which.ravel()


def _mixing(search: Search, stages: Sequence[Stage]) -> int:
    """Return the memberships that are required together, so that each depends on the others."""
    group = search.query.group
    if group is None or len(group.aggregates.member_of) < 2 or not search.names.topology.nested:
        return 0
    return _set_of(one for one in stages if one.constraint.kind == "member_of" and not one.suffix)


def _freeing(search: Search, stages: Sequence[Stage]) -> tuple[int, ...]:
    """Return for each slot the amount without which there is no slot, if several may serve."""
    group = search.query.group
    split = group is not None and not serves_alone(group)
    amounts = [one for one in stages if split and one.constraint.resource_class and not one.suffix]
    return tuple(
        _set_of(one for one in amounts if one.slots == (slot,))
        for slot in range(len(slots_of(search.query, search.names)))
    )


def _set_of(stages: Iterable[Stage]) -> int:
    return sum(1 << stage.index for stage in stages)


def _bits(some: int) -> Iterator[int]:
    while some:
        last = some & -some
        yield last
        some ^= last


#: How many amounts of a class are listed.
_NAMED = 3
_OTHER_TREE = "only its sharing providers match; reported under another tree"


class BrokenRule(NamedTuple):
    """Why a rule keeps a tree from serving.

    ``change`` returns the smallest change after which it does not, None where none is known.
    """

    reason: str
    change: Callable[[], Remedy | None] = lambda: None


class TreeNames(NamedTuple):
    """The names of resource classes by id, and of the providers of a tree in its order."""

    classes: Mapping[int, str]
    providers: Sequence[str | None]


def broken_rules(
    tree: ProviderTree, rules: Rules, names: TreeNames, budget: Budget
) -> Iterator[BrokenRule]:
    """Yield each rule without which the tree would serve.

    Raises :class:`TooComplex` where the budget does not suffice to find them. A change for which it
    does not is not known.
    """
    if can_serve(tree, rules, budget):
        yield BrokenRule(_OTHER_TREE)
        return
    if rules.isolate and can_serve(tree, replace(rules, isolate=False), budget):
        yield BrokenRule(
            "no separate provider for each group with a suffix (group_policy=isolate)",
            partial(_dropped, "ask with group_policy=none", "group_policy", "isolate"),
        )
    for subtree in rules.subtrees:
        others = tuple(other for other in rules.subtrees if other != subtree)
        if can_serve(tree, replace(rules, subtrees=others), budget):
            named = ",".join(rules.slots[slot].suffix for slot in subtree)
            words = f"ask without same_subtree={named}"
            change = partial(_dropped, words, "same_subtree", named)
            yield BrokenRule(f"no providers in one subtree (same_subtree={named})", change)
    for class_id in sorted({class_id for _, class_id in tree.free}):
        rest = {key: free for key, free in tree.free.items() if key[1] != class_id}
        if can_serve(replace(tree, free=rest), rules, budget):
            reason = f"{names.classes[class_id]}: {_too_much(tree, rules, class_id)}"
            yield BrokenRule(reason, partial(_room, tree, rules, class_id, names, budget))
    if rules.trait_choices and can_serve(tree, replace(rules, trait_choices=()), budget):
        yield BrokenRule("no providers that have all required traits together")


def _dropped(words: str, constraint: str, detail: str) -> Remedy:
    return Remedy("drop_constraint", words, {"constraint": constraint, "detail": detail})


def _amounts(rules: Rules, class_id: int) -> dict[int, int]:
    """Return the requested amounts of a class by slot."""
    return {
        position: amount
        for position, slot in enumerate(rules.slots)
        for of_class, amount in slot.amounts
        if of_class == class_id
    }


def _too_much(tree: ProviderTree, rules: Rules, class_id: int) -> str:
    amounts = _amounts(rules, class_id)
    options = {provider for position in amounts for provider in tree.options[position]}
    free = sorted((tree.free[provider, class_id].amount for provider in options), reverse=True)
    named = ", ".join(map(str, free[:_NAMED])) + (", ..." if len(free) > _NAMED else "")
    return f"{' + '.join(map(str, amounts.values()))} requested, free on each provider: {named}"


def _room(
    tree: ProviderTree, rules: Rules, class_id: int, names: TreeNames, budget: Budget
) -> Remedy | None:
    """Return how much more room one provider would have to have, the one that needs least."""
    amounts = _amounts(rules, class_id)
    asked, best = sum(amounts.values()), None
    try:
        for provider in sorted({one for at in amounts for one in tree.options[at]}):
            free = tree.free[provider, class_id]

            def serves(more: int, place: int = provider, now: FreeCapacity = free) -> bool:
                room = FreeCapacity(now.amount + more, now.max_unit)
                other = replace(tree, free={**tree.free, (place, class_id): room})
                return can_serve(other, rules, budget)

            more = _least(serves, asked if best is None else best[0] - 1)
            if more is not None:
                best = more, provider
    except TooComplex:
        return None
    if best is None:  # one allocation may not take as much, however much is free
        return None
    amount, provider = best
    name, host = names.classes[class_id], names.providers[provider] or "one provider"
    words = f"make room for {amount} more of {name} on {host}"
    return Remedy("make_room", words, {"resource_class": name, "amount": amount, "provider": host})


def _least(serves: Callable[[int], bool], most: int) -> int | None:
    """Return the least number from 1 to ``most`` that serves, where all above it do, too."""
    if most < 1 or not serves(most):
        return None
    low, high = 1, most
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if serves(middle) else (middle + 1, high)
    return low
