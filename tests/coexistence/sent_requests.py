# SPDX-License-Identifier: Apache-2.0
"""Requests to both services."""

from collections.abc import Mapping

from tests.differential.exchange import Request
from tests.support.allocation_bodies import build_body
from tests.support.versions import PEER_LATEST

#: Reshaping needs the role service.
ROLE_HEADERS = {"X-Roles": "admin,service"}


def build_request(
    method: str, target: str, document: object = ..., version: str = PEER_LATEST
) -> Request:
    return Request(method, target, version=version, document=document, headers=ROLE_HEADERS)


def build_claim_request(
    consumer: str,
    amounts: Mapping[str, Mapping[str, int]],
    generation: int | None = None,
    *,
    version: str = PEER_LATEST,
    **more: object,
) -> Request:
    """Return the claim of amounts, by provider and resource class."""
    body = build_body(version, amounts, generation=generation, **more)
    return build_request("PUT", f"/allocations/{consumer}", body, version)


def build_provider_requests(uuid: str, name: str, **parts: object) -> list[Request]:
    """Return the creation of a provider, then of its inventories, traits and aggregates."""
    path = f"/resource_providers/{uuid}"
    requests = [build_request("POST", "/resource_providers", {"uuid": uuid, "name": name})]
    for generation, (noun, value) in enumerate(parts.items()):
        body = {"resource_provider_generation": generation, noun: value}
        requests.append(build_request("PUT", f"{path}/{noun}", body))
    return requests
