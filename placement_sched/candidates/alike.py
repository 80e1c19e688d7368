"""The combinations of trees that are alike, found once for all of them.

Hosts of one kind have the same tree but for the ids of its providers. Which of its providers may
serve together depends on nothing else, unless free capacity does.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from placement_sched.candidates.combine import (
    Budget,
    Combination,
    ProviderTree,
    Rules,
    all_serve,
    combinations,
    products,
)

#: So many kinds of trees are known in one search; of any more, each tree is tried by itself.
_KINDS = 1000

#: What distinguishes a kind of trees, where its providers are numbered as they first come.
_Key = tuple[object, ...]


class NotedBudget(Budget):
    """The budget of a search, noting what was spent since it was last asked."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._spent = 0

    def spend(self, steps: int) -> None:
        """Take steps away; raises as the search's own budget does."""
        self._budget.spend(steps)
        self._spent += steps

    def taken(self) -> int:
        """Return what was spent, and begin to note again."""
        spent, self._spent = self._spent, 0
        return spent


@dataclass(slots=True)
class _Kind:
    """Trees that are alike: what is known of their combinations, and what finds the others.

    ``known`` are steps and the combination that these have led to, in numbers of providers; None
    after the last.
    """

    found: Iterator[Combination]
    noted: NotedBudget
    known: list[tuple[int, Combination | None]] = field(default_factory=list)

    def find_next(self) -> None:
        """Find the next combination; its steps are spent."""
        one = next(self.found, None)
        self.known.append((self.noted.taken(), one))


class TreesAlike:
    """Yields the combinations of each tree of a search, and spends what finding them takes.

    Each tree costs as many steps as if it were the only one of its kind, so that a request is
    refused or answered whatever other trees there are.
    """

    def __init__(self, rules: Rules, budget: Budget) -> None:
        self._rules, self._budget = rules, budget
        self._kinds: dict[_Key, _Kind] = {}

    def combinations(self, tree: ProviderTree) -> Iterator[Combination]:
        """Return every combination of a tree, in the order of :func:`combine.combinations`."""
        if tree.free:
            return combinations(tree, self._rules, self._budget)
        if all_serve(tree, self._rules):
            return products(tree, self._budget)
        numbers: dict[int, int] = {}
        numbered = tuple(
            [
                tuple([numbers.setdefault(one, len(numbers)) for one in some])
                for some in tree.options
            ]
        )
        key = self._key(tree, numbered, numbers)
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _KINDS:
                return combinations(tree, self._rules, self._budget)
            noted = NotedBudget(self._budget)
            example = _numbered(tree, numbered, numbers)
            kind = self._kinds[key] = _Kind(combinations(example, self._rules, noted), noted)
        return self._of_kind(kind, list(numbers))

    def _key(
        self, tree: ProviderTree, numbered: tuple[tuple[int, ...], ...], numbers: dict[int, int]
    ) -> _Key:
        key: list[object] = [numbered]
        if self._rules.subtrees:
            lineage = tree.lineage
            key += [
                frozenset([numbers[above] for above in lineage[one] if above in numbers])
                for one in numbers
            ]
        if self._rules.trait_choices:
            key += [tree.covers.get(one, 0) for one in numbers]
        if self._rules.one_of_a_tree:
            roots: dict[int, int] = {}
            key += [roots.setdefault(tree.roots[one], len(roots)) for one in numbers]
        return tuple(key)

    def _of_kind(self, kind: _Kind, providers: list[int]) -> Iterator[Combination]:
        known, position = kind.known, 0
        while True:
            if position == len(known):
                kind.find_next()
                chosen = known[position][1]
            else:
                steps, chosen = known[position]
                self._budget.spend(steps)
            if chosen is None:
                return
            yield tuple([providers[number] for number in chosen])
            position += 1


def _numbered(
    tree: ProviderTree, numbered: tuple[tuple[int, ...], ...], numbers: dict[int, int]
) -> ProviderTree:
    """Return a tree with numbers in place of its providers' ids."""
    return ProviderTree(
        options=numbered,
        covers={number: tree.covers.get(one, 0) for one, number in numbers.items()},
        lineage={
            number: frozenset(numbers[above] for above in tree.lineage[one] if above in numbers)
            for one, number in numbers.items()
            if one in tree.lineage
        },
        roots={number: tree.roots[one] for one, number in numbers.items() if one in tree.roots},
    )
