"""Why the providers of one tree do not serve a request together, and what would have to change.

Each rule that alone keeps them from it is named: without it, and with all others, they serve.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from placement_sched.candidates.combine import Budget, FreeCapacity, ProviderTree, can_serve
from placement_sched.candidates.request import Rules
from placement_sched.errors import TooComplex
from placement_sched.model.verdict import Remedy

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
