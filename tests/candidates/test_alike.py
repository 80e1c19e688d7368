"""Trees that are alike have the combinations that each would have alone, for the same steps."""

from random import Random

import pytest

from placement_sched.candidates import alike
from placement_sched.candidates.alike import TreesAlike
from placement_sched.candidates.combine import Budget, ProviderTree, Rules, Slot, combinations
from placement_sched.errors import TooComplex

RULES = (
    Rules(slots=tuple(Slot(suffix=str(n), amounts=()) for n in range(3)), isolate=True),
    Rules(
        slots=tuple(Slot(suffix=str(n), amounts=()) for n in range(4)),
        isolate=True,
        subtrees=((0, 1), (1, 2, 3)),
    ),
    Rules(
        slots=tuple(Slot(suffix="", amounts=()) for _ in range(3)),
        trait_choices=(frozenset({1}), frozenset({2, 3})),
    ),
    Rules(slots=tuple(Slot(suffix="", amounts=()) for _ in range(2)), one_of_a_tree=True),
)


def _tree(first: int, kind: int, slots: int) -> ProviderTree:
    """Return a tree of one of few kinds; its ids begin at ``first``, in no order that shows."""
    dice = Random(kind)
    ids = [first + place for place in dice.sample(range(100), 6)]
    return ProviderTree(
        options=tuple(tuple(sorted(dice.sample(ids, dice.randint(1, 4)))) for _ in range(slots)),
        covers={one: dice.randint(0, 3) for one in ids[:4]},
        lineage={one: frozenset({one, ids[0], ids[at % 3]}) for at, one in enumerate(ids)},
        roots={one: ids[at % 2] for at, one in enumerate(ids)},
    )


def _trees(seed: int, slots: int) -> list[ProviderTree]:
    dice = Random(seed)
    return [_tree(1000 * number, dice.randrange(8), slots) for number in range(60)]


class _Counted(Budget):
    def __init__(self) -> None:
        super().__init__(0)
        self.spent = 0

    def spend(self, steps: int) -> None:
        self.spent += steps


@pytest.mark.parametrize("kinds", [1000, 3])
@pytest.mark.parametrize("rules", RULES, ids=range(len(RULES)))
def test_each_tree_has_its_own_combinations_at_the_price_of_trying_it(rules, kinds, monkeypatch):
    monkeypatch.setattr(alike, "_KINDS", kinds)
    found = 0
    for seed in range(10):
        together, alone = _Counted(), _Counted()
        every = TreesAlike(rules, together)
        for tree in _trees(seed, len(rules.slots)):
            expected = list(combinations(tree, rules, alone))
            assert list(every.combinations(tree)) == expected
            assert together.spent == alone.spent
            found += len(expected)
    assert found > 100


def test_trees_in_turn_have_the_same_combinations():
    rules = RULES[1]
    trees = [_tree(1000 * number, 4, len(rules.slots)) for number in range(20)]
    every = TreesAlike(rules, Budget(0))
    found = [every.combinations(tree) for tree in trees]
    in_turn = [[next(one, None) for one in found] for _ in range(50)]
    for tree, column in zip(trees, zip(*in_turn, strict=True), strict=True):
        assert [one for one in column if one] == list(combinations(tree, rules, Budget(0)))


def test_budget_ends_with_the_tree_that_exceeds_it():
    rules = RULES[0]
    trees = [_tree(1000 * number, 1, len(rules.slots)) for number in range(10)]
    one = _Counted()
    list(combinations(trees[0], rules, one))
    every = TreesAlike(rules, Budget(one.spent * 4))
    for tree in trees[:4]:
        list(every.combinations(tree))
    with pytest.raises(TooComplex):
        list(every.combinations(trees[4]))
