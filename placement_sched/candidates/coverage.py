"""Whether providers together have a trait of each set required, told before all are chosen.

Sets are bits of a number: a thousand of them are looked at as quickly as one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import accumulate
from operator import or_


def bits_of(choices: Sequence[Iterable[int]]) -> dict[int, int]:
    """Return the sets that each trait is of, as bits."""
    bits: dict[int, int] = {}
    for number, traits in enumerate(choices):
        for trait in traits:
            bits[trait] = bits.get(trait, 0) | 1 << number
    return bits


def bits_together(bits: Iterable[int]) -> int:
    """Return which sets any of these has a trait of."""
    return reduce(or_, bits, 0)


class Coverage:
    """Which sets the providers chosen so far have a trait of, slot after slot.

    ``met`` are the sets that each provider has a trait of; ``options`` the providers for each slot,
    in the order in which they are chosen, and none for a slot whose provider's traits do not count.
    """

    def __init__(self, sets: int, met: Mapping[int, int], options: Sequence[Sequence[int]]) -> None:
        self._all = (1 << sets) - 1
        self._met = met
        self._counts = [bool(providers) for providers in options]
        self._coming = list(_coming(met, options))
        self._so_far = [0] * (len(options) + 1)

    @property
    def is_possible(self) -> bool:
        """Return whether all providers together would do, if each were chosen for its slot."""
        return self._coming[0] == self._all

    def allows(self, depth: int, provider: int) -> bool:
        """Return whether, with this one chosen next, those to come may bring what is missing."""
        if not self._counts[depth]:
            return True
        chosen = self._so_far[depth] | self._met.get(provider, 0)
        return chosen | self._coming[depth + 1] == self._all

    def put(self, depth: int, provider: int) -> None:
        """Choose a provider; those that were chosen behind it are forgotten."""
        met = self._met.get(provider, 0) if self._counts[depth] else 0
        self._so_far[depth + 1] = self._so_far[depth] | met


def _coming(met: Mapping[int, int], options: Sequence[Sequence[int]]) -> Iterator[int]:
    """Yield which sets are brought by any option from each slot on, and by none behind the last."""
    each = [bits_together(met.get(one, 0) for one in providers) for providers in options]
    yield from reversed([0, *accumulate(reversed(each), or_)])
