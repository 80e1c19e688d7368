# SPDX-License-Identifier: Apache-2.0
"""Writes of allocations, in every form, and reshapes."""

from typing import Any

from tests.differential.exchange import Request
from tests.differential.generate.dice import (
    CLASSES,
    CONSUMERS,
    PROJECTS,
    PROVIDERS,
    TYPES,
    USERS,
    Dice,
)
from tests.differential.generate.nouns import random_inventories
from tests.differential.state import build_consumer_generation_placeholder


def put_allocations_request(dice: Dice) -> Request:
    uuid = dice.uuid(CONSUMERS)
    version = dice.version(dice.choice([0, 8, 12, 28, 34, 38]))
    return Request(
        "PUT",
        f"/allocations/{uuid}",
        version,
        random_claim(dice, uuid, _choose_allocation_format(dice, version)),
    )


def post_allocations_request(dice: Dice) -> Request:
    version = dice.version(dice.choice([13, 28, 34, 38]))
    document = _random_claims(dice, max(_choose_allocation_format(dice, version), 12))
    return Request("POST", "/allocations", version, document)


def delete_allocations_request(dice: Dice) -> Request:
    return Request("DELETE", f"/allocations/{dice.uuid(CONSUMERS)}", dice.version())


def reshaper_request(dice: Dice) -> Request:
    version = dice.version(30)
    uuids = [dice.uuid(PROVIDERS) for _ in range(dice.choice([1, 1, 2, 3]))]
    document = {
        "inventories": {uuid: random_inventories(dice, uuid) for uuid in uuids},
        "allocations": _random_claims(
            dice, max(_choose_allocation_format(dice, version), 28), least=0
        ),
    }
    return Request("POST", "/reshaper", version, document)


def _choose_allocation_format(dice: Dice, version: str | None) -> int:
    if dice.chance(0.05):
        return dice.integer(0, 39)
    return 39 if version == "latest" else int((version or "1.0")[2:])


def _random_claims(dice: Dice, form: int, least: int = 1) -> dict[str, Any]:
    uuids = [dice.uuid(CONSUMERS) for _ in range(dice.integer(least, 3))]
    return {uuid: random_claim(dice, uuid, form, may_be_empty=True) for uuid in uuids}


def random_claim(dice: Dice, uuid: str, form: int, *, may_be_empty: bool = False) -> dict[str, Any]:
    return claim_in_format(dice, uuid, _random_allocations(dice, form, may_be_empty), form)


def claim_in_format(dice: Dice, uuid: str, held: Any, form: int = 39) -> dict[str, Any]:
    document: dict[str, Any] = {"allocations": held}
    if form >= 8:
        document |= {"project_id": dice.choice(PROJECTS), "user_id": dice.choice(USERS)}
    if form >= 28:
        document["consumer_generation"] = _random_consumer_generation(dice, uuid)
    if form >= 34 and dice.chance(0.2):
        document["mappings"] = {dice.choice(["", "1", "_A"]): [dice.uuid(PROVIDERS)]}
    if form >= 38:
        document["consumer_type"] = (
            dice.choice(TYPES[:2]) if dice.chance(0.95) else dice.choice(TYPES)
        )
    return document


def _random_allocations(dice: Dice, form: int, may_be_empty: bool) -> Any:
    many = dice.choice([1, 1, 1, 1, 2, 3])
    if dice.chance(0.15 if may_be_empty or form >= 28 else 0.03):
        many = 0
    held = [(dice.uuid(PROVIDERS), _random_resources(dice)) for _ in range(many)]
    if form < 12:
        return [
            {"resource_provider": {"uuid": uuid}, "resources": amounts} for uuid, amounts in held
        ]
    document: dict[str, Any] = {uuid: {"resources": amounts} for uuid, amounts in held}
    if dice.chance(0.05):
        for allocation in document.values():
            allocation["generation"] = 1
    return document


def _random_resources(dice: Dice) -> dict[str, Any]:
    names = dice.sample(CLASSES[:5], 1, dice.choice([1, 1, 1, 2]))
    if dice.chance(0.04):
        names.append(dice.resource_class())
    if dice.chance(0.01):
        names = []
    return {name: dice.amount() for name in names}


def _random_consumer_generation(dice: Dice, uuid: str) -> Any:
    if dice.chance(0.9):
        return build_consumer_generation_placeholder(uuid)
    return dice.choice([None, 0, 1, 2, 99, -1, "1", 1.0])
