# SPDX-License-Identifier: Apache-2.0
"""Requests for providers, inventories, traits, classes and aggregates."""

from typing import Any
from urllib.parse import quote

from tests.differential.exchange import Request
from tests.differential.generate.query import (
    build_query_string,
    random_member_of_value,
    random_required_value,
    random_resources_value,
)
from tests.differential.generate.random_values import (
    AGGREGATE_UUIDS,
    CONSUMER_TYPES,
    CONSUMER_UUIDS,
    CUSTOM_RESOURCE_CLASSES,
    CUSTOM_TRAITS,
    INVALID_RESOURCE_CLASSES,
    PROJECT_IDS,
    PROVIDER_UUIDS,
    RESOURCE_CLASSES,
    SHARING_TRAIT,
    TRAITS,
    UNUSUAL_JSON_VALUES,
    UNUSUAL_TRAITS,
    USER_IDS,
    RandomSource,
)
from tests.differential.state import build_generation_placeholder


def build_provider_name(uuid: str) -> str:
    return f"host-{uuid[-1]}"


def random_version_document_request(rng: RandomSource) -> Request:
    path = rng.choice(
        ["/", "/", "", "/nope", "/resource_provider", "/allocation_candidate/1", "/v1"]
    )
    return Request("GET", path, rng.draw_version())


def random_provider_request(rng: RandomSource) -> Request:
    uuid = rng.draw_uuid(PROVIDER_UUIDS)
    path = f"/resource_providers/{uuid}"
    kind = rng.choice(["post", "post", "put", "get", "delete", "list", "list", "list"])
    if kind == "post":
        version = rng.draw_version()
        document: dict[str, Any] = {"name": _random_provider_name(rng, uuid), "uuid": uuid}
        if rng.chance(0.05):
            del document["uuid"]
        _maybe_add_parent(rng, version, document)
        return Request("POST", "/resource_providers", version, document)
    if kind == "put":
        version = rng.draw_version()
        document = {"name": _random_provider_name(rng, uuid)}
        _maybe_add_parent(rng, version, document)
        return Request("PUT", path, version, document)
    if kind == "list":
        return _random_request_for_provider_list(rng)
    return Request(kind.upper(), path, rng.draw_version())


def _random_provider_name(rng: RandomSource, uuid: str) -> Any:
    if rng.chance(0.9):
        return build_provider_name(uuid)
    return rng.choice(
        [build_provider_name(rng.choice(PROVIDER_UUIDS)), "other", "ü", " ", "A" * 200, "A" * 201]
    )


def _maybe_add_parent(rng: RandomSource, version: str | None, document: dict[str, Any]) -> None:
    late = version not in {None, "1.0"} and (version == "latest" or int(version[2:]) >= 14)
    if rng.chance(0.6 if late else 0.03):
        document["parent_provider_uuid"] = (
            None if rng.chance(0.2) else rng.draw_uuid(PROVIDER_UUIDS)
        )


def _random_request_for_provider_list(rng: RandomSource) -> Request:
    version = rng.draw_version(rng.choice([0, 3, 4, 14, 18, 22, 24, 32, 39]))
    pairs: list[tuple[str, str]] = []
    if rng.chance(0.15):
        pairs.append(("name", build_provider_name(rng.choice(PROVIDER_UUIDS))))
    if rng.chance(0.15):
        pairs.append(("uuid", rng.draw_uuid(PROVIDER_UUIDS)))
    if rng.chance(0.3):
        pairs.append(("in_tree", rng.draw_uuid(PROVIDER_UUIDS)))
    if rng.chance(0.4):
        pairs.append(("resources", random_resources_value(rng)))
    pairs += [("required", random_required_value(rng)) for _ in range(rng.choice([0, 0, 1, 1, 2]))]
    pairs += [("member_of", random_member_of_value(rng)) for _ in range(rng.choice([0, 0, 1, 2]))]
    return Request("GET", "/resource_providers" + build_query_string(rng, pairs), version)


def random_inventory_request(rng: RandomSource) -> Request:
    uuid = rng.draw_uuid(PROVIDER_UUIDS)
    path = f"/resource_providers/{uuid}/inventories"
    name = rng.draw_resource_class()
    single_path = f"{path}/{quote(name)}"
    kind = rng.choice(
        ["get", "get one", "post", "put", "put", "put one", "put one", "delete", "delete one"]
    )
    version = rng.draw_version(5 if kind == "delete" else 0)
    if kind == "get":
        return Request("GET", path, version)
    if kind == "get one":
        return Request("GET", single_path, version)
    if kind == "delete":
        return Request("DELETE", path, version)
    if kind == "delete one":
        return Request("DELETE", single_path, version)
    if kind == "post":
        document = {**random_inventory(rng), "resource_class": name}
        return Request("POST", path, version, document)
    if kind == "put one":
        document = {
            **random_inventory(rng),
            "resource_provider_generation": random_generation(rng, uuid),
        }
        return Request("PUT", single_path, version, document)
    return Request("PUT", path, version, random_inventories(rng, uuid))


def random_inventories(rng: RandomSource, uuid: str) -> dict[str, Any]:
    names = rng.sample(RESOURCE_CLASSES, 0, 4) + rng.sample(
        INVALID_RESOURCE_CLASSES, 0, 1
    ) * rng.chance(0.05)
    return {
        "resource_provider_generation": random_generation(rng, uuid),
        "inventories": {name: random_inventory(rng) for name in names},
    }


