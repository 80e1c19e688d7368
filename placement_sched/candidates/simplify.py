"""Rules that follow from others are left out: a request may repeat them a thousand times."""

from collections.abc import Iterable


def least_sets(sets: Iterable[frozenset[int]]) -> tuple[frozenset[int], ...]:
    """Return the sets, smallest first, without those that contain another one.

    Who has something of each of these has something of each of all.
    """
    least: list[frozenset[int]] = []
    for one in sorted(set(sets), key=lambda one: (len(one), sorted(one))):
        if not any(fewer <= one for fewer in least):
            least.append(one)
    return tuple(least)


def distinct_ties(ties: Iterable[tuple[int, ...]]) -> tuple[tuple[int, ...], ...]:
    """Return the ties of several slots, each once however its slots are ordered or repeated.

    One tie does not follow from a larger one: the slot above all others may be in the larger only.
    """
    distinct: dict[frozenset[int], tuple[int, ...]] = {}
    for slots in ties:
        distinct.setdefault(frozenset(slots), slots)
    return tuple(slots for key, slots in distinct.items() if len(key) > 1)
