# SPDX-License-Identifier: Apache-2.0
"""Requests for providers, inventories, traits, classes and aggregates."""

from typing import Any
from urllib.parse import quote

from tests.differential.exchange import Request
from tests.differential.generate.dice import (
    AGGREGATES,
    CLASSES,
    CONSUMERS,
    CUSTOM_CLASSES,
    CUSTOM_TRAITS,
    ODD_CLASSES,
    ODD_TRAITS,
    ODD_VALUES,
    PROJECTS,
    PROVIDERS,
    SHARES,
    TRAITS,
    TYPES,
    USERS,
    Dice,
)
from tests.differential.generate.query import (
    build_query_string,
    random_member_of,
    random_required,
    random_resources,
)
from tests.differential.state import build_generation_placeholder


def build_provider_name(uuid: str) -> str:
    return f"host-{uuid[-1]}"


def root_request(dice: Dice) -> Request:
    path = dice.choice(
        ["/", "/", "", "/nope", "/resource_provider", "/allocation_candidate/1", "/v1"]
    )
    return Request("GET", path, dice.version())


def provider_request(dice: Dice) -> Request:
    uuid = dice.uuid(PROVIDERS)
    path = f"/resource_providers/{uuid}"
    kind = dice.choice(["post", "post", "put", "get", "delete", "list", "list", "list"])
    if kind == "post":
        version = dice.version()
        document: dict[str, Any] = {"name": _random_provider_name(dice, uuid), "uuid": uuid}
        if dice.chance(0.05):
            del document["uuid"]
        _maybe_add_parent(dice, version, document)
        return Request("POST", "/resource_providers", version, document)
    if kind == "put":
        version = dice.version()
        document = {"name": _random_provider_name(dice, uuid)}
        _maybe_add_parent(dice, version, document)
        return Request("PUT", path, version, document)
    if kind == "list":
        return _random_request_for_provider_list(dice)
    return Request(kind.upper(), path, dice.version())


def _random_provider_name(dice: Dice, uuid: str) -> Any:
    if dice.chance(0.9):
        return build_provider_name(uuid)
    return dice.choice(
        [build_provider_name(dice.choice(PROVIDERS)), "other", "ü", " ", "A" * 200, "A" * 201]
    )


def _maybe_add_parent(dice: Dice, version: str | None, document: dict[str, Any]) -> None:
    late = version not in {None, "1.0"} and (version == "latest" or int(version[2:]) >= 14)
    if dice.chance(0.6 if late else 0.03):
        document["parent_provider_uuid"] = None if dice.chance(0.2) else dice.uuid(PROVIDERS)


def _random_request_for_provider_list(dice: Dice) -> Request:
    version = dice.version(dice.choice([0, 3, 4, 14, 18, 22, 24, 32, 39]))
    pairs: list[tuple[str, str]] = []
    if dice.chance(0.15):
        pairs.append(("name", build_provider_name(dice.choice(PROVIDERS))))
    if dice.chance(0.15):
        pairs.append(("uuid", dice.uuid(PROVIDERS)))
    if dice.chance(0.3):
        pairs.append(("in_tree", dice.uuid(PROVIDERS)))
    if dice.chance(0.4):
        pairs.append(("resources", random_resources(dice)))
    pairs += [("required", random_required(dice)) for _ in range(dice.choice([0, 0, 1, 1, 2]))]
    pairs += [("member_of", random_member_of(dice)) for _ in range(dice.choice([0, 0, 1, 2]))]
    return Request("GET", "/resource_providers" + build_query_string(dice, pairs), version)


def inventory_request(dice: Dice) -> Request:
    uuid = dice.uuid(PROVIDERS)
    path = f"/resource_providers/{uuid}/inventories"
    name = dice.resource_class()
    single_path = f"{path}/{quote(name)}"
    kind = dice.choice(
        ["get", "get one", "post", "put", "put", "put one", "put one", "delete", "delete one"]
    )
    version = dice.version(5 if kind == "delete" else 0)
    if kind == "get":
        return Request("GET", path, version)
    if kind == "get one":
        return Request("GET", single_path, version)
    if kind == "delete":
        return Request("DELETE", path, version)
    if kind == "delete one":
        return Request("DELETE", single_path, version)
    if kind == "post":
        document = {**random_inventory(dice), "resource_class": name}
        return Request("POST", path, version, document)
    if kind == "put one":
        document = {
            **random_inventory(dice),
            "resource_provider_generation": random_generation(dice, uuid),
        }
        return Request("PUT", single_path, version, document)
    return Request("PUT", path, version, random_inventories(dice, uuid))


def random_inventories(dice: Dice, uuid: str) -> dict[str, Any]:
    names = dice.sample(CLASSES, 0, 4) + dice.sample(ODD_CLASSES, 0, 1) * dice.chance(0.05)
    return {
        "resource_provider_generation": random_generation(dice, uuid),
        "inventories": {name: random_inventory(dice) for name in names},
    }


