"""Which providers of one tree serve a request together: lazily, one combination after the other.

Pure: what the database found goes in, combinations come out as they are asked for, so that what
a limit cuts is never built.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, prod

from placement_sched.candidates.matching import can_be_seated
from placement_sched.errors import TooComplex

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

    ``rooms`` by provider and class is needed only for classes that several slots ask for.
    """

    options: tuple[Sequence[int], ...]
    rooms: Mapping[tuple[int, int], Room] = field(default_factory=dict)
    traits: Mapping[int, frozenset[int]] = field(default_factory=dict)
    parents: Mapping[int, int | None] = field(default_factory=dict)
    roots: Mapping[int, int] = field(default_factory=dict)


class Budget:
    """How much work one request may make: a step for each provider tried, some for each answer.

    A combination found is kept, told and sent, so that it counts as :data:`FOUND` steps.
    """

    def __init__(self, steps: int) -> None:
        """Allow so many steps; 0 is no bound."""
        self._left: float = steps or inf

    def spend(self, steps: int) -> None:
        """Take steps away; raises :class:`TooComplex` where there are not so many left."""
        self._left -= steps
        if self._left < 0:
            raise TooComplex(
                "The request has too many combinations of providers to be looked at, more than "
                "[placement] allocation_candidates_budget allows: ask with a limit, for fewer "
                "groups, or for traits and aggregates that leave fewer providers to each."
            )


#: What a combination costs of the budget when it is found.
FOUND = 10

#: From so many combinations on it pays to count seats before they are tried.
_MANY = 1000


def combinations(tree: Tree, rules: Rules, budget: Budget) -> Iterator[Combination]:
    """Yield every combination of providers that serves the request in this tree.

    Raises :class:`TooComplex` where the budget does not suffice.
    """
    ways = prod(len(providers) for providers in tree.options)
    if ways and (ways < _MANY or _has_seats(tree, rules)):
        yield from _Chooser(tree, rules, budget).choose()


def can_serve(tree: Tree, rules: Rules, budget: Budget) -> bool:
    """Return whether there is a combination at all; raises as :func:`combinations` does."""
    return next(combinations(tree, rules, budget), None) is not None


def _has_seats(tree: Tree, rules: Rules) -> bool:
    """Return whether there are providers for all isolated groups, and room for each class.

    A no is final; a yes is not, since seats are counted for one class at a time.
    """
    suffixed = [position for position, slot in enumerate(rules.slots) if slot.suffix]
    if rules.isolate and not can_be_seated([tree.options[slot] for slot in suffixed], {}):
        return False
    asking: dict[int, dict[int, int]] = defaultdict(dict)
    for position, slot in enumerate(rules.slots):
        for class_id, amount in slot.amounts:
            asking[class_id][position] = amount
    return all(
        can_be_seated([tree.options[slot] for slot in amounts], _seats(tree, class_id, amounts))
        for class_id, amounts in asking.items()
        if len(amounts) > 1
    )


def _seats(tree: Tree, class_id: int, amounts: Mapping[int, int]) -> dict[int, int]:
    """Return how many of the slots with these amounts each provider can serve at most."""
    least = min(amounts.values())
    return {
        provider: min(room.free, room.max_unit) // least
        for (provider, of_class), room in tree.rooms.items()
        if of_class == class_id
    }


class _Chooser:
    """Chooses a provider for one slot after the other, turning back as soon as a rule breaks."""

    def __init__(self, tree: Tree, rules: Rules, budget: Budget) -> None:
        self._tree = tree
        self._rules = rules
        self._budget = budget
        # The slot with the fewest choices first: what cannot be is found out early.
        self._order = sorted(range(len(rules.slots)), key=lambda slot: len(tree.options[slot]))
        self._chosen: dict[int, int] = {}
        self._taken: dict[tuple[int, int], int] = {}

    def choose(self, depth: int = 0) -> Iterator[Combination]:
        if depth == len(self._order):
            if self._has_traits():
                self._budget.spend(FOUND)
                yield tuple(self._chosen[slot] for slot in range(len(self._order)))
            return
        slot = self._order[depth]
        for provider in self._tree.options[slot]:
            self._budget.spend(1)
            if not self._may(slot, provider):
                continue
            self._chosen[slot] = provider
            self._take(slot, provider, 1)
            if self._subtrees_hold(slot):
                yield from self.choose(depth + 1)
            self._take(slot, provider, -1)
            del self._chosen[slot]

    def _may(self, slot: int, provider: int) -> bool:
        return (
            self._is_isolated(slot, provider)
            and self._is_alone_in_its_tree(provider)
            and self._has_room(slot, provider)
        )

    def _is_isolated(self, slot: int, provider: int) -> bool:
        slots = self._rules.slots
        return not (self._rules.isolate and slots[slot].suffix) or not any(
            other == provider and slots[position].suffix for position, other in self._chosen.items()
        )

    def _is_alone_in_its_tree(self, provider: int) -> bool:
        roots = self._tree.roots
        return not self._rules.one_of_a_tree or all(
            other == provider or roots[other] != roots[provider] for other in self._chosen.values()
        )

    def _has_room(self, slot: int, provider: int) -> bool:
        """Return whether what this slot takes fits beside what others took of the provider."""
        for class_id, amount in self._rules.slots[slot].amounts:
            room = self._tree.rooms.get((provider, class_id))
            if room is not None:
                together = self._taken.get((provider, class_id), 0) + amount
                if together > room.free or together > room.max_unit:
                    return False
        return True

    def _take(self, slot: int, provider: int, sign: int) -> None:
        for class_id, amount in self._rules.slots[slot].amounts:
            place = provider, class_id
            self._taken[place] = self._taken.get(place, 0) + sign * amount

    def _subtrees_hold(self, slot: int) -> bool:
        """Return whether each subtree rule that this slot completes holds."""
        return all(
            self._is_one_subtree({self._chosen[part] for part in parts})
            for parts in self._rules.subtrees
            if slot in parts and all(part in self._chosen for part in parts)
        )

    def _is_one_subtree(self, providers: set[int]) -> bool:
        return any(
            all(top in self._ancestry(provider) for provider in providers) for top in providers
        )

    def _ancestry(self, provider: int) -> list[int]:
        """Return a provider and all above it."""
        line = [provider]
        while (above := self._tree.parents.get(line[-1])) is not None:
            line.append(above)
        return line

    def _has_traits(self) -> bool:
        if not self._rules.trait_choices:
            return True
        together = frozenset().union(
            *(
                self._tree.traits.get(provider, frozenset())
                for position, provider in self._chosen.items()
                if not self._rules.slots[position].suffix
            )
        )
        return all(choices & together for choices in self._rules.trait_choices)
