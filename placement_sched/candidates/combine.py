"""Which providers of one tree serve a request together, one combination after the other.

Pure: what was read from the database goes in, and combinations come out lazily, so that what a
limit cuts is never built.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import inf, prod
from time import monotonic

from placement_sched.candidates.feasibility import TraitCoverage, can_assign
from placement_sched.candidates.request import Rules
from placement_sched.candidates.subtrees import Subtrees
from placement_sched.errors import TooComplex, Unavailable

#: The provider chosen for each slot, by the slot's position in the request.
Combination = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """The free amount of a class on a provider, and the most that one allocation may take."""

    amount: int
    max_unit: int


@dataclass(frozen=True, slots=True)
class ProviderTree:
    """A tree as the providers (its own, and those that share with it) that can serve each slot.

    ``free``, by provider and class, has what may be too little for all slots that it can serve.
    ``covers`` are the ``trait_choices`` that a provider has a trait of, as bits. ``lineage`` is a
    provider with all above it, only where there are rules of subtrees.
    """

    options: tuple[Sequence[int], ...]
    free: Mapping[tuple[int, int], FreeCapacity] = field(default_factory=dict)
    covers: Mapping[int, int] = field(default_factory=dict)
    lineage: Mapping[int, frozenset[int]] = field(default_factory=dict)
    roots: Mapping[int, int] = field(default_factory=dict)


class Budget:
    """How much work one request may cause, in steps: one for each provider tried for a slot.

    Reading a tree (``trees``) and keeping a combination (``batches``) cost steps as well.
    """

    def __init__(self, steps: int, seconds: int = 0) -> None:
        """Allow so many steps, and so many seconds from now; 0 is without bound."""
        self._left: float = steps or inf
        self._until: float = monotonic() + seconds if seconds else inf

    def spend(self, steps: int) -> None:
        """Take steps away; raises :class:`TooComplex` where there are not so many left.

        After the time is over it raises :class:`Unavailable`, as a statement that takes as long.
        """
        if monotonic() > self._until:
            raise Unavailable(
                "the search took longer than [placement_database] read_timeout; ask for less"
            )
        self._left -= steps
        if self._left < 0:
            raise TooComplex(
                "The request has too many combinations of providers, more than [placement] "
                "allocation_candidates_budget allows: use a limit, fewer groups, or traits and "
                "aggregates that leave fewer providers for each."
            )


#: A try of a provider is one step, and another for every so many slots of the request.
_SLOTS = 16
#: From so many combinations on it pays to check feasibility before they are tried.
_MANY = 1000


def combinations(tree: ProviderTree, rules: Rules, budget: Budget) -> Iterator[Combination]:
    """Yield every combination of providers that serves the request in this tree.

    Raises :class:`TooComplex` where the budget does not suffice.
    """
    if _all_serve(tree, rules):
        yield from _products(tree, budget)
        return
    number = prod(map(len, tree.options))
    if number and (number < _MANY or _is_feasible(tree, rules, budget)):
        chooser = _Chooser(tree, rules, budget)
        if number >= _MANY:
            chooser.narrow()
        yield from chooser.choose()


def _products(tree: ProviderTree, budget: Budget) -> Iterator[Combination]:
    """Yield every choice of a provider for each slot, where :func:`_all_serve`."""
    for combination in product(*tree.options):
        budget.spend(1)
        yield combination


def _all_serve(tree: ProviderTree, rules: Rules) -> bool:
    """Return whether any choice of a provider for each slot serves."""
    if tree.free or rules.one_of_a_tree or rules.subtrees or rules.trait_choices:
        return False
    if not rules.isolate:
        return True
    suffixed = [tree.options[slot] for slot, one in enumerate(rules.slots) if one.suffix]
    return len(set().union(*suffixed)) == sum(map(len, suffixed))


def always_combine(rules: Rules) -> bool:
    """Return whether every tree that has a provider for each slot serves.

    If it also has a provider with each of ``trait_choices``.
    """
    classes = [class_id for slot in rules.slots for class_id, _ in slot.amounts]
    is_contested = len(set(classes)) < len(classes)
    is_tied = rules.isolate or rules.one_of_a_tree or bool(rules.subtrees)
    return not (is_contested or is_tied or len(rules.trait_choices) > 1)


def can_serve(tree: ProviderTree, rules: Rules, budget: Budget) -> bool:
    """Return whether there is a combination at all; raises as :func:`combinations` does."""
    return next(combinations(tree, rules, budget), None) is not None


def _is_feasible(tree: ProviderTree, rules: Rules, budget: Budget) -> bool:
    """Return whether there are providers for all isolated groups, and capacity for each class.

    False is final; True is not, since capacity is checked for one class at a time.
    """
    isolated = [tree.options[at] for at, slot in enumerate(rules.slots) if slot.suffix]
    if rules.isolate and not can_assign(isolated, {}, budget.spend):
        return False
    by_class: dict[int, dict[int, int]] = defaultdict(dict)
    for position, slot in enumerate(rules.slots):
        for class_id, amount in slot.amounts:
            by_class[class_id][position] = amount
    for class_id, amounts in by_class.items():
        if len(amounts) == 1:
            continue
        options, least = [tree.options[slot] for slot in amounts], min(amounts.values())
        # Only of this tree: ``free`` is of all trees that were read with it.
        places = {
            provider: min(free.amount, free.max_unit) // least if free else len(amounts)
            for provider in set().union(*options)
            for free in (tree.free.get((provider, class_id)),)
        }
        if not can_assign(options, places, budget.spend):
            return False
    return True


class _Chooser:
    """Chooses a provider for one slot after the other, backtracking as soon as a rule breaks."""

    def __init__(self, tree: ProviderTree, rules: Rules, budget: Budget) -> None:
        self._tree, self._rules, self._budget = tree, rules, budget
        # The slot with the fewest choices first: a contradiction is found early.
        self._order = sorted(range(len(rules.slots)), key=lambda slot: len(tree.options[slot]))
        self._alone = [rules.isolate and bool(rules.slots[slot].suffix) for slot in self._order]
        self._subtrees = (
            Subtrees(rules.subtrees, self._order, tree.options, tree.lineage, budget.spend)
            if rules.subtrees
            else None
        )
        self._coverage = _coverage(self._order, tree, rules) if rules.trait_choices else None
        self._chosen: dict[int, int] = {}
        self._isolated: set[int] = set()
        self._taken: dict[tuple[int, int], int] = defaultdict(int)

    def narrow(self) -> None:
        """Rule out the tops of subtrees that have too few providers below, before all are tried."""
        tree, rules, budget = self._tree, self._rules, self._budget
        if self._subtrees is None or not (rules.isolate or tree.free):
            return
        for one in self._subtrees.rules:
            below = {top: self._subtrees.below(top, tree.options, one) for top in one.tops}
            trees = {top: replace(tree, options=options) for top, options in below.items()}
            one.keep(top for top in trees if _is_feasible(trees[top], rules, budget))

    def choose(self) -> Iterator[Combination]:
        """Yield each combination; the providers left to try at each depth are in a stack."""
        if not all(rule.is_possible for rule in (self._coverage, self._subtrees) if rule):
            return
        order, options, chosen = self._order, self._tree.options, self._chosen
        slots, spend, price = range(len(order)), self._budget.spend, 1 + len(order) // _SLOTS
        untried = [iter(options[order[0]])]
        while untried:
            depth = len(untried) - 1
            slot = order[depth]
            if slot in chosen:
                before = chosen.pop(slot)
                if self._alone[depth]:
                    self._isolated.discard(before)
                if self._tree.free:
                    self._take(slot, before, -1)
            for provider in untried[-1]:
                spend(price)
                if self._fits(depth, provider):
                    self._put(depth, provider)
                    break
            else:
                untried.pop()
                continue
            if depth + 1 < len(order):
                untried.append(iter(options[order[depth + 1]]))
            else:
                yield tuple([chosen[one] for one in slots])

    def _fits(self, depth: int, provider: int) -> bool:
        return (
            not (self._alone[depth] and provider in self._isolated)
            and (not self._rules.one_of_a_tree or self._is_alone_in_its_tree(provider))
            and (not self._tree.free or self._has_capacity(self._order[depth], provider))
            and (self._coverage is None or self._coverage.allows(depth, provider))
            and (self._subtrees is None or self._subtrees.allows(depth, provider))
        )

    def _put(self, depth: int, provider: int) -> None:
        slot = self._order[depth]
        self._chosen[slot] = provider
        if self._coverage is not None:
            self._coverage.put(depth, provider)
        if self._subtrees is not None:
            self._subtrees.put(depth, provider)
        if self._alone[depth]:
            self._isolated.add(provider)
        if self._tree.free:
            self._take(slot, provider, 1)

    def _is_alone_in_its_tree(self, provider: int) -> bool:
        roots = self._tree.roots
        return all(
            other == provider or roots[other] != roots[provider] for other in self._chosen.values()
        )

    def _has_capacity(self, slot: int, provider: int) -> bool:
        for class_id, amount in self._rules.slots[slot].amounts:
            free = self._tree.free.get((provider, class_id))
            if free is not None:
                together = self._taken[provider, class_id] + amount
                if together > free.amount or together > free.max_unit:
                    return False
        return True

    def _take(self, slot: int, provider: int, sign: int) -> None:
        for class_id, amount in self._rules.slots[slot].amounts:
            self._taken[provider, class_id] += sign * amount


def _coverage(order: Sequence[int], tree: ProviderTree, rules: Rules) -> TraitCoverage:
    counted = [() if rules.slots[slot].suffix else tree.options[slot] for slot in order]
    return TraitCoverage(len(rules.trait_choices), tree.covers, counted)
