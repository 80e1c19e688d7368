# SPDX-License-Identifier: Apache-2.0
"""Endless random sequences of requests."""

from collections.abc import Callable, Iterator
from random import Random

from tests.differential.exchange import Request
from tests.differential.generate import claims, nouns
from tests.differential.generate.candidates import candidates_request
from tests.differential.generate.dice import Dice
from tests.differential.generate.invalid import make_invalid
from tests.differential.generate.setup import setup_requests

#: Frequency of each kind of request, in percent.
_SHARES: dict[Callable[[Dice], Request], int] = {
    candidates_request: 27,
    nouns.root_request: 1,
    nouns.provider_request: 13,
    nouns.inventory_request: 11,
    nouns.trait_request: 4,
    nouns.provider_traits_request: 5,
    nouns.resource_class_request: 5,
    nouns.aggregates_request: 5,
    nouns.usages_request: 7,
    claims.put_allocations_request: 8,
    claims.post_allocations_request: 6,
    claims.delete_allocations_request: 3,
    claims.reshaper_request: 5,
}
_INVALID = 0.12


def random_requests(random: Random) -> Iterator[Request]:
    dice = Dice(random)
    yield from setup_requests(dice)
    kinds, weights = list(_SHARES), list(_SHARES.values())
    while True:
        (kind,) = random.choices(kinds, weights)
        request = kind(dice)
        yield make_invalid(dice, request) if dice.chance(_INVALID) else request
