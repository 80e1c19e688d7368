"""Whether there are enough seats: a quick no, before combinations are tried one by one.

Eight groups that want a provider each of seven have no combination, and to find that out by trying
takes longer with every group, as many times longer as there are providers. To match groups with
seats tells it at once.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence


def can_be_seated(choices: Sequence[Sequence[int]], seats: Mapping[int, int]) -> bool:
    """Return whether everybody gets a seat at a provider of their choice.

    ``choices`` are the providers that each would take, ``seats`` how many each provider has (a
    provider that is not named has one). Found by augmenting paths (Kuhn's algorithm).
    """
    seated: dict[int, list[int]] = defaultdict(list)
    return all(_seat(guest, choices, seats, seated, set()) for guest in range(len(choices)))


def _seat(
    guest: int,
    choices: Sequence[Sequence[int]],
    seats: Mapping[int, int],
    seated: dict[int, list[int]],
    asked: set[int],
) -> bool:
    """Find a seat for a guest, where it must be by having another one move; tell whether it did."""
    for provider in choices[guest]:
        if provider in asked:
            continue
        asked.add(provider)
        taken = seated[provider]
        if len(taken) < seats.get(provider, 1):
            taken.append(guest)
            return True
        for place, other in enumerate(taken):
            if _seat(other, choices, seats, seated, asked):
                taken[place] = guest
                return True
    return False
