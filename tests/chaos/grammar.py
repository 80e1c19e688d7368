# SPDX-License-Identifier: Apache-2.0
"""Random requests for the routes of an application: valid, nearly valid and invalid."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from placement_sched.api.application import Application
from placement_sched.api.routing import PARAMETER
from tests.chaos.endpoints import REJECTING_VIEWS, VERSIONED_APIS, Endpoint, list_endpoints
from tests.chaos.queries import OPTIONAL_PARAMETERS, REQUIRED_PARAMETERS
from tests.chaos.valid_requests import (
    PREREQUISITE_ENDPOINTS,
    DrawnRequest,
    ExistingNameDrawer,
    ValidRequestDrawer,
)
from tests.chaos.writes import DocumentReader

#: UUIDs without an object at first, and names of existing and missing objects.
UNKNOWN_UUIDS = [f"99999999-0000-4000-8000-00000000000{digit}" for digit in range(6)]
OBJECT_NAMES = ["cn1", "cn2", "m1.small", "VCPU", "CUSTOM_GOLD"]
OBJECT_NAMES += ["HW_CPU_X86_AVX2", "nova", "az1", "1"]
#: Texts that break programs without input validation.
HOSTILE_TEXTS = [
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
BOUNDARY_NUMBERS = [0, 1, 2, 16, -1, 2**31 - 1, 2**31, 2**63, -(2**63) - 1, 10**30, 1.5, 0.0, 1e308]
#: Bodies that are invalid JSON, or JSON that no route accepts.
INVALID_BODIES = [
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
HTTP_METHODS = ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"]
#: Header values that replace valid values.
HEADER_VALUES = {
    "X-Auth-Token": ["bob:p", "admin", ""],
    "X-Roles": ["reader", "member,reader", "service", ""],
    "Accept": ["*/*", "text/html", "image/png", ""],
    "Content-Type": ["text/plain", "application/json; charset=x", "application/json", ""],
    "Sec-Fetch-Site": ["cross-site", "none"],
    "Accept-Encoding": ["gzip", "br, *;q=0", "identity;q=0"],
    "If-None-Match": ["*", '"x"'],
    "Range": ["bytes=0-1", "bytes=9-1"],
}
QUERY_VALUES = {
    "resources": ["VCPU:1", "VCPU:1,MEMORY_MB:64", "VCPU:0", "VCPU", "CUSTOM_X:1", "VCPU:1:1"],
    "required": ["HW_CPU_X86_AVX2", "!CUSTOM_GOLD", "in:CUSTOM_GOLD", "!", "CUSTOM_NOPE"],
    "member_of": [
        UNKNOWN_UUIDS[0],
        f"in:{UNKNOWN_UUIDS[0]},{UNKNOWN_UUIDS[1]}",
        f"!in:{UNKNOWN_UUIDS[2]}",
        "in:",
        "x",
    ],
    "in_tree": UNKNOWN_UUIDS,
    "group_policy": ["none", "isolate", "x"],
    "limit": ["1", "0", "-1", "x", "1000", "99999999999"],
    "marker": [*UNKNOWN_UUIDS, "x"],
    "same_subtree": ["1,2", "_A", ""],
    "state": ["up", "down", "x"],
    "since": ["1h", "2026-01-01T00:00:00Z", "yesterday"],
}


@dataclass
class RequestDrawer:
    """Draws requests for the endpoints of an application.

    The first request for each endpoint is valid. Later requests are valid or have a few changes. An
    endpoint without a successful request is drawn more often. ``tests/api/test_schemathesis.py``
    derives requests for the Placement API from its schemas.
    """

    endpoints: Sequence[Endpoint]
    valid: ValidRequestDrawer
    dice: random.Random
    #: Endpoints that have answered with success. The caller fills the set.
    succeeded: set[str] = field(default_factory=set)
    _unvisited: list[Endpoint] = field(init=False)

    def __post_init__(self) -> None:
        order = {"POST": 0, "PUT": 1, "PATCH": 1, "DELETE": 3}
        walk = sorted(self.endpoints, key=lambda endpoint: order.get(endpoint.method, 2))
        self._unvisited = walk[::-1]

    @classmethod
    def create_for_application(
        cls, application: Application, dice: random.Random, get: DocumentReader
    ) -> "RequestDrawer":
        """Return a drawer of requests for all endpoints. ``get`` reads existing objects."""
        valid = ValidRequestDrawer(ExistingNameDrawer(dice, get), dice)
        return cls(list(list_endpoints(application)), valid, dice)

    def draw_request(self) -> DrawnRequest:
        if self._unvisited:
            return self.valid.draw_request(self._unvisited.pop())
        done = {*self.succeeded, *REJECTING_VIEWS}
        missing = [endpoint for endpoint in self.endpoints if endpoint.view not in done]
        if missing and self.dice.random() < 0.4:
            endpoint = self.dice.choice(missing)
            first = PREREQUISITE_ENDPOINTS.get(endpoint.name) if self.dice.random() < 0.5 else None
            before = [endpoint for endpoint in self.endpoints if endpoint.name == first]
            return self.valid.draw_request(self.dice.choice(before or [endpoint]))
        # Some views have many rules.
        view = self.dice.choice(sorted({endpoint.view for endpoint in self.endpoints}))
        rules = [endpoint for endpoint in self.endpoints if endpoint.view == view]
        drawn = self.valid.draw_request(self.dice.choice(rules))
        return drawn if self.dice.random() < 0.4 else self._change_request(drawn)

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
            return replace(drawn, body=self.dice.choice(INVALID_BODIES))
        try:
            document = json.loads(drawn.body)
        except (ValueError, RecursionError):  # for example a form, or a body of many brackets
            return replace(
                drawn,
                body=drawn.body
                + quote(self.dice.choice(HOSTILE_TEXTS[2:5]), errors="replace").encode(),
            )
        return replace(drawn, body=_encode_json(self._change_json_value(document)))

    def _change_json_value(self, value: Any) -> Any:
        """Return a copy of a document with another value or key."""
        if not value or not isinstance(value, dict | list) or self.dice.random() < 0.1:
            return self._draw_json_value(1)
        if isinstance(value, list):
            index = self.dice.randrange(len(value))
            return [*value[:index], self._change_json_value(value[index]), *value[index + 1 :]]
        key = self.dice.choice(list(value))
        rest = {name: other for name, other in value.items() if name != key}
        match self.dice.choice(["other", "other", "other", "more", "less", "renamed"]):
            case "more":
                return {
                    **value,
                    self.dice.choice([*OBJECT_NAMES, *HOSTILE_TEXTS]): self._draw_json_value(1),
                }
            case "less":
                return rest
            case "renamed":
                return {
                    **rest,
                    self.dice.choice([*UNKNOWN_UUIDS, *OBJECT_NAMES, *HOSTILE_TEXTS]): value[key],
                }
        return {**value, key: self._change_json_value(value[key])}

    def _change_query(self, drawn: DrawnRequest) -> DrawnRequest:
        parameters = [
            *REQUIRED_PARAMETERS.get(drawn.endpoint.name, {}),
            *OPTIONAL_PARAMETERS.get(drawn.endpoint.name, {}),
        ]
        pairs = list(drawn.query)
        if pairs and self.dice.random() < 0.5:
            pairs.pop(self.dice.randrange(len(pairs)))
        names = [*parameters, *self._list_query_parameters(drawn.endpoint)]
        pairs += [self._draw_query_parameter(names) for _ in range(self.dice.choice([1, 1, 2]))]
        return replace(drawn, query=pairs)

    def _change_version(self, drawn: DrawnRequest) -> DrawnRequest:
        version = self._draw_version_header(drawn.endpoint)
        return replace(drawn, headers={**drawn.headers, "OpenStack-API-Version": version})

    def _change_path(self, drawn: DrawnRequest) -> DrawnRequest:
        rule = drawn.endpoint.rule
        return replace(drawn, path=PARAMETER.sub(lambda _: self._draw_quoted_name(), rule))

    def _change_method(self, drawn: DrawnRequest) -> DrawnRequest:
        return replace(drawn, method=self.dice.choice(HTTP_METHODS))

    def _change_header(self, drawn: DrawnRequest) -> DrawnRequest:
        name, values = self.dice.choice(list(HEADER_VALUES.items()))
        return replace(drawn, headers={**drawn.headers, name: self.dice.choice(values)})

    def _draw_version_header(self, endpoint: Endpoint) -> str:
        """Return a version header, mostly with a version that the endpoint serves."""
        if (served := endpoint.versions) and self.dice.random() < 0.7:
            return f"{endpoint.api} {self.dice.choice(served)}"
        api = self.dice.choice([endpoint.api] * 4 + list(VERSIONED_APIS))
        every = ["latest", "1.0", "1.12", "1.27", "1.36", "2.1", "2.53", "2.90", "9.9", "x", ""]
        return f"{api} {self.dice.choice(every)}"

    def _draw_quoted_name(self) -> str:
        return quote(self._draw_object_name(), safe="", errors="replace")

    def _draw_object_name(self) -> str:
        kind = self.dice.random()
        if kind < 0.5:
            return self.dice.choice(UNKNOWN_UUIDS)
        if kind < 0.8:
            return self.dice.choice(OBJECT_NAMES)
        # An empty segment, or a segment of dots, would make another path.
        return self.dice.choice(HOSTILE_TEXTS).strip(".") or "x"

    def _list_query_parameters(self, endpoint: Endpoint) -> list[str]:
        """Return the parameters in the schemas of a route's query string."""
        query = endpoint.route.query if endpoint.route else None
        schemas = [schema for _, schema in query.schemas if schema] if query else []
        return [name for schema in schemas for name in schema.definition.get("properties") or ()]

    def _draw_query_parameter(self, names: Sequence[str]) -> tuple[str, str]:
        name = self.dice.choice([*names * 2, *QUERY_VALUES])
        values = QUERY_VALUES.get(name.rstrip("0123456789"), [])
        return name, self.dice.choice([*values, *OBJECT_NAMES, *HOSTILE_TEXTS[:10]])

    def _draw_json_value(self, depth: int) -> Any:
        dice = self.dice
        scalars = [None, True, *BOUNDARY_NUMBERS, *HOSTILE_TEXTS, *OBJECT_NAMES, *UNKNOWN_UUIDS]
        if depth and dice.random() < 0.4:
            return dice.choice(
                [
                    [self._draw_json_value(depth - 1) for _ in range(dice.randint(0, 3))],
                    {
                        str(self._draw_json_value(0)): self._draw_json_value(depth - 1)
                        for _ in range(2)
                    },
                ]
            )
        return dice.choice(scalars)


def _encode_json(document: Any) -> bytes:
    return json.dumps(document).encode(errors="replace")
