# SPDX-License-Identifier: Apache-2.0
"""Random requests for the routes of an application: valid, nearly valid and invalid."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from placement_sched.api.application import Application
from placement_sched.api.blueprint import PARAMETER, Route
from placement_sched.api.validation import Schemas
from placement_sched.api.versions import NEVER, Version
from tests.chaos.endpoints import ALWAYS_REJECTING, VERSIONS, Endpoint, list_endpoints
from tests.chaos.queries import NEEDED, POSSIBLE
from tests.chaos.valid_requests import (
    AGENT,
    ALL_ROLES,
    FIRST,
    FORM,
    DrawnRequest,
    ExistingNames,
    ValidRequests,
)
from tests.chaos.writes import Get

#: Existing names and unknown names.
UUIDS = [f"99999999-0000-4000-8000-00000000000{digit}" for digit in range(6)]
NAMES = ["cn1", "cn2", "m1.small", "VCPU", "CUSTOM_GOLD", "HW_CPU_X86_AVX2", "nova", "az1", "1"]
#: Texts that break programs without input validation.
EVIL = [
    "",
    " ",
    "\x00",
    "\u2028",
    "\U0001f4a9",
    "\ud800",
    "'; DROP TABLE allocations; --",
    "%00",
    "../../etc/passwd",
    "//x",
    "${jndi:ldap://127.0.0.1/a}",
    "<script>alert(1)</script>",
    "A" * 3000,
    "-1",
    "1e999",
    "NaN",
    "99999999999999999999999999",
    "{}",
    "in:",
    "!",
    "in:a,,b",
]
NUMBERS = [0, 1, 2, 16, -1, 2**31 - 1, 2**31, 2**63, -(2**63) - 1, 10**30, 1.5, 0.0, 1e308]
#: Bodies that are invalid JSON, or JSON that no route accepts.
RAW_BODIES = [
    b"",
    b"{",
    b"[]",
    b"null",
    b"\xff\xfe",
    b'{"a": 1, "a": 2}',
    b"[" * 2000,
    b'{"a":' * 500 + b"1" + b"}" * 500,
    b"1e400",
    b'"\\ud800"',
]
METHODS = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"]
#: Header values that replace valid values.
HEADERS = {
    "X-Auth-Token": ["bob:p", "admin", ""],
    "X-Roles": ["reader", "member,reader", "service", ""],
    "Accept": ["*/*", "text/html", "image/png", ""],
    "Content-Type": ["text/plain", "application/json; charset=x", "application/json", ""],
    "Sec-Fetch-Site": ["cross-site", "none"],
    "Accept-Encoding": ["gzip", "br, *;q=0", "identity;q=0"],
    "If-None-Match": ["*", '"x"'],
    "Range": ["bytes=0-1", "bytes=9-1"],
}
QUERIES = {
    "resources": ["VCPU:1", "VCPU:1,MEMORY_MB:64", "VCPU:0", "VCPU", "CUSTOM_X:1", "VCPU:1:1"],
    "required": ["HW_CPU_X86_AVX2", "!CUSTOM_GOLD", "in:CUSTOM_GOLD", "!", "CUSTOM_NOPE"],
    "member_of": [UUIDS[0], f"in:{UUIDS[0]},{UUIDS[1]}", f"!in:{UUIDS[2]}", "in:", "x"],
    "in_tree": UUIDS,
    "group_policy": ["none", "isolate", "x"],
    "limit": ["1", "0", "-1", "x", "1000", "99999999999"],
    "marker": [*UUIDS, "x"],
    "same_subtree": ["1,2", "_A", ""],
    "state": ["up", "down", "x"],
    "since": ["1h", "2026-01-01T00:00:00Z", "yesterday"],
}


@dataclass
class Grammar:
    """Draws requests for the endpoints of an application.

    The first request for each endpoint is valid. Later requests are valid, nearly valid, or derived
    only from the schemas. An endpoint without a successful request is drawn more often.
    """

    endpoints: Sequence[Endpoint]
    valid: ValidRequests
    dice: random.Random
    #: Endpoints that have answered with success. The caller fills the set.
    succeeded: set[str] = field(default_factory=set)
    _walk: list[Endpoint] = field(init=False)

    def __post_init__(self) -> None:
        order = {"POST": 0, "PUT": 1, "PATCH": 1, "DELETE": 3}
        walk = sorted(self.endpoints, key=lambda endpoint: order.get(endpoint.method, 2))
        self._walk = walk[::-1]

    @classmethod
    def for_application(cls, application: Application, dice: random.Random, get: Get) -> "Grammar":
        """Return the grammar of all endpoints. ``get`` reads existing objects."""
        valid = ValidRequests(ExistingNames(dice, get), dice)
        return cls(list(list_endpoints(application)), valid, dice)

    def draw_request(self) -> DrawnRequest:
        if self._walk:
            return self.valid.draw_request(self._walk.pop())
        done = {*self.succeeded, *ALWAYS_REJECTING}
        missing = [endpoint for endpoint in self.endpoints if endpoint.view not in done]
        if missing and self.dice.random() < 0.4:
            endpoint = self.dice.choice(missing)
            first = FIRST.get(endpoint.name) if self.dice.random() < 0.5 else None
            before = [endpoint for endpoint in self.endpoints if endpoint.name == first]
            return self.valid.draw_request(self.dice.choice(before or [endpoint]))
        # Some views have many rules.
        view = self.dice.choice(sorted({endpoint.view for endpoint in self.endpoints}))
        rules = [endpoint for endpoint in self.endpoints if endpoint.view == view]
        endpoint, kind = self.dice.choice(rules), self.dice.random()
        if kind < 0.4:
            return self.valid.draw_request(endpoint)
        if kind < 0.8:
            return self._change_request(self.valid.draw_request(endpoint))
        return self._build_from_schema(endpoint)

    def _change_request(self, drawn: DrawnRequest) -> DrawnRequest:
        """Return a copy of a valid request with a change or two."""
        for _ in range(self.dice.choice([1, 1, 2])):
            change = self.dice.choice(
                [self._change_body] * 4
                + [self._change_query] * 2
                + [self._change_version] * 2
                + [self._change_path, self._change_header, self._change_method]
            )
            drawn = change(drawn)
        return drawn

    def _change_body(self, drawn: DrawnRequest) -> DrawnRequest:
        if not drawn.body:
            return self._change_query(drawn)
        if self.dice.random() < 0.1:
            return replace(drawn, body=self.dice.choice(RAW_BODIES))
        try:
            document = json.loads(drawn.body)
        except ValueError:  # for example a form
            return replace(
                drawn,
                body=drawn.body + quote(self.dice.choice(EVIL[2:5]), errors="replace").encode(),
            )
        return replace(drawn, body=_encode(self._change_value(document)))

    def _change_value(self, value: Any) -> Any:
        """Return a copy of a document with another value or key."""
        if not value or not isinstance(value, dict | list) or self.dice.random() < 0.1:
            return self._draw_any_value(1)
        if isinstance(value, list):
            index = self.dice.randrange(len(value))
            return [*value[:index], self._change_value(value[index]), *value[index + 1 :]]
        key = self.dice.choice(list(value))
        rest = {name: other for name, other in value.items() if name != key}
        match self.dice.choice(["other", "other", "other", "more", "less", "renamed"]):
            case "more":
                return {**value, self.dice.choice([*NAMES, *EVIL]): self._draw_any_value(1)}
            case "less":
                return rest
            case "renamed":
                return {**rest, self.dice.choice([*UUIDS, *NAMES, *EVIL]): value[key]}
        return {**value, key: self._change_value(value[key])}

    def _change_query(self, drawn: DrawnRequest) -> DrawnRequest:
        parameters = [*NEEDED.get(drawn.endpoint.name, {}), *POSSIBLE.get(drawn.endpoint.name, {})]
        pairs = list(drawn.query)
        if pairs and self.dice.random() < 0.5:
            pairs.pop(self.dice.randrange(len(pairs)))
        names = [*parameters, *self._query_parameters(drawn.endpoint)]
        pairs += [self._draw_parameter(names) for _ in range(self.dice.choice([1, 1, 2]))]
        return replace(drawn, query=pairs)

    def _change_version(self, drawn: DrawnRequest) -> DrawnRequest:
        version = self._draw_version(drawn.endpoint)
        return replace(drawn, headers={**drawn.headers, "OpenStack-API-Version": version})

    def _change_path(self, drawn: DrawnRequest) -> DrawnRequest:
        rule = drawn.endpoint.rule
        return replace(drawn, path=PARAMETER.sub(lambda _: self._draw_quoted_name(), rule))

    def _change_method(self, drawn: DrawnRequest) -> DrawnRequest:
        return replace(drawn, method=self.dice.choice(METHODS))

    def _change_header(self, drawn: DrawnRequest) -> DrawnRequest:
        name, values = self.dice.choice(list(HEADERS.items()))
        return replace(drawn, headers={**drawn.headers, name: self.dice.choice(values)})

    def _draw_version(self, endpoint: Endpoint) -> str:
        """Return a version header, mostly with a version that the endpoint serves."""
        if (served := endpoint.versions) and self.dice.random() < 0.7:
            return f"{endpoint.api} {self.dice.choice(served)}"
        api = self.dice.choice([endpoint.api] * 4 + list(VERSIONS))
        every = ["latest", "1.0", "1.12", "1.27", "1.36", "2.1", "2.53", "2.90", "9.9", "x", ""]
        return f"{api} {self.dice.choice(every)}"

    def _build_from_schema(self, endpoint: Endpoint) -> DrawnRequest:
        """Return a request derived only from the schemas of a route."""
        route, path = (
            endpoint.route,
            PARAMETER.sub(lambda _: self._draw_quoted_name(), endpoint.rule),
        )
        named = self._query_parameters(endpoint)
        query = [self._draw_parameter(named) for _ in range(self.dice.choice([0, 0, 1, 1, 2, 3]))]
        headers = {
            **ALL_ROLES,
            "User-Agent": AGENT,
            "OpenStack-API-Version": self._draw_version(endpoint),
            "Accept": self.dice.choice(["application/json", *HEADERS["Accept"]]),
        }
        body = None
        if endpoint.method in {"PUT", "POST", "PATCH"}:
            body = self._draw_body(route, headers["OpenStack-API-Version"])
            kinds = route.content_types if route else ("application/json", FORM)
            headers["Content-Type"] = self.dice.choice([*kinds * 8, *HEADERS["Content-Type"]])
        drawn = DrawnRequest(endpoint, endpoint.method, path, query, headers, body)
        if self.dice.random() < 0.2:
            drawn = self._change_header(drawn)
        return self._change_method(drawn) if self.dice.random() < 0.03 else drawn

    def _draw_quoted_name(self) -> str:
        return quote(self._draw_name(), safe="", errors="replace")

    def _draw_name(self) -> str:
        kind = self.dice.random()
        if kind < 0.5:
            return self.dice.choice(UUIDS)
        if kind < 0.8:
            return self.dice.choice(NAMES)
        # An empty segment, or a segment of dots, would make another path.
        return self.dice.choice(EVIL).strip(".") or "x"

    def _query_parameters(self, endpoint: Endpoint) -> list[str]:
        """Return the parameters in the schemas of a route's query string."""
        query = endpoint.route.query if endpoint.route else None
        return (
            []
            if query is None
            else [name for schema in _list_definitions(query) for name in _property_names(schema)]
        )

    def _draw_parameter(self, names: Sequence[str]) -> tuple[str, str]:
        name = self.dice.choice([*names * 2, *QUERIES])
        values = QUERIES.get(name.rstrip("0123456789"), [])
        return name, self.dice.choice([*values, *NAMES, *EVIL[:10]])

    def _draw_body(self, route: Route | None, version: str) -> bytes:
        if self.dice.random() < 0.1:
            return self.dice.choice(RAW_BODIES)
        if route is None or route.body is None:
            return _encode(self._draw_any_value(2))
        _api, _, number = version.partition(" ")
        numbers = [int(part) for part in number.split(".") if part.isdecimal()]
        schema = route.body.at(Version(*numbers) if len(numbers) == 2 else NEVER)
        # Sometimes the schema of another version.
        if schema is not None and self.dice.random() < 0.8:
            return _encode(self.build_value(schema.definition, 0))
        return _encode(self.build_value(self.dice.choice(_list_definitions(route.body)), 0))

    def build_value(self, schema: Any, depth: int) -> Any:
        """Return a value that matches a schema, or nearly matches it."""
        dice = self.dice
        if not isinstance(schema, Mapping) or depth > 12 or dice.random() < 0.03:
            return self._draw_any_value(1)
        for choices in ("oneOf", "anyOf"):
            if choices in schema:
                rest = {key: part for key, part in schema.items() if key != choices}
                return self.build_value({**rest, **dice.choice(schema[choices])}, depth + 1)
        if "enum" in schema:
            return dice.choice(list(schema["enum"]))
        if "const" in schema:
            return schema["const"]
        return self._build_value_of_type(schema, depth)

    def _build_value_of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        kinds = schema.get("type", "object" if "properties" in schema else "string")
        kind = self.dice.choice(kinds) if isinstance(kinds, list) else kinds
        match kind:
            case "object":
                return self._build_object(schema, depth)
            case "array":
                length = self.dice.choice([0, 1, 1, 2, 3])
                items = schema.get("items", {})
                return [self.build_value(items, depth + 1) for _ in range(length)]
            case "integer" | "number":
                low, high = schema.get("minimum", 0), schema.get("maximum", 64)
                inside = self.dice.randint(int(low), int(max(low, min(high, low + 64))))
                return self.dice.choice([inside] * 6 + NUMBERS)
            case "boolean":
                return self.dice.choice([True, False])
            case "null":
                return None
        return self._draw_text(schema)

    def _draw_text(self, schema: Mapping[str, Any]) -> str:
        if schema.get("format") == "uuid" or "uuid" in str(schema.get("pattern", "")):
            return self.dice.choice(UUIDS)
        return self.dice.choice([*UUIDS, *NAMES * 3, *EVIL])

    def _build_object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        document = {}
        needed = set(schema.get("required", ()))
        for name, part in (schema.get("properties") or {}).items():
            chance = 0.97 if name in needed else 0.5
            if self.dice.random() < chance:
                document[name] = self.build_value(part, depth + 1)
        for part in (schema.get("patternProperties") or {}).values():
            for _ in range(self.dice.choice([0, 1, 1, 2])):
                key = self.dice.choice([*UUIDS, "VCPU", "MEMORY_MB", "CUSTOM_X", "1", *EVIL[:4]])
                document[key] = self.build_value(part, depth + 1)
        more = schema.get("additionalProperties", True)
        if more is not False and self.dice.random() < 0.3:
            document[self._draw_name()] = self.build_value(more, depth + 1)
        if self.dice.random() < 0.03:
            document[self.dice.choice(EVIL)] = self._draw_any_value(1)
        return document

    def _draw_any_value(self, depth: int) -> Any:
        dice = self.dice
        plain = [None, True, *NUMBERS, *EVIL, *NAMES, *UUIDS]
        if depth and dice.random() < 0.4:
            return dice.choice(
                [
                    [self._draw_any_value(depth - 1) for _ in range(dice.randint(0, 3))],
                    {
                        str(self._draw_any_value(0)): self._draw_any_value(depth - 1)
                        for _ in range(2)
                    },
                ]
            )
        return dice.choice(plain)


def _list_definitions(schemas: Schemas) -> list[Mapping[str, Any]]:
    """Return the schemas of all versions."""
    return [schema.definition for _since, schema in schemas.windows if schema is not None]


def _property_names(schema: Mapping[str, Any]) -> list[str]:
    return list(schema.get("properties") or {})


def _encode(document: Any) -> bytes:
    return json.dumps(document).encode(errors="replace")
