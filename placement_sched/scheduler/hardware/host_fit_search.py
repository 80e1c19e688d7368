"""The first way to give each of several NUMA nodes another one of the host's."""

from collections.abc import Callable, Iterable, Sequence

#: So many sets of nodes are tried and found wanting before the search gives up: more than there
#: are on a host of sixteen nodes.
MOST_SETS = 100_000


def first_arrangement(
    places: Sequence[Iterable[int]], accepts: Callable[[Sequence[int]], bool]
) -> tuple[int, ...] | None:
    """Return a place for each item, no place twice, that ``accepts`` takes; None without any.

    ``places`` has those where each item fits, best first, and is gone through again and again: the
    earlier an item, the more its wish counts. ``accepts`` must not care about the order of the
    places. What is left does not depend on how the places taken so far were shared out, so that
    each set of them is tried once: the number of ways does not grow with the factorial of the
    nodes (nova's bug 1978372).
    """
    hopeless: set[frozenset[int]] = set()

    def rest(taken: tuple[int, ...]) -> tuple[int, ...] | None:
        used = frozenset(taken)
        if used in hopeless or len(hopeless) >= MOST_SETS:
            return None
        found = None
        if len(taken) == len(places):
            found = taken if accepts(taken) else None
        else:
            free = (place for place in places[len(taken)] if place not in used)
            ways = (rest((*taken, place)) for place in free)
            found = next((way for way in ways if way is not None), None)
        if found is None:
            hopeless.add(used)
        return found

    return rest(())
