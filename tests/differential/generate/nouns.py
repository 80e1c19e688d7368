# SPDX-License-Identifier: Apache-2.0
"""Requests on providers, inventories, traits, classes and aggregates."""

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
from tests.differential.generate.query import member_of, query_string, required, resources
from tests.differential.state import generation


def name_of(uuid: str) -> str:
    return f"host-{uuid[-1]}"


def root(dice: Dice) -> Request:
    path = dice.one(["/", "/", "", "/nope", "/resource_provider", "/allocation_candidate/1", "/v1"])
    return Request("GET", path, dice.version())


def provider(dice: Dice) -> Request:
    uuid = dice.uuid(PROVIDERS)
    path = f"/resource_providers/{uuid}"
    kind = dice.one(["post", "post", "put", "get", "delete", "list", "list", "list"])
    if kind == "post":
        version = dice.version()
        document: dict[str, Any] = {"name": _name(dice, uuid), "uuid": uuid}
        if dice.chance(0.05):
            del document["uuid"]
        _maybe_parent(dice, version, document)
        return Request("POST", "/resource_providers", version, document)
    if kind == "put":
        version = dice.version()
        document = {"name": _name(dice, uuid)}
        _maybe_parent(dice, version, document)
        return Request("PUT", path, version, document)
    if kind == "list":
        return _list(dice)
    return Request(kind.upper(), path, dice.version())


def _name(dice: Dice, uuid: str) -> Any:
    if dice.chance(0.9):
        return name_of(uuid)
    return dice.one([name_of(dice.one(PROVIDERS)), "other", "ü", " ", "A" * 200, "A" * 201])


def _maybe_parent(dice: Dice, version: str | None, document: dict[str, Any]) -> None:
    late = version not in {None, "1.0"} and (version == "latest" or int(version[2:]) >= 14)
    if dice.chance(0.6 if late else 0.03):
        document["parent_provider_uuid"] = None if dice.chance(0.2) else dice.uuid(PROVIDERS)


def _list(dice: Dice) -> Request:
    version = dice.version(dice.one([0, 3, 4, 14, 18, 22, 24, 32, 39]))
    pairs: list[tuple[str, str]] = []
    if dice.chance(0.15):
        pairs.append(("name", name_of(dice.one(PROVIDERS))))
    if dice.chance(0.15):
        pairs.append(("uuid", dice.uuid(PROVIDERS)))
    if dice.chance(0.3):
        pairs.append(("in_tree", dice.uuid(PROVIDERS)))
    if dice.chance(0.4):
        pairs.append(("resources", resources(dice)))
    pairs += [("required", required(dice)) for _ in range(dice.one([0, 0, 1, 1, 2]))]
    pairs += [("member_of", member_of(dice)) for _ in range(dice.one([0, 0, 1, 2]))]
    return Request("GET", "/resource_providers" + query_string(dice, pairs), version)


def inventory(dice: Dice) -> Request:
    uuid = dice.uuid(PROVIDERS)
    path = f"/resource_providers/{uuid}/inventories"
    name = dice.resource_class()
    one = f"{path}/{quote(name)}"
    kind = dice.one(["get", "get one", "post", "put", "put", "put one", "put one", "delete", "one"])
    version = dice.version(5 if kind == "delete" else 0)
    if kind == "get":
        return Request("GET", path, version)
    if kind == "get one":
        return Request("GET", one, version)
    if kind == "delete":
        return Request("DELETE", path, version)
    if kind == "one":
        return Request("DELETE", one, version)
    if kind == "post":
        document = {**stock(dice), "resource_class": name}
        return Request("POST", path, version, document)
    if kind == "put one":
        document = {**stock(dice), "resource_provider_generation": seen(dice, uuid)}
        return Request("PUT", one, version, document)
    return Request("PUT", path, version, stocks(dice, uuid))


def stocks(dice: Dice, uuid: str) -> dict[str, Any]:
    names = dice.some(CLASSES, 0, 4) + dice.some(ODD_CLASSES, 0, 1) * dice.chance(0.05)
    return {
        "resource_provider_generation": seen(dice, uuid),
        "inventories": {name: stock(dice) for name in names},
    }


def stock(dice: Dice) -> dict[str, Any]:
    total = dice.one([1, 2, 4, 8, 8, 16, 16, 32, 100])
    document: dict[str, Any] = {"total": total}
    if dice.chance(0.2):
        document["reserved"] = dice.one([0, 1, 2, total, total - 1, total + 1])
    if dice.chance(0.2):
        document["min_unit"] = dice.one([1, 1, 2, 4])
    if dice.chance(0.3):
        document["max_unit"] = dice.one([1, 2, 4, total, 2**31 - 1])
    if dice.chance(0.2):
        document["step_size"] = dice.one([1, 2, 3])
    if dice.chance(0.2):
        document["allocation_ratio"] = dice.one([1.0, 1, 0.5, 1.5, 4.0, 16, 0.1, 0, -1, 3.5e38])
    if dice.chance(0.04):
        key = dice.one([*document, "reserved", "max_unit", "step_size"])
        document[key] = dice.one(ODD_VALUES)
    return document


