"""Which NUMA node of a host each node of an instance gets, where some sets of nodes will not do."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property

from placement_sched.limits import MAX_NUMA_CANDIDATES, MAX_NUMA_STEPS

#: So many steps every host may cost: the first arrangement is always tried.
LEAST_STEPS = 50
#: How many steps it costs to judge a set of nodes, by the devices and networks near them.
JUDGED = 10


class Effort:
    """How much work the search for arrangements may still make, on all hosts of one request."""

    def __init__(self, steps: int | None = None) -> None:
        """Allow so many steps, by default :data:`MAX_NUMA_STEPS`."""
        self._left = MAX_NUMA_STEPS if steps is None else steps
        self._here, self._candidates = LEAST_STEPS, MAX_NUMA_CANDIDATES
        #: Whether the last search ended before all was tried.
        self.gave_up = False
        #: Whether it found that the items have no places at once, whichever are accepted.
        self.has_no_room = False

    @property
    def left(self) -> int:
        """Return how many steps there still are for this host."""
        return max(self._left, self._here)

    def next_host(self) -> None:
        """Allow a further host the least."""
        self._here = LEAST_STEPS

    def next_candidate(self) -> bool:
        """Return whether a further candidate of the host may be tried, and allow it the least."""
        if self._candidates:
            self._candidates -= 1
            self._here = LEAST_STEPS
        return self.left > 0

    def spend(self, steps: int) -> None:
        """Take away what a search has cost."""
        self._left, self._here = max(self._left - steps, 0), max(self._here - steps, 0)


def first_arrangement(
    places: Sequence[Iterable[int]],
    accepts: Callable[[Sequence[int]], bool | None],
    kinds: Callable[[], Sequence[Hashable]] | None = None,
    effort: Effort | None = None,
    judged: int = JUDGED,
) -> tuple[int, ...] | None:
    """Return a place for each item, no place twice, that ``accepts`` takes; None without any.

    ``places`` has those where each item fits, best first, and is iterated many times: the earlier
    an item, the more its order counts. ``accepts`` must not care about the order of the places,
    nor which of several places of equal ``kinds`` there are; without those each place is its own.

    What is left does not depend on how the places taken so far were shared out, nor on which were
    taken of equal kinds where the same items fit. So each such choice is tried once: the
    number of ways does not grow with the factorial of the nodes (nova's bug 1978372). And once an
    item was left without a place it is seen ahead whether the others have room. None is
    returned as well where the search gives up, and ``effort`` says so. After the first time, to ask
    ``accepts`` costs ``judged`` steps.
    """
    return _Search(places, accepts, kinds, effort or Effort(), judged).run()


class _Search:
    def __init__(
        self,
        places: Sequence[Iterable[int]],
        accepts: Callable[[Sequence[int]], bool | None],
        kinds: Callable[[], Sequence[Hashable]] | None,
        effort: Effort,
        judged: int,
    ) -> None:
        self._places, self._accepts, self._kinds, self._effort = places, accepts, kinds, effort
        # The first arrangement is judged with the least that each host may cost.
        self._next_costs, self._judged = JUDGED, judged
        self._steps = effort.left
        self._hopeless: set[tuple[int, ...]] = set()
        # Whether an item was left without a place, and whether all are, wherever each goes.
        self._is_tight = self._has_no_room = False

    def run(self) -> tuple[int, ...] | None:
        before, effort = self._steps, self._effort
        found = self._rest(())
        effort.has_no_room = self._has_no_room
        effort.gave_up = found is None and self._steps < 0 and not self._has_no_room
        effort.spend(before - self._steps)
        return found

    def _rest(self, taken: tuple[int, ...]) -> tuple[int, ...] | None:
        # Nothing is asked about the places before the first failure: most hosts have none.
        if self._hopeless and self._alike(taken) in self._hopeless:
            return None
        complete = len(taken) == len(self._places)
        self._steps -= self._next_costs if complete else 1
        if self._steps < 0:
            return None
        if complete:
            self._next_costs = self._judged
            found = taken if self._accepts(taken) else None
        elif self._is_tight and not self._have_room(taken):
            found = None
        else:
            rest = (self._rest((*taken, place)) for place in self._free(taken))
            found = next((way for way in rest if way is not None), None)
        if found is None:
            self._hopeless.add(self._alike(taken))
        return found

    def _free(self, taken: tuple[int, ...]) -> Iterable[int]:
        were_any = False
        for place in self._places[len(taken)]:
            if self._steps < 0 or self._has_no_room:
                return
            if place not in taken:
                were_any = True
                yield place
        if not were_any and not self._is_tight:
            # Most hosts are never so full that it is worth to look ahead.
            self._is_tight = True
            self._has_no_room = not self._have_room(())

    def _have_room(self, taken: Sequence[int]) -> bool:
        """Return whether the other items have a place each at once, whichever are accepted.

        Each in turn gets one, for which earlier ones move on where they can (augmenting paths).
        """
        holders: dict[int, int] = {}

        def settle(item: int, seen: set[int]) -> bool:
            for place in self._fitting[item]:
                if place not in seen:
                    seen.add(place)
                    if place not in holders or settle(holders[place], seen):
                        holders[place] = item
                        return True
            return False

        rest = range(len(taken), len(self._places))
        self._steps -= len(rest)
        return all(settle(item, set(taken)) for item in rest)

    @cached_property
    def _fitting(self) -> Sequence[Sequence[int]]:
        return [tuple(places) for places in self._places]

    def _alike(self, taken: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(sorted(map(self._classes.__getitem__, taken)))

    @cached_property
    def _classes(self) -> Mapping[int, int]:
        """Return a number for each place, equal where the kind and the items that fit are."""
        fits: dict[int, list[int]] = {}
        for item, places in enumerate(self._places):
            for place in places:
                fits.setdefault(place, []).append(item)
        kinds = range(max(fits, default=-1) + 1) if self._kinds is None else self._kinds()
        numbers: dict[Hashable, int] = {}
        return {
            place: numbers.setdefault((kinds[place], tuple(items)), len(numbers))
            for place, items in fits.items()
        }
