# SPDX-License-Identifier: Apache-2.0
"""Random changes that make a request invalid or unusual."""

import json
from dataclasses import replace
from typing import Any

from tests.differential.exchange import Request
from tests.differential.generate.dice import ODD_VALUES, Dice
from tests.support.versions import NEXT


def make_invalid(dice: Dice, request: Request) -> Request:
    changes = [
        _with_other_accept_header,
        _with_other_caller,
        _with_other_method,
        _with_invalid_target,
        _with_invalid_version,
    ]
    if request.document is not ...:
        changes += [
            _with_wrong_value,
            _with_wrong_value,
            _with_wrong_value,
            _with_malformed_body,
            _with_other_content_type,
        ]
    else:
        changes += [_with_unwanted_body]
    return dice.choice(changes)(dice, request)


def _with_other_accept_header(dice: Dice, request: Request) -> Request:
    accept = dice.choice(
        ["text/plain", "text/html", "*/*", "application/*", "application/json;q=0", "garbage", "",
         "text/plain, application/json;q=0.1", "application/json", "application/xml", "text/*"]
    )  # fmt: skip
    return replace(request, headers={**request.headers, "Accept": accept})


def _with_other_caller(dice: Dice, request: Request) -> Request:
    token = dice.choice([None, "admin", "somebody", "somebody:project-1", "somebody:project-1"])
    roles = dice.choice([None, "", "admin", "service", "reader", "member", "reader,member"])
    headers: dict[str, str | None] = {"X-Auth-Token": token, "X-Roles": roles}
    if dice.chance(0.3):
        headers["X-Project-Id"] = dice.choice(["", "project-1", "project-2"])
    if dice.chance(0.2):
        scope = dice.choice(["OpenStack-System-Scope", "X-Domain-Id", "X-User-Domain-Id"])
        headers[scope] = dice.choice(["all", "default", ""])
    return replace(request, headers={**request.headers, **headers})


def _with_other_content_type(dice: Dice, request: Request) -> Request:
    kind = dice.choice(
        [None, "text/plain", "application/json; charset=utf-8", "APPLICATION/JSON", "", "garbage",
         "application/x-www-form-urlencoded", "application/json-patch+json"]
    )  # fmt: skip
    return replace(request, headers={**request.headers, "Content-Type": kind})


def _with_unwanted_body(dice: Dice, request: Request) -> Request:
    changed = replace(request, text=dice.choice(["{}", "", "x", '{"name": "x"}', "[]"]))
    return _with_other_content_type(dice, changed) if dice.chance(0.5) else changed


def _with_other_method(dice: Dice, request: Request) -> Request:
    method = dice.choice(["HEAD", "OPTIONS", "PATCH", "GET", "PUT", "POST", "DELETE", "BREW"])
    return replace(request, method=method)


def _with_invalid_target(dice: Dice, request: Request) -> Request:
    path, mark, query = request.target.partition("?")
    path = dice.choice(
        [path + "/", "/" + path, path + "/nope", path + "%20", path + "%2F",
         path.replace("s", "%73"), path.replace("0", "%30"), path + "x",
         path.rpartition("/")[0] or "/", path + "%C3%BC", path + "%FF", path.upper(), "/", "",
         path + ";x=1", path.replace("/", "//"), path + "/."]
    )  # fmt: skip
    if dice.chance(0.3):
        extra = dice.choice(["zork=1", "%FF=1", "a=%00", "&&", "=", "name=%C3%BC", "limit=1"])
        query = f"{query}&{extra}" if query else extra
        path, mark = request.path, "?"
    return replace(request, target=path + mark + query)


def _with_invalid_version(dice: Dice, request: Request) -> Request:
    header = dice.choice(
        [f"placement {NEXT}", "placement 2.0", "placement 0.9", "placement", "placement 1", "1.39",
         "placement x", "placement 1.x", "compute 2.1", "compute 2.1, placement 1.30", "",
         "placement  1.30", "Placement 1.30", "placement 1.30.1", "placement -1.1",
         "placement 1.010", "placement latest", "placement LATEST", "placement 1.30 ",
         "placement 1.30, placement 1.2"]
    )  # fmt: skip
    return replace(
        request, version=None, headers={**request.headers, "OpenStack-API-Version": header}
    )


def _with_malformed_body(dice: Dice, request: Request) -> Request:
    whole = json.dumps(request.document)
    text = dice.choice(
        ["", "{", "null", "[]", "{}", "1", '"x"', whole[:-1], whole + "x", "[" + whole + "]",
         whole.replace('"', "'"), " " + whole + "\n", "\ufeff" + whole, "NaN", '{"name": NaN}',
         '{"name": "a", "name": "b"}', '{"name": "\\ud800"}', '{"name": "\\u0000"}', "Infinity"]
    )  # fmt: skip
    return replace(request, document=..., text=text)


def _with_wrong_value(dice: Dice, request: Request) -> Request:
    document = json.loads(json.dumps(request.document))
    places = list(_list_value_paths(document))
    if not places:
        return replace(request, document=dice.choice(ODD_VALUES))
    holder, key = dice.choice(places)
    kind = dice.choice(["replace", "replace", "remove", "add", "rename"])
    if kind == "replace" or isinstance(holder, list):
        holder[key] = dice.choice(ODD_VALUES)
    elif kind == "remove":
        del holder[key]
    elif kind == "add":
        holder[dice.choice(["zork", "name", "resource_provider_generation", ""])] = dice.choice(
            ODD_VALUES
        )
    else:
        holder[dice.choice([key + "x", key.upper(), key.lower(), " " + key])] = holder.pop(key)
    return replace(request, document=document)


def _list_value_paths(value: Any) -> Any:
    if isinstance(value, dict):
        if any(key.endswith("generation of") for key in value):
            return
        for key, item in value.items():
            yield value, key
            yield from _list_value_paths(item)
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield value, position
            yield from _list_value_paths(item)