def random_inventory(dice: Dice) -> dict[str, Any]:
    total = dice.choice([1, 2, 4, 8, 8, 16, 16, 32, 100])
    document: dict[str, Any] = {"total": total}
    if dice.chance(0.2):
        document["reserved"] = dice.choice([0, 1, 2, total, total - 1, total + 1])
    if dice.chance(0.2):
        document["min_unit"] = dice.choice([1, 1, 2, 4])
    if dice.chance(0.3):
        document["max_unit"] = dice.choice([1, 2, 4, total, 2**31 - 1])
    if dice.chance(0.2):
        document["step_size"] = dice.choice([1, 2, 3])
    if dice.chance(0.2):
        document["allocation_ratio"] = dice.choice([1.0, 1, 0.5, 1.5, 4.0, 16, 0.1, 0, -1, 3.5e38])
    if dice.chance(0.04):
        key = dice.choice([*document, "reserved", "max_unit", "step_size"])
        document[key] = dice.choice(ODD_VALUES)
    return document


def random_generation(dice: Dice, uuid: str) -> Any:
    if dice.chance(0.9):
        return build_generation_placeholder(uuid)
    return dice.choice([0, 1, 2, 99, -1, 1.0, None, "1", 2**40])


def trait_request(dice: Dice) -> Request:
    name = dice.choice(CUSTOM_TRAITS) if dice.chance(0.6) else dice.trait()
    kind = dice.choice(["list", "list", "get", "put", "delete"])
    version = dice.version(6)
    if kind == "list":
        pairs = []
        if dice.chance(0.7):
            names = ",".join(dice.sample(TRAITS, 1, 3))
            other = dice.choice(
                [f"in:{names},NOPE", "startswith:HW", "startswith:", "in:", "HW", ""]
            )
            words = [f"in:{names}", "startswith:CUSTOM_", other]
            pairs.append(("name", dice.choice(words)))
        if dice.chance(0.5) or not pairs:
            pairs.append(("associated", dice.choice(["true", "false", "True", "FALSE", "1", ""])))
        return Request("GET", "/traits" + build_query_string(dice, pairs), version)
    return Request(kind.upper(), f"/traits/{quote(name)}", version)


def provider_traits_request(dice: Dice) -> Request:
    uuid = dice.uuid(PROVIDERS)
    path = f"/resource_providers/{uuid}/traits"
    kind = dice.choice(["GET", "PUT", "PUT", "PUT", "DELETE"])
    if kind != "PUT":
        return Request(kind, path, dice.version(6))
    document = {
        "traits": random_trait_names(dice),
        "resource_provider_generation": random_generation(dice, uuid),
    }
    return Request("PUT", path, dice.version(6), document)


def random_trait_names(dice: Dice) -> list[str]:
    names = dice.sample(TRAITS, 0, 3)
    if dice.chance(0.15):
        names.append(SHARES)
    if dice.chance(0.05):
        names.append(dice.choice([*ODD_TRAITS, *names, "HW_CPU_X86_AVX"]))
    return names


def resource_class_request(dice: Dice) -> Request:
    name = dice.choice(CUSTOM_CLASSES) if dice.chance(0.6) else dice.resource_class()
    kind = dice.choice(["list", "get", "post", "put", "rename", "delete"])
    version = dice.version(7 if kind == "put" else 2, 6 if kind == "rename" else 39)
    path = f"/resource_classes/{quote(name)}"
    if kind == "list":
        return Request("GET", "/resource_classes", version)
    if kind == "post":
        return Request("POST", "/resource_classes", version, {"name": name})
    if kind == "rename":
        return Request("PUT", path, version, {"name": dice.choice([*CUSTOM_CLASSES, "CUSTOM_NEW"])})
    return Request(kind.upper(), path, version)


def aggregates_request(dice: Dice) -> Request:
    uuid = dice.uuid(PROVIDERS)
    path = f"/resource_providers/{uuid}/aggregates"
    version = dice.version(1)
    if dice.chance(0.3):
        return Request("GET", path, version)
    named: list[Any] = [dice.uuid(AGGREGATES) for _ in range(dice.integer(0, 2))]
    late = version == "latest" or (version is not None and int(version[2:]) >= 19)
    if late != dice.chance(0.05):
        body: Any = {
            "aggregates": named,
            "resource_provider_generation": random_generation(dice, uuid),
        }
        return Request("PUT", path, version, body)
    return Request("PUT", path, version, named)


def usages_request(dice: Dice) -> Request:
    if dice.chance(0.5):
        path = f"/resource_providers/{dice.uuid(PROVIDERS)}"
        return Request("GET", f"{path}/{dice.choice(['usages', 'allocations'])}", dice.version())
    if dice.chance(0.4):
        return Request("GET", f"/allocations/{dice.uuid(CONSUMERS)}", dice.version())
    pairs = [("project_id", dice.choice([*PROJECTS, *PROJECTS, "nobody", "", "x" * 256]))]
    if dice.chance(0.5):
        pairs.append(("user_id", dice.choice([*USERS, "nobody", ""])))
    if dice.chance(0.4):
        pairs.append(("consumer_type", dice.choice([*TYPES, "all", "nope", "NOPE", ""])))
    if dice.chance(0.05):
        pairs = pairs[1:]
    return Request(
        "GET", "/usages" + build_query_string(dice, pairs), dice.version(dice.choice([9, 38]))
    )
