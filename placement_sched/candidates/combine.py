"""Which providers of one tree serve a request together: lazily, one combination after the other.

Pure: what the database found goes in, combinations come out as they are asked for, so that what
a limit cuts is never built.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import inf, prod
from time import monotonic

from placement_sched.candidates.coverage import Coverage
from placement_sched.candidates.matching import can_be_seated
from placement_sched.errors import TooComplex, Unavailable

#: The provider chosen for each slot, by the slot's position in the request.
Combination = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A part of a request that one provider serves.

    A group with a suffix is one slot; the group without is a slot for each of its classes.
    ``amounts`` are by class id; a group that asks only for traits has none.
    """

    suffix: str
    amounts: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What must hold for a combination as a whole.

    ``trait_choices``: the providers of the slots without suffix must together have a trait of each
    set. ``subtrees``: of the providers of these slots, one must be above (or be) all others.
    ``one_of_a_tree``: at most one provider of each tree, as before microversion 1.29.
    """

    slots: tuple[Slot, ...]
    isolate: bool = False
    trait_choices: tuple[frozenset[int], ...] = ()
    subtrees: tuple[tuple[int, ...], ...] = ()
    one_of_a_tree: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What is free of a class on a provider, and the most that may be taken in one allocation."""

    free: int
    max_unit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A tree and the providers (its own, and those that share with it) that serve each slot.

    ``rooms`` by provider and class is needed only for classes that several slots may take of one
    provider. ``met`` are the ``trait_choices`` that a provider has a trait of, as bits. ``lines``
    are a provider and all above it, where a rule of subtrees asks for them.
    """

    options: tuple[Sequence[int], ...]
    rooms: Mapping[tuple[int, int], Room] = field(default_factory=dict)
    met: Mapping[int, int] = field(default_factory=dict)
    lines: Mapping[int, frozenset[int]] = field(default_factory=dict)
    roots: Mapping[int, int] = field(default_factory=dict)


class Budget:
    """How much work one request may make: a step for each provider tried for a slot.

    What is done before, for each tree, is paid as well: see ``trees`` and ``matching``. Where many
    rules of subtrees are to be looked at, each few of them are a step, too.

    Who keeps a combination, to tell and send it, spends more on it: see ``gather``.
    """

    def __init__(self, steps: int, seconds: int = 0) -> None:
        """Allow so many steps, and so many seconds from now; 0 is no bound."""
        self._left: float = steps or inf
        self._until: float = monotonic() + seconds if seconds else inf

    def spend(self, steps: int) -> None:
        """Take steps away; raises :class:`TooComplex` where there are not so many left.

        Raises :class:`Unavailable` where the time is over, as a statement does that takes so long.
        """
        if monotonic() > self._until:
            raise Unavailable(
                "the search needed longer than [placement_database] read_timeout; ask for less"
            )
        self._left -= steps
        if self._left < 0:
            raise TooComplex(
                "The request has too many combinations of providers to be looked at, more than "
                "[placement] allocation_candidates_budget allows: ask with a limit, for fewer "
                "groups, or for traits and aggregates that leave fewer providers to each."
            )


#: So many slots of rules of subtrees are looked at for one more step.
_TIED = 6
#: From so many combinations on it pays to count seats before they are tried.
_MANY = 1000


def combinations(tree: Tree, rules: Rules, budget: Budget) -> Iterator[Combination]:
    """Yield every combination of providers that serves the request in this tree.

    Raises :class:`TooComplex` where the budget does not suffice.
    """
    ways = prod(map(len, tree.options))
    if _is_free(tree, rules):
        for combination in product(*tree.options):
            budget.spend(1)
            yield combination
    elif ways and (ways < _MANY or _has_seats(tree, rules, budget)):
        yield from _Chooser(tree, rules, budget).choose()


def _is_free(tree: Tree, rules: Rules) -> bool:
    """Return whether no choice bears upon another, so that every combination serves."""
    return not (
        tree.rooms
        or rules.one_of_a_tree
        or rules.subtrees
        or rules.trait_choices
        or (rules.isolate and _may_meet(tree, rules))
    )


def _may_meet(tree: Tree, rules: Rules) -> bool:
    """Return whether any two slots with a suffix could be served by the same provider."""
    suffixed = [tree.options[slot] for slot, one in enumerate(rules.slots) if one.suffix]
    return len({provider for providers in suffixed for provider in providers}) < sum(
        map(len, suffixed)
    )


def can_serve(tree: Tree, rules: Rules, budget: Budget) -> bool:
    """Return whether there is a combination at all; raises as :func:`combinations` does."""
    return next(combinations(tree, rules, budget), None) is not None


def verdicts(trees: Mapping[int, Tree], rules: Rules, budget: Budget) -> Iterator[tuple[int, bool]]:
    """Yield each root, and whether there is a combination in its tree.

    What is the same tree for several roots is decided once.
    """
    known: dict[int, bool] = {}
    for root, tree in trees.items():
        if id(tree) not in known:
            known[id(tree)] = can_serve(tree, rules, budget)
        yield root, known[id(tree)]


def _has_seats(tree: Tree, rules: Rules, budget: Budget) -> bool:
    """Return whether there are providers for all isolated groups, and room for each class.

    A no is final; a yes is not, since seats are counted for one class at a time.
    """
    suffixed = [position for position, slot in enumerate(rules.slots) if slot.suffix]
    isolated = [tree.options[slot] for slot in suffixed]
    if rules.isolate and not can_be_seated(isolated, {}, budget.spend):
        return False
    asking: dict[int, dict[int, int]] = defaultdict(dict)
    for position, slot in enumerate(rules.slots):
        for class_id, amount in slot.amounts:
            asking[class_id][position] = amount
    return all(
        can_be_seated(
            [tree.options[slot] for slot in amounts],
            _seats(tree, class_id, amounts),
            budget.spend,
        )
        for class_id, amounts in asking.items()
        if len(amounts) > 1
    )


def _seats(tree: Tree, class_id: int, amounts: Mapping[int, int]) -> dict[int, int]:
    """Return how many of the slots with these amounts each provider can serve at most."""
    least = min(amounts.values())
    # Only of this tree: the rooms are those of all trees that were read with it.
    providers = set().union(*(tree.options[slot] for slot in amounts))
    rooms = {provider: tree.rooms.get((provider, class_id)) for provider in providers}
    return {
        provider: min(room.free, room.max_unit) // least
        for provider, room in rooms.items()
        if room is not None
    }


class _Chooser:
    """Chooses a provider for one slot after the other, turning back as soon as a rule breaks."""

    def __init__(self, tree: Tree, rules: Rules, budget: Budget) -> None:
        self._tree = tree
        self._rules = rules
        self._budget = budget
        # The slot with the fewest choices first: what cannot be is found out early.
        self._order = sorted(range(len(rules.slots)), key=lambda slot: len(tree.options[slot]))
        self._alone = [rules.isolate and bool(rules.slots[slot].suffix) for slot in self._order]
        budget.spend(sum(map(len, rules.subtrees)) // _TIED)
        self._completed = _completed(self._order, rules)
        self._coverage = _coverage(self._order, tree, rules) if rules.trait_choices else None
        self._chosen: dict[int, int] = {}
        self._isolated: set[int] = set()
        self._taken: dict[tuple[int, int], int] = defaultdict(int)

    @property
    def _is_possible(self) -> bool:
        return self._coverage is None or self._coverage.is_possible

    def choose(self) -> Iterator[Combination]:
        """Yield each combination; the providers tried at each depth wait in a stack."""
        order, options = self._order, self._tree.options
        slots = range(len(order))
        chosen, spend = self._chosen, self._budget.spend
        untried = [iter(options[order[0]])] if self._is_possible else []
        while untried:
            depth = len(untried) - 1
            slot = order[depth]
            if slot in chosen:
                self._put_back(depth)
            for provider in untried[-1]:
                spend(1)
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
            and (not self._tree.rooms or self._has_room(self._order[depth], provider))
            and (self._coverage is None or self._coverage.allows(depth, provider))
            and (not self._completed[depth] or self._subtrees_hold(depth, provider))
        )

    def _put(self, depth: int, provider: int) -> None:
        slot = self._order[depth]
        self._chosen[slot] = provider
        if self._coverage is not None:
            self._coverage.put(depth, provider)
        if self._alone[depth]:
            self._isolated.add(provider)
        if self._tree.rooms:
            self._take(slot, provider, 1)

    def _put_back(self, depth: int) -> None:
        slot = self._order[depth]
        provider = self._chosen.pop(slot)
        if self._alone[depth]:
            self._isolated.discard(provider)
        if self._tree.rooms:
            self._take(slot, provider, -1)

    def _is_alone_in_its_tree(self, provider: int) -> bool:
        roots = self._tree.roots
        return all(
            other == provider or roots[other] != roots[provider] for other in self._chosen.values()
        )

    def _has_room(self, slot: int, provider: int) -> bool:
        """Return whether what this slot takes fits beside what others took of the provider."""
        for class_id, amount in self._rules.slots[slot].amounts:
            room = self._tree.rooms.get((provider, class_id))
            if room is not None:
                together = self._taken[provider, class_id] + amount
                if together > room.free or together > room.max_unit:
                    return False
        return True

    def _take(self, slot: int, provider: int, sign: int) -> None:
        for class_id, amount in self._rules.slots[slot].amounts:
            self._taken[provider, class_id] += sign * amount

    def _subtrees_hold(self, depth: int, provider: int) -> bool:
        """Return whether each rule of subtrees that this choice completes holds."""
        lines = self._tree.lines
        looked_at = 0
        for others in self._completed[depth]:
            looked_at += 1 + len(others)
            if looked_at > _TIED:
                self._budget.spend(1)
                looked_at = 0
            providers = {provider, *(self._chosen[slot] for slot in others)}
            if len(providers) > 1 and not providers.intersection(
                *(lines[one] for one in providers)
            ):
                return False
        return True


def _coverage(order: Sequence[int], tree: Tree, rules: Rules) -> Coverage:
    """Return how far the slots without suffix, in this order, have the traits required."""
    counted = [() if rules.slots[slot].suffix else tree.options[slot] for slot in order]
    return Coverage(len(rules.trait_choices), tree.met, counted)


def lacks_traits(tree: Tree, rules: Rules) -> bool:
    """Return whether a trait required is nowhere in a tree, whoever serves."""
    if not rules.trait_choices:
        return False
    return not _coverage(range(len(rules.slots)), tree, rules).is_possible


def _completed(order: Sequence[int], rules: Rules) -> list[list[list[int]]]:
    """Return the other slots of each rule of subtrees that a slot completes, in this order."""
    completed: list[list[list[int]]] = [[] for _ in order]
    depths = {slot: depth for depth, slot in enumerate(order)} if rules.subtrees else {}
    for parts in rules.subtrees:
        last = max(parts, key=depths.__getitem__)
        completed[depths[last]].append([slot for slot in parts if slot != last])
    return completed
