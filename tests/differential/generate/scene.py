# SPDX-License-Identifier: Apache-2.0
"""A cloud to begin with: trees, inventories, traits, aggregates, something that shares."""

from collections.abc import Iterator
from typing import Any

from tests.differential.exchange import Request
from tests.differential.generate.claims import in_form
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
from tests.differential.generate.nouns import name_of
from tests.differential.state import generation
from tests.support.versions import PEER_LATEST


def scene(dice: Dice) -> Iterator[Request]:
    for name in CUSTOM_CLASSES:
        yield Request("PUT", f"/resource_classes/{name}", PEER_LATEST)
    for name in CUSTOM_TRAITS:
        yield Request("PUT", f"/traits/{name}", PEER_LATEST)
    nested, sharing = dice.chance(0.7), dice.chance(0.6)
    for number, uuid in enumerate(PROVIDERS):
        document = {"name": name_of(uuid), "uuid": uuid}
        if nested and number and dice.chance(0.6):
            document["parent_provider_uuid"] = dice.one(PROVIDERS[:number])
        yield Request("POST", "/resource_providers", PEER_LATEST, document)
    for uuid in PROVIDERS:
        yield from _filled(dice, uuid, sharing=sharing)
    for uuid in dice.some(CONSUMERS, 0, 4):
        held = {dice.one(PROVIDERS): {"resources": {dice.one(CLASSES[:4]): dice.one([1, 1, 2, 4])}}}
        yield Request("PUT", f"/allocations/{uuid}", PEER_LATEST, in_form(dice, uuid, held))


def _filled(dice: Dice, uuid: str, *, sharing: bool) -> Iterator[Request]:
    path = f"/resource_providers/{uuid}"
    stock = {name: _stock(dice) for name in dice.some(CLASSES[:5], dice.one([0, 3, 4, 4]), 5)}
    traits = dice.some(TRAITS, 0, 3)
    if sharing and dice.chance(0.3):
        traits.append(SHARES)
    parts = (
        ("inventories", stock, {}),
        ("traits", traits, []),
        ("aggregates", dice.some(AGGREGATES, 0, 2), []),
    )
    for name, content, nothing in parts:
        if content != nothing:
            document = {name: content, "resource_provider_generation": generation(uuid)}
            yield Request("PUT", f"{path}/{name}", PEER_LATEST, document)


def _stock(dice: Dice) -> dict[str, Any]:
    total = dice.one([2, 4, 8, 16])
    stock: dict[str, Any] = {"total": total}
    if dice.chance(0.2):
        stock["max_unit"] = dice.one([1, 2, total])
    if dice.chance(0.1):
        stock["reserved"] = 1
    if dice.chance(0.05):
        stock["min_unit"] = 2
    if dice.chance(0.05):
        stock["step_size"] = 2
    if dice.chance(0.1):
        stock["allocation_ratio"] = dice.one([0.5, 1.5, 4.0])
    return stock
