"""Quick checks that a tree cannot serve, before combinations are tried one by one.

Eight groups that each need one of seven providers have no combination, and finding that by trying
takes many times longer with every group. Matching groups with providers shows it at once.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from operator import or_

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
