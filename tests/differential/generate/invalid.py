# SPDX-License-Identifier: Apache-2.0
"""Random changes that make a request invalid or unusual."""

import json
from dataclasses import replace
from typing import Any

from tests.differential.exchange import Request
from tests.differential.generate.random_values import UNUSUAL_JSON_VALUES, RandomSource
from tests.support.versions import NEXT_VERSION


def make_request_invalid(rng: RandomSource, request: Request) -> Request:
    changes = [
        _replace_accept_header,
        _replace_caller,
        _replace_method,
        _make_target_invalid,
        _make_version_invalid,
    ]
    if request.document is not ...:
        changes += [
            _replace_value_by_wrong_value,
            _replace_value_by_wrong_value,
            _replace_value_by_wrong_value,
            _make_body_malformed,
            _replace_content_type,
        ]
    else:
        changes += [_add_unwanted_body]
    return rng.choice(changes)(rng, request)


def _replace_accept_header(rng: RandomSource, request: Request) -> Request:
    accept = rng.choice(
        ["text/plain", "text/html", "*/*", "application/*", "application/json;q=0", "garbage", "",
         "text/plain, application/json;q=0.1", "application/json", "application/xml", "text/*"]
    )  # fmt: skip
    return replace(request, headers={**request.headers, "Accept": accept})


def _replace_caller(rng: RandomSource, request: Request) -> Request:
    token = rng.choice([None, "admin", "somebody", "somebody:project-1", "somebody:project-1"])
    roles = rng.choice([None, "", "admin", "service", "reader", "member", "reader,member"])
    headers: dict[str, str | None] = {"X-Auth-Token": token, "X-Roles": roles}
    if rng.chance(0.3):
        headers["X-Project-Id"] = rng.choice(["", "project-1", "project-2"])
    if rng.chance(0.2):
        scope = rng.choice(["OpenStack-System-Scope", "X-Domain-Id", "X-User-Domain-Id"])
        headers[scope] = rng.choice(["all", "default", ""])
    return replace(request, headers={**request.headers, **headers})


def _replace_content_type(rng: RandomSource, request: Request) -> Request:
    kind = rng.choice(
        [None, "text/plain", "application/json; charset=utf-8", "APPLICATION/JSON", "", "garbage",
         "application/x-www-form-urlencoded", "application/json-patch+json"]
    )  # fmt: skip
    return replace(request, headers={**request.headers, "Content-Type": kind})


def _add_unwanted_body(rng: RandomSource, request: Request) -> Request:
    changed = replace(request, text=rng.choice(["{}", "", "x", '{"name": "x"}', "[]"]))
    return _replace_content_type(rng, changed) if rng.chance(0.5) else changed


def _replace_method(rng: RandomSource, request: Request) -> Request:
    method = rng.choice(["HEAD", "OPTIONS", "PATCH", "GET", "PUT", "POST", "DELETE", "BREW"])
    return replace(request, method=method)


def _make_target_invalid(rng: RandomSource, request: Request) -> Request:
    path, mark, query = request.target.partition("?")
    path = rng.choice(
        [path + "/", "/" + path, path + "/nope", path + "%20", path + "%2F",
         path.replace("s", "%73"), path.replace("0", "%30"), path + "x",
         path.rpartition("/")[0] or "/", path + "%C3%BC", path + "%FF", path.upper(), "/", "",
         path + ";x=1", path.replace("/", "//"), path + "/."]
    )  # fmt: skip
    if rng.chance(0.3):
        extra = rng.choice(["zork=1", "%FF=1", "a=%00", "&&", "=", "name=%C3%BC", "limit=1"])
        query = f"{query}&{extra}" if query else extra
        path, mark = request.path, "?"
    return replace(request, target=path + mark + query)


def _make_version_invalid(rng: RandomSource, request: Request) -> Request:
    header = rng.choice(
        [f"placement {NEXT_VERSION}", "placement 2.0", "placement 0.9", "placement", "placement 1",
         "1.39", "placement x", "placement 1.x", "compute 2.1", "compute 2.1, placement 1.30", "",
         "placement  1.30", "Placement 1.30", "placement 1.30.1", "placement -1.1",
         "placement 1.010", "placement latest", "placement LATEST", "placement 1.30 ",
         "placement 1.30, placement 1.2"]
    )  # fmt: skip
    return replace(
        request, version=None, headers={**request.headers, "OpenStack-API-Version": header}
    )


def _make_body_malformed(rng: RandomSource, request: Request) -> Request:
    whole = json.dumps(request.document)
    text = rng.choice(
        ["", "{", "null", "[]", "{}", "1", '"x"', whole[:-1], whole + "x", "[" + whole + "]",
         whole.replace('"', "'"), " " + whole + "\n", "\ufeff" + whole, "NaN", '{"name": NaN}',
         '{"name": "a", "name": "b"}', '{"name": "\\ud800"}', '{"name": "\\u0000"}', "Infinity"]
    )  # fmt: skip
    return replace(request, document=..., text=text)


def _replace_value_by_wrong_value(rng: RandomSource, request: Request) -> Request:
    document = json.loads(json.dumps(request.document))
    places = list(_list_value_paths(document))
    if not places:
        return replace(request, document=rng.choice(UNUSUAL_JSON_VALUES))
    holder, key = rng.choice(places)
    kind = rng.choice(["replace", "replace", "remove", "add", "rename"])
    if kind == "replace" or isinstance(holder, list):
        holder[key] = rng.choice(UNUSUAL_JSON_VALUES)
    elif kind == "remove":
        del holder[key]
    elif kind == "add":
        holder[rng.choice(["zork", "name", "resource_provider_generation", ""])] = rng.choice(
            UNUSUAL_JSON_VALUES
        )
    else:
        holder[rng.choice([key + "x", key.upper(), key.lower(), " " + key])] = holder.pop(key)
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
