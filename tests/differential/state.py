# SPDX-License-Identifier: Apache-2.0
"""Placeholders for generations in bodies, and the state of a side."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from tests.differential.exchange import Reply, Request
from tests.differential.sides import Side
from tests.support.versions import PEER_LATEST

_PROVIDER_GENERATION_KEY = "generation of"
_CONSUMER_GENERATION_KEY = "consumer generation of"


def build_generation_placeholder(uuid: str) -> dict[str, str]:
    return {_PROVIDER_GENERATION_KEY: uuid}


def build_consumer_generation_placeholder(uuid: str) -> dict[str, str]:
    return {_CONSUMER_GENERATION_KEY: uuid}


def resolve_generations(side: Side, request: Request) -> Request:
    if request.document is ...:
        return request
    return replace(request, document=_resolve_value(side, request.document))


def _resolve_value(side: Side, value: Any) -> Any:
    if isinstance(value, list):
        return [_resolve_value(side, item) for item in value]
    if not isinstance(value, dict):
        return value
    if _PROVIDER_GENERATION_KEY in value:
        path = f"/resource_providers/{quote(str(value[_PROVIDER_GENERATION_KEY]))}"
        return get_in_newest_version(side, path).document.get("generation", 0)
    if _CONSUMER_GENERATION_KEY in value:
        path = f"/allocations/{quote(str(value[_CONSUMER_GENERATION_KEY]))}"
        return get_in_newest_version(side, path).document.get("consumer_generation")
    return {key: _resolve_value(side, item) for key, item in value.items()}


def get_in_newest_version(side: Side, target: str) -> Reply:
    return side.send_request(Request("GET", target, PEER_LATEST))


def read_service_state(side: Side) -> dict[str, Any]:
    state = {
        "classes": get_in_newest_version(side, "/resource_classes").document,
        "traits": get_in_newest_version(side, "/traits?name=startswith:CUSTOM").document,
    }
    consumers: set[str] = set()
    listed = get_in_newest_version(side, "/resource_providers").document["resource_providers"]
    for uuid in sorted(item["uuid"] for item in listed):
        path = f"/resource_providers/{uuid}"
        for part in ("", "/inventories", "/aggregates", "/traits", "/usages", "/allocations"):
            state[path + part] = get_in_newest_version(side, path + part).document
        consumers |= state[f"{path}/allocations"]["allocations"].keys()
    for uuid in sorted(consumers):
        state[f"/allocations/{uuid}"] = get_in_newest_version(side, f"/allocations/{uuid}").document
    return state


def clear_service_state(side: Side) -> None:
    for path in _list_paths_to_delete(side):
        reply = side.send_request(Request("DELETE", path, PEER_LATEST))
        if reply.status not in {204, 404}:
            raise RuntimeError(f"DELETE {path}: {reply.status} {reply.body.decode()}")


def _list_paths_to_delete(side: Side) -> Iterator[str]:
    providers = get_in_newest_version(side, "/resource_providers").document["resource_providers"]
    for provider in providers:
        path = f"/resource_providers/{provider['uuid']}/allocations"
        held = get_in_newest_version(side, path).document
        yield from (f"/allocations/{uuid}" for uuid in held["allocations"])
    parents = {item["uuid"]: item["parent_provider_uuid"] for item in providers}
    while parents:
        leaves = sorted(parents.keys() - set(parents.values()))
        yield from (f"/resource_providers/{uuid}" for uuid in leaves)
        parents = {uuid: above for uuid, above in parents.items() if uuid not in leaves}
    for item in get_in_newest_version(side, "/resource_classes").document["resource_classes"]:
        if item["name"].startswith("CUSTOM_"):
            yield f"/resource_classes/{item['name']}"
    for name in get_in_newest_version(side, "/traits?name=startswith:CUSTOM_").document["traits"]:
        yield f"/traits/{name}"