def seen(dice: Dice, uuid: str) -> Any:
    if dice.chance(0.9):
        return generation(uuid)
    return dice.one([0, 1, 2, 99, -1, 1.0, None, "1", 2**40])


def trait(dice: Dice) -> Request:
    name = dice.one(CUSTOM_TRAITS) if dice.chance(0.6) else dice.trait()
    kind = dice.one(["list", "list", "get", "put", "delete"])
    version = dice.version(6)
    if kind == "list":
        pairs = []
        if dice.chance(0.7):
            names = ",".join(dice.some(TRAITS, 1, 3))
            other = dice.one([f"in:{names},NOPE", "startswith:HW", "startswith:", "in:", "HW", ""])
            words = [f"in:{names}", "startswith:CUSTOM_", other]
            pairs.append(("name", dice.one(words)))
        if dice.chance(0.5) or not pairs:
            pairs.append(("associated", dice.one(["true", "false", "True", "FALSE", "1", ""])))
        return Request("GET", "/traits" + query_string(dice, pairs), version)
    return Request(kind.upper(), f"/traits/{quote(name)}", version)


def provider_traits(dice: Dice) -> Request:
    uuid = dice.uuid(PROVIDERS)
    path = f"/resource_providers/{uuid}/traits"
    kind = dice.one(["GET", "PUT", "PUT", "PUT", "DELETE"])
    if kind != "PUT":
        return Request(kind, path, dice.version(6))
    document = {"traits": trait_names(dice), "resource_provider_generation": seen(dice, uuid)}
    return Request("PUT", path, dice.version(6), document)


def trait_names(dice: Dice) -> list[str]:
    names = dice.some(TRAITS, 0, 3)
    if dice.chance(0.15):
        names.append(SHARES)
    if dice.chance(0.05):
        names.append(dice.one([*ODD_TRAITS, *names, "HW_CPU_X86_AVX"]))
    return names


def resource_class(dice: Dice) -> Request:
    name = dice.one(CUSTOM_CLASSES) if dice.chance(0.6) else dice.resource_class()
    kind = dice.one(["list", "get", "post", "put", "rename", "delete"])
    version = dice.version(7 if kind == "put" else 2, 6 if kind == "rename" else 39)
    path = f"/resource_classes/{quote(name)}"
    if kind == "list":
        return Request("GET", "/resource_classes", version)
    if kind == "post":
        return Request("POST", "/resource_classes", version, {"name": name})
    if kind == "rename":
        return Request("PUT", path, version, {"name": dice.one([*CUSTOM_CLASSES, "CUSTOM_NEW"])})
    return Request(kind.upper(), path, version)


def aggregates(dice: Dice) -> Request:
    uuid = dice.uuid(PROVIDERS)
    path = f"/resource_providers/{uuid}/aggregates"
    version = dice.version(1)
    if dice.chance(0.3):
        return Request("GET", path, version)
    named: list[Any] = [dice.uuid(AGGREGATES) for _ in range(dice.number(0, 2))]
    late = version == "latest" or (version is not None and int(version[2:]) >= 19)
    if late != dice.chance(0.05):
        body: Any = {"aggregates": named, "resource_provider_generation": seen(dice, uuid)}
        return Request("PUT", path, version, body)
    return Request("PUT", path, version, named)


def usages(dice: Dice) -> Request:
    if dice.chance(0.5):
        path = f"/resource_providers/{dice.uuid(PROVIDERS)}"
        return Request("GET", f"{path}/{dice.one(['usages', 'allocations'])}", dice.version())
    if dice.chance(0.4):
        return Request("GET", f"/allocations/{dice.uuid(CONSUMERS)}", dice.version())
    pairs = [("project_id", dice.one([*PROJECTS, *PROJECTS, "nobody", "", "x" * 256]))]
    if dice.chance(0.5):
        pairs.append(("user_id", dice.one([*USERS, "nobody", ""])))
    if dice.chance(0.4):
        pairs.append(("consumer_type", dice.one([*TYPES, "all", "nope", "NOPE", ""])))
    if dice.chance(0.05):
        pairs = pairs[1:]
    return Request("GET", "/usages" + query_string(dice, pairs), dice.version(dice.one([9, 38])))
