# SPDX-License-Identifier: Apache-2.0
"""Endless random sequences of requests."""

from collections.abc import Callable, Iterator
from random import Random

from tests.differential.exchange import Request
from tests.differential.generate import claims, nouns
from tests.differential.generate.candidates import random_candidates_request
from tests.differential.generate.invalid import make_request_invalid
from tests.differential.generate.random_values import RandomSource
from tests.differential.generate.setup import random_setup_requests

#: Frequency of each kind of request, in percent.
_REQUEST_FREQUENCIES: dict[Callable[[RandomSource], Request], int] = {
    random_candidates_request: 27,
    nouns.random_version_document_request: 1,
    nouns.random_provider_request: 13,
    nouns.random_inventory_request: 11,
    nouns.random_trait_request: 4,
    nouns.random_provider_traits_request: 5,
    nouns.random_resource_class_request: 5,
    nouns.random_aggregates_request: 5,
    nouns.random_usages_request: 7,
    claims.random_put_allocations_request: 8,
    claims.random_post_allocations_request: 6,
    claims.random_delete_allocations_request: 3,
    claims.random_reshaper_request: 5,
}
_INVALID_REQUEST_PROBABILITY = 0.12


def random_requests(random: Random) -> Iterator[Request]:
    rng = RandomSource(random)
    yield from random_setup_requests(rng)
    kinds, weights = list(_REQUEST_FREQUENCIES), list(_REQUEST_FREQUENCIES.values())
    while True:
        (kind,) = random.choices(kinds, weights)
        request = kind(rng)
        yield (
            make_request_invalid(rng, request)
            if rng.chance(_INVALID_REQUEST_PROBABILITY)
            else request
        )
