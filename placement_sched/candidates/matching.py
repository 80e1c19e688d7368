"""Whether there are enough seats: a quick no, before combinations are tried one by one.

Eight groups that want a provider each of seven have no combination, and to find that out by trying
takes longer with every group, as many times longer as there are providers. To match groups with
seats tells it at once.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

#: So many choices are looked through for one more step.
_LOOKED_THROUGH = 20


def can_be_seated(
    choices: Sequence[Sequence[int]], seats: Mapping[int, int], spend: Callable[[int], None]
) -> bool:
    """Return whether everybody gets a seat at a provider of their choice.

    ``choices`` are the providers that each would take, ``seats`` how many each provider has (a
    provider that is not named has one). Found by augmenting paths (Kuhn's algorithm), unless
    there are fewer seats than guests, whoever takes them. ``spend`` is told of a step for each
    guest that is to find a seat, or another one.
    """
    wanted = set().union(*choices)
    if sum(seats.get(provider, 1) for provider in wanted) < len(choices):
        return False
    seated: dict[int, list[int]] = defaultdict(list)
    return all(_seat(guest, choices, seats, seated, set(), spend) for guest in range(len(choices)))


def _seat(
    guest: int,
    choices: Sequence[Sequence[int]],
    seats: Mapping[int, int],
    seated: dict[int, list[int]],
    asked: set[int],
    spend: Callable[[int], None],
) -> bool:
    """Find a seat for a guest, where it must be by having another one move; tell whether it did."""
    spend(1 + len(choices[guest]) // _LOOKED_THROUGH)
    for provider in choices[guest]:
        if provider in asked:
            continue
        asked.add(provider)
        taken = seated[provider]
        if len(taken) < seats.get(provider, 1):
            taken.append(guest)
            return True
        for place, other in enumerate(taken):
            if _seat(other, choices, seats, seated, asked, spend):
                taken[place] = guest
                return True
    return False
