# SPDX-License-Identifier: Apache-2.0
"""Makes a sound request unsound, or strange: bodies, types, headers, methods, spellings."""

import json
from dataclasses import replace
from typing import Any

from tests.differential.exchange import Request
from tests.differential.generate.dice import ODD_VALUES, Dice
from tests.support.versions import NEXT


def make_invalid(dice: Dice, request: Request) -> Request:
    ways = [_headers, _caller, _method, _target, _version]
    if request.document is not ...:
        ways += [_value, _value, _value, _text, _content_type]
    else:
        ways += [_unwanted_body]
    return dice.one(ways)(dice, request)


def _headers(dice: Dice, request: Request) -> Request:
    accept = dice.one(
        ["text/plain", "text/html", "*/*", "application/*", "application/json;q=0", "garbage", "",
         "text/plain, application/json;q=0.1", "application/json", "application/xml", "text/*"]
    )  # fmt: skip
    return replace(request, headers={**request.headers, "Accept": accept})


def _caller(dice: Dice, request: Request) -> Request:
    token = dice.one([None, "admin", "somebody", "somebody:project-1", "somebody:project-1"])
    roles = dice.one([None, "", "admin", "service", "reader", "member", "reader,member"])
    told: dict[str, str | None] = {"X-Auth-Token": token, "X-Roles": roles}
    if dice.chance(0.3):
        told["X-Project-Id"] = dice.one(["", "project-1", "project-2"])
    if dice.chance(0.2):
        scope = dice.one(["OpenStack-System-Scope", "X-Domain-Id", "X-User-Domain-Id"])
        told[scope] = dice.one(["all", "default", ""])
    return replace(request, headers={**request.headers, **told})


def _content_type(dice: Dice, request: Request) -> Request:
    kind = dice.one(
        [None, "text/plain", "application/json; charset=utf-8", "APPLICATION/JSON", "", "garbage",
         "application/x-www-form-urlencoded", "application/json-patch+json"]
    )  # fmt: skip
    return replace(request, headers={**request.headers, "Content-Type": kind})


def _unwanted_body(dice: Dice, request: Request) -> Request:
    spoiled = replace(request, text=dice.one(["{}", "", "x", '{"name": "x"}', "[]"]))
    return _content_type(dice, spoiled) if dice.chance(0.5) else spoiled


def _method(dice: Dice, request: Request) -> Request:
    method = dice.one(["HEAD", "OPTIONS", "PATCH", "GET", "PUT", "POST", "DELETE", "BREW"])
    return replace(request, method=method)


def _target(dice: Dice, request: Request) -> Request:
    path, mark, query = request.target.partition("?")
    path = dice.one(
        [path + "/", "/" + path, path + "/nope", path + "%20", path + "%2F",
         path.replace("s", "%73"), path.replace("0", "%30"), path + "x",
         path.rpartition("/")[0] or "/", path + "%C3%BC", path + "%FF", path.upper(), "/", "",
         path + ";x=1", path.replace("/", "//"), path + "/."]
    )  # fmt: skip
    if dice.chance(0.3):
        extra = dice.one(["zork=1", "%FF=1", "a=%00", "&&", "=", "name=%C3%BC", "limit=1"])
        query = f"{query}&{extra}" if query else extra
        path, mark = request.path, "?"
    return replace(request, target=path + mark + query)


def _version(dice: Dice, request: Request) -> Request:
    header = dice.one(
        [f"placement {NEXT}", "placement 2.0", "placement 0.9", "placement", "placement 1", "1.39",
         "placement x", "placement 1.x", "compute 2.1", "compute 2.1, placement 1.30", "",
         "placement  1.30", "Placement 1.30", "placement 1.30.1", "placement -1.1",
         "placement 1.010", "placement latest", "placement LATEST", "placement 1.30 ",
         "placement 1.30, placement 1.2"]
    )  # fmt: skip
    return replace(
        request, version=None, headers={**request.headers, "OpenStack-API-Version": header}
    )


def _text(dice: Dice, request: Request) -> Request:
    whole = json.dumps(request.document)
    text = dice.one(
        ["", "{", "null", "[]", "{}", "1", '"x"', whole[:-1], whole + "x", "[" + whole + "]",
         whole.replace('"', "'"), " " + whole + "\n", "\ufeff" + whole, "NaN", '{"name": NaN}',
         '{"name": "a", "name": "b"}', '{"name": "\\ud800"}', '{"name": "\\u0000"}', "Infinity"]
    )  # fmt: skip
    return replace(request, document=..., text=text)


def _value(dice: Dice, request: Request) -> Request:
    document = json.loads(json.dumps(request.document))
    places = list(_places(document))
    if not places:
        return replace(request, document=dice.one(ODD_VALUES))
    holder, key = dice.one(places)
    kind = dice.one(["replace", "replace", "remove", "add", "rename"])
    if kind == "replace" or isinstance(holder, list):
        holder[key] = dice.one(ODD_VALUES)
    elif kind == "remove":
        del holder[key]
    elif kind == "add":
        holder[dice.one(["zork", "name", "resource_provider_generation", ""])] = dice.one(
            ODD_VALUES
        )
    else:
        holder[dice.one([key + "x", key.upper(), key.lower(), " " + key])] = holder.pop(key)
    return replace(request, document=document)


def _places(value: Any) -> Any:
    if isinstance(value, dict):
        if any(key.endswith("generation of") for key in value):
            return
        for key, one in value.items():
            yield value, key
            yield from _places(one)
    elif isinstance(value, list):
        for position, one in enumerate(value):
            yield value, position
            yield from _places(one)
