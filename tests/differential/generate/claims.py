# SPDX-License-Identifier: Apache-2.0
"""Writes of allocations, in every form, and reshapes."""

from typing import Any

from tests.differential.exchange import Request
from tests.differential.generate.nouns import random_inventories
from tests.differential.generate.random_values import (
    CONSUMER_TYPES,
    CONSUMER_UUIDS,
    PROJECT_IDS,
    PROVIDER_UUIDS,
    RESOURCE_CLASSES,
    USER_IDS,
    RandomSource,
)
from tests.differential.state import build_consumer_generation_placeholder


def random_put_allocations_request(rng: RandomSource) -> Request:
    uuid = rng.draw_uuid(CONSUMER_UUIDS)
    version = rng.draw_version(rng.choice([0, 8, 12, 28, 34, 38]))
    return Request(
        "PUT",
        f"/allocations/{uuid}",
        version,
        random_claim(rng, uuid, _choose_allocation_format(rng, version)),
    )


def random_post_allocations_request(rng: RandomSource) -> Request:
    version = rng.draw_version(rng.choice([13, 28, 34, 38]))
    document = _random_claims(rng, max(_choose_allocation_format(rng, version), 12))
    return Request("POST", "/allocations", version, document)


def random_delete_allocations_request(rng: RandomSource) -> Request:
    return Request("DELETE", f"/allocations/{rng.draw_uuid(CONSUMER_UUIDS)}", rng.draw_version())


def random_reshaper_request(rng: RandomSource) -> Request:
    version = rng.draw_version(30)
    uuids = [rng.draw_uuid(PROVIDER_UUIDS) for _ in range(rng.choice([1, 1, 2, 3]))]
    document = {
        "inventories": {uuid: random_inventories(rng, uuid) for uuid in uuids},
        "allocations": _random_claims(
            rng, max(_choose_allocation_format(rng, version), 28), least=0
        ),
    }
    return Request("POST", "/reshaper", version, document)


def _choose_allocation_format(rng: RandomSource, version: str | None) -> int:
    if rng.chance(0.05):
        return rng.integer(0, 39)
    return 39 if version == "latest" else int((version or "1.0")[2:])


def _random_claims(rng: RandomSource, form: int, least: int = 1) -> dict[str, Any]:
    uuids = [rng.draw_uuid(CONSUMER_UUIDS) for _ in range(rng.integer(least, 3))]
    return {uuid: random_claim(rng, uuid, form, may_be_empty=True) for uuid in uuids}


def random_claim(
    rng: RandomSource, uuid: str, form: int, *, may_be_empty: bool = False
) -> dict[str, Any]:
    return build_claim_in_format(rng, uuid, _random_allocations(rng, form, may_be_empty), form)


def build_claim_in_format(
    rng: RandomSource, uuid: str, held: Any, form: int = 39
) -> dict[str, Any]:
    document: dict[str, Any] = {"allocations": held}
    if form >= 8:
        document |= {"project_id": rng.choice(PROJECT_IDS), "user_id": rng.choice(USER_IDS)}
    if form >= 28:
        document["consumer_generation"] = _random_consumer_generation(rng, uuid)
    if form >= 34 and rng.chance(0.2):
        document["mappings"] = {rng.choice(["", "1", "_A"]): [rng.draw_uuid(PROVIDER_UUIDS)]}
    if form >= 38:
        document["consumer_type"] = (
            rng.choice(CONSUMER_TYPES[:2]) if rng.chance(0.95) else rng.choice(CONSUMER_TYPES)
        )
    return document


def _random_allocations(rng: RandomSource, form: int, may_be_empty: bool) -> Any:
    many = rng.choice([1, 1, 1, 1, 2, 3])
    if rng.chance(0.15 if may_be_empty or form >= 28 else 0.03):
        many = 0
    held = [(rng.draw_uuid(PROVIDER_UUIDS), _random_resources(rng)) for _ in range(many)]
    if form < 12:
        return [
            {"resource_provider": {"uuid": uuid}, "resources": amounts} for uuid, amounts in held
        ]
    document: dict[str, Any] = {uuid: {"resources": amounts} for uuid, amounts in held}
    if rng.chance(0.05):
        for allocation in document.values():
            allocation["generation"] = 1
    return document


def _random_resources(rng: RandomSource) -> dict[str, Any]:
    names = rng.sample(RESOURCE_CLASSES[:5], 1, rng.choice([1, 1, 1, 2]))
    if rng.chance(0.04):
        names.append(rng.draw_resource_class())
    if rng.chance(0.01):
        names = []
    return {name: rng.draw_amount() for name in names}


def _random_consumer_generation(rng: RandomSource, uuid: str) -> Any:
    if rng.chance(0.9):
        return build_consumer_generation_placeholder(uuid)
    return rng.choice([None, 0, 1, 2, 99, -1, "1", 1.0])
