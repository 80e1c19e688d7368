# SPDX-License-Identifier: Apache-2.0
"""Endless sequences of requests, as random as their seed."""

from collections.abc import Callable, Iterator
from random import Random

from tests.differential.exchange import Request
from tests.differential.generate import claims, nouns
from tests.differential.generate.candidates import candidates
from tests.differential.generate.dice import Dice
from tests.differential.generate.invalid import make_invalid
from tests.differential.generate.scene import scene

#: How often each kind of request comes, of a hundred.
_SHARES: dict[Callable[[Dice], Request], int] = {
    candidates: 27,
    nouns.root: 1,
    nouns.provider: 13,
    nouns.inventory: 11,
    nouns.trait: 4,
    nouns.provider_traits: 5,
    nouns.resource_class: 5,
    nouns.aggregates: 5,
    nouns.usages: 7,
    claims.put: 8,
    claims.post: 6,
    claims.delete: 3,
    claims.reshape: 5,
}
_INVALID = 0.12


def sequence(random: Random) -> Iterator[Request]:
    dice = Dice(random)
    yield from scene(dice)
    kinds, weights = list(_SHARES), list(_SHARES.values())
    while True:
        (kind,) = random.choices(kinds, weights)
        request = kind(dice)
        yield make_invalid(dice, request) if dice.chance(_INVALID) else request
