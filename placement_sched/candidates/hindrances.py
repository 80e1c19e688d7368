"""What stands in the way of trees: which sets of constraints have to go before they might serve.

Sets of constraints are whole numbers, the bits of which are positions of sieves; sets behind are
positions of rules of groups, which nothing here is known about.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from operator import or_

from placement_sched.candidates.combine import Budget
from placement_sched.candidates.parts import parts_of, serves_alone
from placement_sched.candidates.search import Search
from placement_sched.candidates.sieve import Grove, Sieve

#: So many questions to a pattern, each of one provider of one slot, are worth a step.
_QUICK = 8


@dataclass(frozen=True, slots=True)
class Pattern:
    """What stands in the way of trees, the same for very many of them.

    The constraints that the root misses; and for each slot, of all that might serve it, the
    constraints that each of them misses. ``trees`` are the roots that it is so with.
    """

    root: int
    slots: tuple[tuple[int, ...], ...]
    trees: tuple[int, ...]

    @property
    def price(self) -> int:
        """Return the steps that it takes to ask once what stands in the way."""
        return 1 + sum(map(len, self.slots)) // _QUICK


class Hindrances:
    """Which constraints stand in the way of which trees, and which may go together."""

    def __init__(self, search: Search, sieves: Sequence[Sieve], groves: Iterable[Grove]) -> None:
        """Look at what each provider of these trees misses."""
        self._together = [sieve for sieve in sieves if sieve.together]
        self._lenient = _set_of(self._together)
        self._mixing = _mixing(search, sieves)
        self._freeing = _freeing(search, sieves)
        self.patterns = tuple(_patterns(sieves, groves))
        missed = (mask for one in self.patterns for mask in (one.root, *_all_of(one.slots)))
        amounts = _set_of(sieve for sieve in sieves if sieve.constraint.resource_class)
        #: The constraints without which anything might be otherwise.
        self.telling = reduce(or_, missed, amounts | self._lenient | self._mixing)

    def sets_of(self, size: int, rules: int, budget: Budget) -> Iterator[int]:
        """Yield each set of so many, constraints or ``rules``, without which trees might serve.

        Whether they do is for the search to say; without any other set of this size they do not.
        Raises :class:`TooComplex` where the budget does not suffice.
        """
        told: set[int] = set()
        least = self._least(size, budget)
        for few in sorted(least, key=lambda some: (-some.bit_count(), some)):
            others = tuple(_bits((self.telling | rules) & ~few))
            for more in combinations(others, size - few.bit_count()):
                budget.spend(1)
                whole = few | sum(more)
                if whole not in told:
                    told.add(whole)
                    yield whole

    def trees_without(self, dropped: int, budget: Budget) -> list[int]:
        """Return the roots of the trees that might serve without some constraints."""
        budget.spend(sum(pattern.price for pattern in self.patterns))
        return [
            tree
            for pattern in self.patterns
            if self._ways(pattern, dropped) is None
            for tree in pattern.trees
        ]

    def _least(self, most: int, budget: Budget) -> set[int]:
        """Return sets of at most so many constraints without which trees might serve.

        Each such set is one of them, or has one of them in it.
        """
        found: set[int] = set()
        for pattern in self.patterns:
            seen = {0}
            open_sets = [0]
            while open_sets:
                dropped = open_sets.pop()
                budget.spend(pattern.price)
                ways = self._ways(pattern, dropped)
                if ways is None:
                    found.add(dropped)
                    continue
                more = {dropped | way for way in ways} - seen
                open_sets += (some for some in more if some.bit_count() <= most)
                seen |= more
        return found

    def _ways(self, pattern: Pattern, dropped: int) -> list[int] | None:
        """Return what may be dropped besides for one thing that stands in the way; None: nothing.

        One of them must be, whatever else is.
        """
        if missing := pattern.root & ~dropped:
            return [missing]
        lenient = dropped | self._lenient
        if dropped & self._mixing:
            lenient |= self._mixing
        for masks, freeing in zip(pattern.slots, self._freeing, strict=True):
            if not (dropped & freeing or any(not mask & ~lenient for mask in masks)):
                return [*_bits(freeing), *self._openings(masks, lenient)]
        for sieve in self._together:
            bit = 1 << sieve.index
            having = [m for slot in sieve.slots for m in pattern.slots[slot] if not m & bit]
            if not (dropped & bit or any(not mask & ~lenient for mask in having)):
                return [bit, *self._openings(having, lenient)]
        return None

    def _openings(self, masks: Iterable[int], lenient: int) -> Iterator[int]:
        """Yield what has to go before each of these providers might serve."""
        for missing in {mask & ~lenient for mask in masks}:
            if mixed := missing & self._mixing:
                yield from (missing & ~mixed | one for one in _bits(self._mixing))
            else:
                yield missing


def _patterns(sieves: Sequence[Sieve], groves: Iterable[Grove]) -> Iterator[Pattern]:
    """Yield the patterns of the trees; members that miss the same are looked at once."""
    masks: dict[tuple[bool, ...], int] = {}

    def missed(met: tuple[bool, ...]) -> int:
        if met not in masks:
            masks[met] = sum(1 << at for at, is_met in enumerate(met) if not is_met)
        return masks[met]

    of_root = _set_of(sieve for sieve in sieves if sieve.of_root)
    alike: dict[tuple[int, frozenset[int], int], list[int]] = defaultdict(list)
    for grove in groves:
        # Before any constraint, all members stand before every slot.
        pool = frozenset(missed(member.met) for member in grove.slots[0]) if grove.slots else ()
        root = missed(grove.root.met) & of_root
        alike[root, frozenset(pool), len(grove.slots)].append(grove.root.id)
    for (root, pool, slots), trees in alike.items():
        asked = (_set_of(sieve for sieve in sieves if slot in sieve.slots) for slot in range(slots))
        missing = (tuple(sorted({mask & one for mask in pool})) for one in asked)
        yield Pattern(root, tuple(missing), tuple(trees))


def _mixing(search: Search, sieves: Sequence[Sieve]) -> int:
    """Return the memberships that are asked together, so that each depends on the others."""
    group = search.query.group
    if group is None or len(group.aggregates.member_of) < 2 or not search.topology.nested:
        return 0
    return _set_of(one for one in sieves if one.constraint.kind == "member_of" and not one.suffix)


def _freeing(search: Search, sieves: Sequence[Sieve]) -> tuple[int, ...]:
    """Return for each slot the amount without which it is gone, if there is one.

    A group that one provider serves keeps its slot.
    """
    group = search.query.group
    spread = group is not None and not serves_alone(group)
    return tuple(
        _set_of(
            sieve
            for sieve in sieves
            if spread and sieve.constraint.resource_class and sieve.slots == (slot,)
            if not sieve.suffix
        )
        for slot in range(len(parts_of(search.query, search.names)))
    )


def _set_of(sieves: Iterable[Sieve]) -> int:
    return sum(1 << sieve.index for sieve in sieves)


def _all_of(slots: Iterable[Iterable[int]]) -> Iterator[int]:
    for slot in slots:
        yield from slot


def _bits(some: int) -> Iterator[int]:
    """Yield each member of a set, as a set of its own."""
    while some:
        last = some & -some
        yield last
        some ^= last
