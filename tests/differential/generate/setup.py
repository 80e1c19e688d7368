# SPDX-License-Identifier: Apache-2.0
"""Requests that create a random cloud: trees, inventories, traits, sharing providers."""

from collections.abc import Iterator
from typing import Any

from tests.differential.exchange import Request
from tests.differential.generate.claims import claim_in_format
from tests.differential.generate.dice import (
    AGGREGATES,
    CLASSES,
    CONSUMERS,
    CUSTOM_CLASSES,
    CUSTOM_TRAITS,
    PROVIDERS,
    SHARES,
    TRAITS,
    Dice,
)
from tests.differential.generate.nouns import build_provider_name
from tests.differential.state import build_generation_placeholder
from tests.support.versions import PEER_LATEST


def setup_requests(dice: Dice) -> Iterator[Request]:
    for name in CUSTOM_CLASSES:
        yield Request("PUT", f"/resource_classes/{name}", PEER_LATEST)
    for name in CUSTOM_TRAITS:
        yield Request("PUT", f"/traits/{name}", PEER_LATEST)
    nested, sharing = dice.chance(0.7), dice.chance(0.6)
    for number, uuid in enumerate(PROVIDERS):
        document = {"name": build_provider_name(uuid), "uuid": uuid}
        if nested and number and dice.chance(0.6):
            document["parent_provider_uuid"] = dice.choice(PROVIDERS[:number])
        yield Request("POST", "/resource_providers", PEER_LATEST, document)
    for uuid in PROVIDERS:
        yield from _build_requests_that_fill_provider(dice, uuid, sharing=sharing)
    for uuid in dice.sample(CONSUMERS, 0, 4):
        held = {
            dice.choice(PROVIDERS): {
                "resources": {dice.choice(CLASSES[:4]): dice.choice([1, 1, 2, 4])}
            }
        }
        yield Request("PUT", f"/allocations/{uuid}", PEER_LATEST, claim_in_format(dice, uuid, held))


def _build_requests_that_fill_provider(
    dice: Dice, uuid: str, *, sharing: bool
) -> Iterator[Request]:
    path = f"/resource_providers/{uuid}"
    stock = {
        name: _random_setup_inventory(dice)
        for name in dice.sample(CLASSES[:5], dice.choice([0, 3, 4, 4]), 5)
    }
    traits = dice.sample(TRAITS, 0, 3)
    if sharing and dice.chance(0.3):
        traits.append(SHARES)
    parts = (
        ("inventories", stock, {}),
        ("traits", traits, []),
        ("aggregates", dice.sample(AGGREGATES, 0, 2), []),
    )
    for name, content, nothing in parts:
        if content != nothing:
            document = {
                name: content,
                "resource_provider_generation": build_generation_placeholder(uuid),
            }
            yield Request("PUT", f"{path}/{name}", PEER_LATEST, document)


def _random_setup_inventory(dice: Dice) -> dict[str, Any]:
    total = dice.choice([2, 4, 8, 16])
    stock: dict[str, Any] = {"total": total}
    if dice.chance(0.2):
        stock["max_unit"] = dice.choice([1, 2, total])
    if dice.chance(0.1):
        stock["reserved"] = 1
    if dice.chance(0.05):
        stock["min_unit"] = 2
    if dice.chance(0.05):
        stock["step_size"] = 2
    if dice.chance(0.1):
        stock["allocation_ratio"] = dice.choice([0.5, 1.5, 4.0])
    return stock
