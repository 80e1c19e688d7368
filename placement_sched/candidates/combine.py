"""Which providers of one tree serve a request together, one combination after the other.

Pure: what was read from the database goes in, and combinations come out lazily, so that what a
limit cuts is never built.
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

#: So many choices are looked through for one more step of the budget.
_LOOKED_THROUGH = 20


def can_assign(
    choices: Sequence[Sequence[int]], places: Mapping[int, int], spend: Callable[[int], None]
) -> bool:
    """Return whether each slot can get a place at one of its providers.

    ``choices`` are the providers of each slot, ``places`` how many slots each provider can take
    (1 where it is not given). Found by augmenting paths (Kuhn's algorithm), unless there are fewer
    places than slots. ``spend`` is called with the steps for each slot assigned or reassigned.
    """
    providers = set().union(*choices)
    if sum(places.get(provider, 1) for provider in providers) < len(choices):
        return False
    assigned: dict[int, list[int]] = defaultdict(list)

    def assign(slot: int, tried: set[int]) -> bool:
        """Assign a slot, reassigning others where necessary; return whether that was possible."""
        spend(1 + len(choices[slot]) // _LOOKED_THROUGH)
        for provider in choices[slot]:
            if provider in tried:
                continue
            tried.add(provider)
            taken = assigned[provider]
            if len(taken) < places.get(provider, 1):
                taken.append(slot)
                return True
            for position, other in enumerate(taken):
                if assign(other, tried):
                    taken[position] = slot
                    return True
        return False

    return all(assign(slot, set()) for slot in range(len(choices)))


class TraitCoverage:
    """Which sets of required traits the providers chosen so far have a trait of, slot by slot.

    ``covers`` are the sets that each provider has a trait of, as bits; ``options`` the providers
    for each slot, in the order of choosing, and none for a slot whose traits do not count.
    """

    def __init__(
        self, sets: int, covers: Mapping[int, int], options: Sequence[Sequence[int]]
    ) -> None:
        self._all = (1 << sets) - 1
        self._covers = covers
        self._counts = [bool(providers) for providers in options]
        each = [reduce(or_, (covers.get(one, 0) for one in some), 0) for some in options]
        # Which sets any option covers from each slot on, and 0 after the last.
        self._to_come: list[int] = [0, *accumulate(reversed(each), or_)][::-1]
        self._so_far = [0] * (len(options) + 1)

    @property
    def is_possible(self) -> bool:
        """Return whether all providers together would do, if each were chosen for its slot."""
        return self._to_come[0] == self._all

    def allows(self, depth: int, provider: int) -> bool:
        """Return whether, with this one chosen next, the slots left may cover what is missing."""
        if not self._counts[depth]:
            return True
        chosen = self._so_far[depth] | self._covers.get(provider, 0)
        return chosen | self._to_come[depth + 1] == self._all

    def put(self, depth: int, provider: int) -> None:
        """Choose a provider; those chosen at greater depths before are forgotten."""
        covered = self._covers.get(provider, 0) if self._counts[depth] else 0
        self._so_far[depth + 1] = self._so_far[depth] | covered


#: So many rules that a slot takes part in are looked at for one more step of the budget.
_RULES = 2


_Ids = frozenset[int]


class Subtree:
    """One rule of ``same_subtree``, and what was chosen for its slots so far.

    ``slots`` are in the order of choosing. ``tops`` are the providers that may be above all others:
    those that serve a slot of the rule, and have one for each of its slots below them.
    """

    def __init__(
        self, slots: Sequence[int], serving: Sequence[_Ids], above: Sequence[_Ids]
    ) -> None:
        """Take, by slot, the providers that serve it, and these with all above them."""
        self.slots = tuple(slots)
        self.tops = reduce(or_, (serving[slot] for slot in slots)) & reduce(
            and_, (above[slot] for slot in slots)
        )
        self._later = [_Ids()]
        for slot in reversed(self.slots[1:]):
            self._later.insert(0, self._later[0] | serving[slot])
        self._alive = [self.tops] * (len(slots) + 1)
        self._chosen = [0] * len(slots)

    def keep(self, tops: Iterable[int]) -> None:
        """Let no providers but these be above all others."""
        self.tops = self._alive[0] = _Ids(tops)

    def allows(self, position: int, provider: int, lineage: _Ids) -> bool:
        """Return whether one provider can be above all, once this one is chosen as well.

        ``position`` is that of its slot in the rule, ``lineage`` the provider with all above it.
        """
        common = self._alive[position] & lineage
        return (
            provider in common
            or not common.isdisjoint(self._later[position])
            or not common.isdisjoint(self._chosen[:position])
        )

    def put(self, position: int, provider: int, lineage: _Ids) -> None:
        """Note the provider chosen for a slot; what was chosen for later ones is forgotten."""
        self._alive[position + 1] = self._alive[position] & lineage
        self._chosen[position] = provider


class Subtrees:
    """All rules of ``same_subtree`` of a request in one tree.

    ``order`` are the slots in the order of choosing, ``options`` the providers of each slot, and
    ``lineage`` is each provider with all above it. ``spend`` is called with the steps that the
    rules take beyond what a slot takes by itself.
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
        spend(sum(map(len, rules)) // _RULES)
        depths = {slot: depth for depth, slot in enumerate(order)}
        serving = [_Ids(some) for some in options]
        above = [_Ids().union(*map(lineage.__getitem__, some)) for some in options]
        self.rules = [
            Subtree(sorted(slots, key=depths.__getitem__), serving, above) for slots in rules
        ]
        # The rules that each depth takes part in, with the position of its slot in each.
        self._at: list[list[tuple[Subtree, int]]] = [[] for _ in order]
        for rule in self.rules:
            for position, slot in enumerate(rule.slots):
                self._at[depths[slot]].append((rule, position))

    @property
    def is_possible(self) -> bool:
        """Return whether each rule has a provider that can be above all others."""
        return all(rule.tops for rule in self.rules)

    def allows(self, depth: int, provider: int) -> bool:
        """Return whether all rules can still hold with this provider for the slot at this depth."""
        lineage = self._lineage[provider]
        extra = len(self._at[depth]) // _RULES
        if extra:
            self._spend(extra)
        return all(rule.allows(position, provider, lineage) for rule, position in self._at[depth])

    def put(self, depth: int, provider: int) -> None:
        """Note the provider that is chosen for the slot at this depth."""
        lineage = self._lineage[provider]
        for rule, position in self._at[depth]:
            rule.put(position, provider, lineage)

    def below(
        self, top: int, options: Sequence[Sequence[int]], rule: Subtree
    ) -> tuple[Sequence[int], ...]:
        """Return the options of all slots, where those of this rule's are below one provider."""
        lineage, found = self._lineage, list(options)
        self._spend(sum(len(options[slot]) for slot in rule.slots) // _LOOKED_THROUGH)
        for slot in rule.slots:
            found[slot] = [one for one in options[slot] if top in lineage[one]]
        return tuple(found)


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
