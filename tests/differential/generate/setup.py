# SPDX-License-Identifier: Apache-2.0
"""Requests that create a random cloud: trees, inventories, traits, sharing providers."""

from collections.abc import Iterator
from typing import Any

from tests.differential.exchange import Request
from tests.differential.generate.claims import build_claim_in_format
from tests.differential.generate.nouns import build_provider_name
from tests.differential.generate.random_values import (
    AGGREGATE_UUIDS,
    CONSUMER_UUIDS,
    CUSTOM_RESOURCE_CLASSES,
    CUSTOM_TRAITS,
    PROVIDER_UUIDS,
    RESOURCE_CLASSES,
    SHARING_TRAIT,
    TRAITS,
    RandomSource,
)
from tests.differential.state import build_generation_placeholder
from tests.support.versions import PEER_LATEST


def random_setup_requests(rng: RandomSource) -> Iterator[Request]:
    for name in CUSTOM_RESOURCE_CLASSES:
        yield Request("PUT", f"/resource_classes/{name}", PEER_LATEST)
    for name in CUSTOM_TRAITS:
        yield Request("PUT", f"/traits/{name}", PEER_LATEST)
    nested, sharing = rng.chance(0.7), rng.chance(0.6)
    for number, uuid in enumerate(PROVIDER_UUIDS):
        document = {"name": build_provider_name(uuid), "uuid": uuid}
        if nested and number and rng.chance(0.6):
            document["parent_provider_uuid"] = rng.choice(PROVIDER_UUIDS[:number])
        yield Request("POST", "/resource_providers", PEER_LATEST, document)
    for uuid in PROVIDER_UUIDS:
        yield from _build_requests_that_fill_provider(rng, uuid, sharing=sharing)
    for uuid in rng.sample(CONSUMER_UUIDS, 0, 4):
        held = {
            rng.choice(PROVIDER_UUIDS): {
                "resources": {rng.choice(RESOURCE_CLASSES[:4]): rng.choice([1, 1, 2, 4])}
            }
        }
        yield Request(
            "PUT", f"/allocations/{uuid}", PEER_LATEST, build_claim_in_format(rng, uuid, held)
        )


def _build_requests_that_fill_provider(
    rng: RandomSource, uuid: str, *, sharing: bool
) -> Iterator[Request]:
    path = f"/resource_providers/{uuid}"
    stock = {
        name: _random_setup_inventory(rng)
        for name in rng.sample(RESOURCE_CLASSES[:5], rng.choice([0, 3, 4, 4]), 5)
    }
    traits = rng.sample(TRAITS, 0, 3)
    if sharing and rng.chance(0.3):
        traits.append(SHARING_TRAIT)
    parts = (
        ("inventories", stock, {}),
        ("traits", traits, []),
        ("aggregates", rng.sample(AGGREGATE_UUIDS, 0, 2), []),
    )
    for name, content, nothing in parts:
        if content != nothing:
            document = {
                name: content,
                "resource_provider_generation": build_generation_placeholder(uuid),
            }
            yield Request("PUT", f"{path}/{name}", PEER_LATEST, document)


def _random_setup_inventory(rng: RandomSource) -> dict[str, Any]:
    total = rng.choice([2, 4, 8, 16])
    stock: dict[str, Any] = {"total": total}
    if rng.chance(0.2):
        stock["max_unit"] = rng.choice([1, 2, total])
    if rng.chance(0.1):
        stock["reserved"] = 1
    if rng.chance(0.05):
        stock["min_unit"] = 2
    if rng.chance(0.05):
        stock["step_size"] = 2
    if rng.chance(0.1):
        stock["allocation_ratio"] = rng.choice([0.5, 1.5, 4.0])
    return stock
