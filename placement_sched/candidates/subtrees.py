"""Which providers may still be chosen where ``same_subtree`` ties request groups together.

Of the providers of the tied slots, one must be above (or be) all others. Whether one still can be
is seen at each slot, not at the last one: eight groups on eight sibling devices have sixteen
million combinations, and the second group shows already that siblings do not serve.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import and_, or_

#: So many rules that a slot takes part in are looked at for one more step of the budget.
_RULES = 2
#: So many providers of its slots are looked at for one more step.
_LOOKED_THROUGH = 20

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