def random_inventory(rng: RandomSource) -> dict[str, Any]:
    total = rng.choice([1, 2, 4, 8, 8, 16, 16, 32, 100])
    document: dict[str, Any] = {"total": total}
    if rng.chance(0.2):
        document["reserved"] = rng.choice([0, 1, 2, total, total - 1, total + 1])
    if rng.chance(0.2):
        document["min_unit"] = rng.choice([1, 1, 2, 4])
    if rng.chance(0.3):
        document["max_unit"] = rng.choice([1, 2, 4, total, 2**31 - 1])
    if rng.chance(0.2):
        document["step_size"] = rng.choice([1, 2, 3])
    if rng.chance(0.2):
        document["allocation_ratio"] = rng.choice([1.0, 1, 0.5, 1.5, 4.0, 16, 0.1, 0, -1, 3.5e38])
    if rng.chance(0.04):
        key = rng.choice([*document, "reserved", "max_unit", "step_size"])
        document[key] = rng.choice(UNUSUAL_JSON_VALUES)
    return document


def random_generation(rng: RandomSource, uuid: str) -> Any:
    if rng.chance(0.9):
        return build_generation_placeholder(uuid)
    return rng.choice([0, 1, 2, 99, -1, 1.0, None, "1", 2**40])


def random_trait_request(rng: RandomSource) -> Request:
    name = rng.choice(CUSTOM_TRAITS) if rng.chance(0.6) else rng.draw_trait()
    kind = rng.choice(["list", "list", "get", "put", "delete"])
    version = rng.draw_version(6)
    if kind == "list":
        pairs = []
        if rng.chance(0.7):
            names = ",".join(rng.sample(TRAITS, 1, 3))
            other = rng.choice(
                [f"in:{names},NOPE", "startswith:HW", "startswith:", "in:", "HW", ""]
            )
            words = [f"in:{names}", "startswith:CUSTOM_", other]
            pairs.append(("name", rng.choice(words)))
        if rng.chance(0.5) or not pairs:
            pairs.append(("associated", rng.choice(["true", "false", "True", "FALSE", "1", ""])))
        return Request("GET", "/traits" + build_query_string(rng, pairs), version)
    return Request(kind.upper(), f"/traits/{quote(name)}", version)


def random_provider_traits_request(rng: RandomSource) -> Request:
    uuid = rng.draw_uuid(PROVIDER_UUIDS)
    path = f"/resource_providers/{uuid}/traits"
    kind = rng.choice(["GET", "PUT", "PUT", "PUT", "DELETE"])
    if kind != "PUT":
        return Request(kind, path, rng.draw_version(6))
    document = {
        "traits": random_trait_names(rng),
        "resource_provider_generation": random_generation(rng, uuid),
    }
    return Request("PUT", path, rng.draw_version(6), document)


def random_trait_names(rng: RandomSource) -> list[str]:
    names = rng.sample(TRAITS, 0, 3)
    if rng.chance(0.15):
        names.append(SHARING_TRAIT)
    if rng.chance(0.05):
        names.append(rng.choice([*UNUSUAL_TRAITS, *names, "HW_CPU_X86_AVX"]))
    return names


def random_resource_class_request(rng: RandomSource) -> Request:
    name = rng.choice(CUSTOM_RESOURCE_CLASSES) if rng.chance(0.6) else rng.draw_resource_class()
    kind = rng.choice(["list", "get", "post", "put", "rename", "delete"])
    version = rng.draw_version(7 if kind == "put" else 2, 6 if kind == "rename" else 39)
    path = f"/resource_classes/{quote(name)}"
    if kind == "list":
        return Request("GET", "/resource_classes", version)
    if kind == "post":
        return Request("POST", "/resource_classes", version, {"name": name})
    if kind == "rename":
        return Request(
            "PUT", path, version, {"name": rng.choice([*CUSTOM_RESOURCE_CLASSES, "CUSTOM_NEW"])}
        )
    return Request(kind.upper(), path, version)


def random_aggregates_request(rng: RandomSource) -> Request:
    uuid = rng.draw_uuid(PROVIDER_UUIDS)
    path = f"/resource_providers/{uuid}/aggregates"
    version = rng.draw_version(1)
    if rng.chance(0.3):
        return Request("GET", path, version)
    named: list[Any] = [rng.draw_uuid(AGGREGATE_UUIDS) for _ in range(rng.integer(0, 2))]
    late = version == "latest" or (version is not None and int(version[2:]) >= 19)
    if late != rng.chance(0.05):
        body: Any = {
            "aggregates": named,
            "resource_provider_generation": random_generation(rng, uuid),
        }
        return Request("PUT", path, version, body)
    return Request("PUT", path, version, named)


def random_usages_request(rng: RandomSource) -> Request:
    if rng.chance(0.5):
        path = f"/resource_providers/{rng.draw_uuid(PROVIDER_UUIDS)}"
        return Request("GET", f"{path}/{rng.choice(['usages', 'allocations'])}", rng.draw_version())
    if rng.chance(0.4):
        return Request("GET", f"/allocations/{rng.draw_uuid(CONSUMER_UUIDS)}", rng.draw_version())
    pairs = [("project_id", rng.choice([*PROJECT_IDS, *PROJECT_IDS, "nobody", "", "x" * 256]))]
    if rng.chance(0.5):
        pairs.append(("user_id", rng.choice([*USER_IDS, "nobody", ""])))
    if rng.chance(0.4):
        pairs.append(("consumer_type", rng.choice([*CONSUMER_TYPES, "all", "nope", "NOPE", ""])))
    if rng.chance(0.05):
        pairs = pairs[1:]
    return Request(
        "GET", "/usages" + build_query_string(rng, pairs), rng.draw_version(rng.choice([9, 38]))
    )
