# SPDX-License-Identifier: Apache-2.0
"""Combinations of providers that serve a request together, within a tree.

A combination has a provider for each slot (:mod:`placement_sched.candidates.request` defines
slots). The providers are chosen slot by slot, fewest options first. The depth of a slot is its
position in this order. Combinations are generated lazily, so that none are built beyond a limit.
Nothing is read from the database.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import accumulate, product
from math import inf, prod
from operator import and_, or_
from time import monotonic

from placement_sched.candidates.request import Rules
from placement_sched.errors import TooComplex, Unavailable

#: Number of choices that are examined for one step of the budget.
_CHOICES_PER_STEP = 20
#: Number of rules of a slot that are checked for one step of the budget.
_RULES_PER_STEP = 2
_Ids = frozenset[int]
#: The provider chosen for each slot, by the slot's position in the request.
Combination = tuple[int, ...]
#: Trying a provider costs a step, and a further step per this number of slots.
_SLOTS_PER_STEP = 16
#: From this number of possible combinations on, checking feasibility first saves time.
_MIN_TO_CHECK = 1000


def can_assign(
    choices: Sequence[Sequence[int]], places: Mapping[int, int], spend: Callable[[int], None]
) -> bool:
    """Return whether every slot can get a provider with a place for it.

    ``places`` is the number of slots that a provider can serve, 1 by default. Uses augmenting paths
    (Kuhn's algorithm) unless there are too few places. ``spend`` is called with the steps.
    """
    providers = set().union(*choices)
    if sum(places.get(provider, 1) for provider in providers) < len(choices):
        return False
    assigned: dict[int, list[int]] = defaultdict(list)

    def assign(slot: int, tried: set[int]) -> bool:
        spend(1 + len(choices[slot]) // _CHOICES_PER_STEP)
        for provider in choices[slot]:
            if provider in tried:
                continue
            tried.add(provider)
            assigned_slots = assigned[provider]
            if len(assigned_slots) < places.get(provider, 1):
                assigned_slots.append(slot)
                return True
            for position, assigned_slot in enumerate(assigned_slots):
                if assign(assigned_slot, tried):
                    assigned_slots[position] = slot
                    return True
        return False

    return all(assign(slot, set()) for slot in range(len(choices)))


class TraitCoverage:
    """Coverage of the required trait sets by the providers chosen so far.

    ``covers`` has the sets that each provider covers, as bits, and ``options`` the providers of
    each slot in the order of choosing, none for a slot with a suffix, whose traits do not count.
    """

    def __init__(
        self, sets: int, covers: Mapping[int, int], options: Sequence[Sequence[int]]
    ) -> None:
        self._all = (1 << sets) - 1
        self._covers = covers
        self._counts = [bool(keys) for keys in options]
        bits = [reduce(or_, (covers.get(key, 0) for key in keys), 0) for keys in options]
        # The sets that the options of each slot and all later slots cover, and 0 after the last.
        self._coverable: list[int] = [0, *accumulate(reversed(bits), or_)][::-1]
        self._covered = [0] * (len(options) + 1)

    @property
    def is_possible(self) -> bool:
        """Return whether all providers together cover every set."""
        return self._coverable[0] == self._all

    def allows(self, depth: int, provider: int) -> bool:
        """Return whether every set can still be covered with this provider."""
        if not self._counts[depth]:
            return True
        chosen = self._covered[depth] | self._covers.get(provider, 0)
        return chosen | self._coverable[depth + 1] == self._all

    def put(self, depth: int, provider: int) -> None:
        """Choose a provider for a slot, and drop the choices for later slots."""
        covered = self._covers.get(provider, 0) if self._counts[depth] else 0
        self._covered[depth + 1] = self._covered[depth] | covered


class Subtree:
    """A ``same_subtree`` rule, with the providers chosen for its slots so far.

    The providers of the rule's slots must have a top: a provider among them that is an ancestor of
    all others. ``slots`` are in the order of choosing. ``tops`` are the possible tops: each can
    serve a slot of the rule, and every slot can be served by it or by a provider below it.
    """

    def __init__(
        self, slots: Sequence[int], serving: Sequence[_Ids], above: Sequence[_Ids]
    ) -> None:
        """Find the providers that may be the top of the rule.

        ``above`` has the providers in ``serving``, by slot, with all their ancestors.
        """
        self.slots = tuple(slots)
        self.tops = reduce(or_, (serving[slot] for slot in slots)) & reduce(
            and_, (above[slot] for slot in slots)
        )
        self._later = [_Ids()]
        for slot in reversed(self.slots[1:]):
            self._later.insert(0, self._later[0] | serving[slot])
        self._possible_tops = [self.tops] * (len(slots) + 1)
        self._chosen = [0] * len(slots)

    def keep(self, tops: Iterable[int]) -> None:
        """Restrict the possible tops to these providers."""
        self.tops = self._possible_tops[0] = _Ids(tops)

    def allows(self, position: int, provider: int, lineage: _Ids) -> bool:
        """Return whether a top is still possible if this provider is chosen.

        ``position`` is that of the slot in the rule, ``lineage`` the provider with its ancestors.
        """
        common = self._possible_tops[position] & lineage
        return (
            provider in common
            or not common.isdisjoint(self._later[position])
            or not common.isdisjoint(self._chosen[:position])
        )

    def put(self, position: int, provider: int, lineage: _Ids) -> None:
        """Choose a provider for a slot, and drop the choices for later slots."""
        self._possible_tops[position + 1] = self._possible_tops[position] & lineage
        self._chosen[position] = provider


class Subtrees:
    """All ``same_subtree`` rules of a request, evaluated in a tree.

    ``order`` are the slots in the order of choosing, and ``lineage`` each provider with its
    ancestors. ``spend`` is called with the additional steps for the rules.
    """

    def __init__(
        self,
        rules: Sequence[Sequence[int]],
        order: Sequence[int],
        options: Sequence[Sequence[int]],
        lineage: Mapping[int, _Ids],
        spend: Callable[[int], None],
    ) -> None:
        self._lineage, self._spend = lineage, spend
        spend(sum(map(len, rules)) // _RULES_PER_STEP)
        depths = {slot: depth for depth, slot in enumerate(order)}
        serving = [_Ids(providers) for providers in options]
        above = [_Ids().union(*map(lineage.__getitem__, providers)) for providers in options]
        self.rules = [
            Subtree(sorted(slots, key=depths.__getitem__), serving, above) for slots in rules
        ]
        # For each depth, the rules of its slot with the position of the slot in each rule.
        self._rules_at: list[list[tuple[Subtree, int]]] = [[] for _ in order]
        for rule in self.rules:
            for position, slot in enumerate(rule.slots):
                self._rules_at[depths[slot]].append((rule, position))

    @property
    def is_possible(self) -> bool:
        """Return whether each rule has a possible top."""
        return all(rule.tops for rule in self.rules)

    def allows(self, depth: int, provider: int) -> bool:
        """Return whether all rules can hold with this provider."""
        lineage = self._lineage[provider]
        extra = len(self._rules_at[depth]) // _RULES_PER_STEP
        if extra:
            self._spend(extra)
        return all(
            rule.allows(position, provider, lineage) for rule, position in self._rules_at[depth]
        )

    def put(self, depth: int, provider: int) -> None:
        """Record the provider that is chosen for the slot at this depth."""
        lineage = self._lineage[provider]
        for rule, position in self._rules_at[depth]:
            rule.put(position, provider, lineage)

    def limit_to_subtree(
        self, top: int, options: Sequence[Sequence[int]], rule: Subtree
    ) -> tuple[Sequence[int], ...]:
        """Return the options in the subtree of ``top`` for a rule's slots."""
        lineage, limited = self._lineage, list(options)
        self._spend(sum(len(options[slot]) for slot in rule.slots) // _CHOICES_PER_STEP)
        for slot in rule.slots:
            limited[slot] = [provider for provider in options[slot] if top in lineage[provider]]
        return tuple(limited)


@dataclass(frozen=True, slots=True)
class FreeCapacity:
    """Remaining capacity of a class on a provider, with ``max_unit``."""

    amount: int
    max_unit: int


@dataclass(frozen=True, slots=True)
class ProviderTree:
    """A tree: for each slot, the providers (own or sharing) that can serve it.

    Providers are distinct numbers, such as indexes of columns. ``options`` has the providers of
    each slot. ``free`` maps provider and class to the remaining capacity, if it may be too little
    for all slots that the provider can serve. ``covers`` has for each provider the sets in
    :attr:`Rules.trait_choices` with any of its traits, as bits. ``lineage`` maps each provider to
    itself and its ancestors (empty without subtree rules), and ``roots`` maps each provider to its
    root, or to 0 for the root of this tree (empty unless ``single_per_tree``).
    """

    options: tuple[Sequence[int], ...]
    free: Mapping[tuple[int, int], FreeCapacity] = field(default_factory=dict)
    covers: Mapping[int, int] = field(default_factory=dict)
    lineage: Mapping[int, frozenset[int]] = field(default_factory=dict)
    roots: Mapping[int, int] = field(default_factory=dict)


_ADVICE = (
    "use a limit, fewer groups, or traits and aggregates that leave fewer providers for each group"
)


class WorkBudget:
    """The work that a candidate search may do, in steps and seconds."""

    def __init__(self, steps: int, seconds: int = 0) -> None:
        """Allow this many steps, and seconds from now. 0 means no limit."""
        self._remaining: float = steps or inf
        self._deadline: float = monotonic() + seconds if seconds else inf

    def consume(self, steps: int) -> None:
        """Subtract steps from the budget.

        Raises :class:`TooComplex` if too few remain, :class:`Unavailable` after the time limit.
        """
        if monotonic() > self._deadline:
            raise Unavailable(
                f"the search took longer than [placement_database] read_timeout: {_ADVICE}"
            )
        self._remaining -= steps
        if self._remaining < 0:
            raise TooComplex(
                "The request has more combinations of providers than [placement] "
                f"allocation_candidates_budget allows: {_ADVICE}."
            )


def iterate_combinations(
    tree: ProviderTree, rules: Rules, budget: WorkBudget
) -> Iterator[Combination]:
    """Yield every combination of this tree that serves the request.

    Raises :class:`TooComplex` if the budget is exceeded.
    """
    is_free = not (tree.free or rules.single_per_tree or rules.subtrees or rules.trait_choices)
    if is_free and rules.isolate:  # still free if no provider serves two groups with a suffix
        suffixed = [tree.options[index] for index, slot in enumerate(rules.slots) if slot.suffix]
        is_free = len(set().union(*suffixed)) == sum(map(len, suffixed))
    if is_free:
        for combination in product(*tree.options):
            budget.consume(1)
            yield combination
        return
    number = prod(map(len, tree.options))
    if number and (number < _MIN_TO_CHECK or _is_feasible(tree, rules, budget)):
        chooser = _Chooser(tree, rules, budget)
        if number >= _MIN_TO_CHECK:
            chooser.narrow()
        yield from chooser.choose()


def can_always_combine(rules: Rules) -> bool:
    """Return whether every tree with providers for all slots can serve.

    The trees must also have a provider with a trait of each set in ``trait_choices``.
    """
    classes = [class_id for slot in rules.slots for class_id, _ in slot.amounts]
    is_contested = len(set(classes)) < len(classes)
    is_tied = rules.isolate or rules.single_per_tree or bool(rules.subtrees)
    return not (is_contested or is_tied or len(rules.trait_choices) > 1)


def can_serve(tree: ProviderTree, rules: Rules, budget: WorkBudget) -> bool:
    """Return whether any combination serves (:func:`iterate_combinations`)."""
    return next(iterate_combinations(tree, rules, budget), None) is not None


def _is_feasible(tree: ProviderTree, rules: Rules, budget: WorkBudget) -> bool:
    """Return whether a combination seems possible, without a search for it.

    Checks separately that isolated groups can have separate providers and that each class has
    capacity. If the result is False, no combination exists. If it is True, there may still be none.
    """
    isolated = [tree.options[index] for index, slot in enumerate(rules.slots) if slot.suffix]
    if rules.isolate and not can_assign(isolated, {}, budget.consume):
        return False
    by_class: dict[int, dict[int, int]] = defaultdict(dict)
    for position, slot in enumerate(rules.slots):
        for class_id, amount in slot.amounts:
            by_class[class_id][position] = amount
    for class_id, amounts in by_class.items():
        if len(amounts) == 1:
            continue
        options, min_amount = [tree.options[slot] for slot in amounts], min(amounts.values())
        # Providers in ``free`` that serve none of these slots are ignored.
        places = {
            provider: min(free.amount, free.max_unit) // min_amount if free else len(amounts)
            for provider in set().union(*options)
            for free in (tree.free.get((provider, class_id)),)
        }
        if not can_assign(options, places, budget.consume):
            return False
    return True


class _Chooser:
    """Backtracking search that chooses a provider for each slot in turn."""

    def __init__(self, tree: ProviderTree, rules: Rules, budget: WorkBudget) -> None:
        self._tree, self._rules, self._budget = tree, rules, budget
        # Slots with the fewest options come first, so that contradictions are found early.
        self._order = sorted(range(len(rules.slots)), key=lambda slot: len(tree.options[slot]))
        self._is_isolated = [
            rules.isolate and bool(rules.slots[slot].suffix) for slot in self._order
        ]
        self._subtrees = (
            Subtrees(rules.subtrees, self._order, tree.options, tree.lineage, budget.consume)
            if rules.subtrees
            else None
        )
        self._coverage: TraitCoverage | None = None
        if rules.trait_choices:
            counted = [() if rules.slots[s].suffix else tree.options[s] for s in self._order]
            self._coverage = TraitCoverage(len(rules.trait_choices), tree.covers, counted)
        self._chosen: dict[int, int] = {}
        self._isolated_providers: set[int] = set()
        self._used_amounts: dict[tuple[int, int], int] = defaultdict(int)

    def narrow(self) -> None:
        tree, rules, budget = self._tree, self._rules, self._budget
        if self._subtrees is None or not (rules.isolate or tree.free):
            return
        for rule in self._subtrees.rules:
            below = {
                top: self._subtrees.limit_to_subtree(top, tree.options, rule) for top in rule.tops
            }
            trees = {top: replace(tree, options=options) for top, options in below.items()}
            rule.keep(top for top in trees if _is_feasible(trees[top], rules, budget))

    def choose(self) -> Iterator[Combination]:
        """Yield each combination, with a stack of the untried providers."""
        if not all(rule.is_possible for rule in (self._coverage, self._subtrees) if rule):
            return
        order, options, chosen = self._order, self._tree.options, self._chosen
        slots, price = range(len(order)), 1 + len(order) // _SLOTS_PER_STEP
        spend = self._budget.consume
        untried = [iter(options[order[0]])]
        while untried:
            depth = len(untried) - 1
            slot = order[depth]
            if slot in chosen:
                previous = chosen.pop(slot)
                if self._is_isolated[depth]:
                    self._isolated_providers.discard(previous)
                if self._tree.free:
                    self._add_amounts(slot, previous, -1)
            for provider in untried[-1]:
                spend(price)
                if self._fits(depth, provider):
                    self._choose_provider(depth, provider)
                    break
            else:
                untried.pop()
                continue
            if depth + 1 < len(order):
                untried.append(iter(options[order[depth + 1]]))
            else:
                yield tuple([chosen[index] for index in slots])

    def _fits(self, depth: int, provider: int) -> bool:
        roots = self._tree.roots
        if roots and any(
            key != provider and roots[key] == roots[provider] for key in self._chosen.values()
        ):
            return False
        return (
            not (self._is_isolated[depth] and provider in self._isolated_providers)
            and (not self._tree.free or self._has_capacity(self._order[depth], provider))
            and (self._coverage is None or self._coverage.allows(depth, provider))
            and (self._subtrees is None or self._subtrees.allows(depth, provider))
        )

    def _choose_provider(self, depth: int, provider: int) -> None:
        slot = self._order[depth]
        self._chosen[slot] = provider
        if self._coverage is not None:
            self._coverage.put(depth, provider)
        if self._subtrees is not None:
            self._subtrees.put(depth, provider)
        if self._is_isolated[depth]:
            self._isolated_providers.add(provider)
        if self._tree.free:
            self._add_amounts(slot, provider, 1)

    def _has_capacity(self, slot: int, provider: int) -> bool:
        for class_id, amount in self._rules.slots[slot].amounts:
            free = self._tree.free.get((provider, class_id))
            if free is not None:
                total = self._used_amounts[provider, class_id] + amount
                if total > free.amount or total > free.max_unit:
                    return False
        return True

    def _add_amounts(self, slot: int, provider: int, sign: int) -> None:
        for class_id, amount in self._rules.slots[slot].amounts:
            self._used_amounts[provider, class_id] += sign * amount
