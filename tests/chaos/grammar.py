# SPDX-License-Identifier: Apache-2.0
"""Requests made from the table of routes: right ones, nearly right ones, and nonsense."""

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
from tests.chaos.entrances import REFUSING, VERSIONS, Entrance, entrances_of
from tests.chaos.queries import NEEDED, POSSIBLE
from tests.chaos.right_requests import AGENT, ALL_ROLES, FIRST, FORM, Drawn, Known, RightRequests
from tests.chaos.writes import Get

#: Names that are there, and some that are not.
UUIDS = [f"99999999-0000-4000-8000-00000000000{digit}" for digit in range(6)]
NAMES = ["cn1", "cn2", "m1.small", "VCPU", "CUSTOM_GOLD", "HW_CPU_X86_AVX2", "nova", "az1", "1"]
#: What breaks programs that trust what they read.
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
#: Bodies that are no JSON, or JSON that nothing expects.
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
#: What may stand in headers, beside what is right.
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
    """Draws requests for the entrances of an application.

    At first each is asked rightly once. From then on some requests are right, some nearly, and some
    are made of the schemas alone. An entrance at which nothing has succeeded is asked more often.
    """

    entrances: Sequence[Entrance]
    right: RightRequests
    dice: random.Random
    #: Endpoints that are known to have succeeded, which the caller fills.
    succeeded: set[str] = field(default_factory=set)
    _walk: list[Entrance] = field(init=False)

    def __post_init__(self) -> None:
        order = {"POST": 0, "PUT": 1, "PATCH": 1, "DELETE": 3}
        walk = sorted(self.entrances, key=lambda one: order.get(one.method, 2))
        self._walk = walk[::-1]

    @classmethod
    def of(cls, application: Application, dice: random.Random, get: Get) -> "Grammar":
        """Return the grammar of all entrances; ``get`` looks up what there is."""
        right = RightRequests(Known(dice, get), dice)
        return cls(list(entrances_of(application)), right, dice)

    def draw(self) -> Drawn:
        """Return one request."""
        if self._walk:
            return self.right.draw(self._walk.pop())
        done = {*self.succeeded, *REFUSING}
        missing = [one for one in self.entrances if one.endpoint not in done]
        if missing and self.dice.random() < 0.4:
            entrance = self.dice.choice(missing)
            first = FIRST.get(entrance.name) if self.dice.random() < 0.5 else None
            before = [one for one in self.entrances if one.name == first]
            return self.right.draw(self.dice.choice(before or [entrance]))
        # Some endpoints have many rules.
        endpoint = self.dice.choice(sorted({one.endpoint for one in self.entrances}))
        several = [one for one in self.entrances if one.endpoint == endpoint]
        entrance, kind = self.dice.choice(several), self.dice.random()
        if kind < 0.4:
            return self.right.draw(entrance)
        if kind < 0.8:
            return self._nearly(self.right.draw(entrance))
        return self._wild(entrance)

    def _nearly(self, drawn: Drawn) -> Drawn:
        """Return a right request with one or two things changed."""
        for _ in range(self.dice.choice([1, 1, 2])):
            change = self.dice.choice(
                [self._with_body] * 4
                + [self._with_query] * 2
                + [self._with_version] * 2
                + [self._with_name, self._with_header, self._with_method]
            )
            drawn = change(drawn)
        return drawn

    def _with_body(self, drawn: Drawn) -> Drawn:
        if not drawn.body:
            return self._with_query(drawn)
        if self.dice.random() < 0.1:
            return replace(drawn, body=self.dice.choice(RAW_BODIES))
        try:
            document = json.loads(drawn.body)
        except ValueError:  # a form, say
            return replace(
                drawn,
                body=drawn.body + quote(self.dice.choice(EVIL[2:5]), errors="replace").encode(),
            )
        return replace(drawn, body=_as_bytes(self._bent(document)))

    def _bent(self, value: Any) -> Any:
        """Return a document in which one value, or one key, is another."""
        if not value or not isinstance(value, dict | list) or self.dice.random() < 0.1:
            return self._anything(1)
        if isinstance(value, list):
            where = self.dice.randrange(len(value))
            return [self._bent(one) if at == where else one for at, one in enumerate(value)]
        key = self.dice.choice(list(value))
        rest = {name: one for name, one in value.items() if name != key}
        match self.dice.choice(["other", "other", "other", "more", "less", "renamed"]):
            case "more":
                return {**value, self.dice.choice([*NAMES, *EVIL]): self._anything(1)}
            case "less":
                return rest
            case "renamed":
                return {**rest, self.dice.choice([*UUIDS, *NAMES, *EVIL]): value[key]}
        return {**value, key: self._bent(value[key])}

    def _with_query(self, drawn: Drawn) -> Drawn:
        known = [*NEEDED.get(drawn.entrance.name, {}), *POSSIBLE.get(drawn.entrance.name, {})]
        pairs = list(drawn.query)
        if pairs and self.dice.random() < 0.5:
            pairs.pop(self.dice.randrange(len(pairs)))
        names = [*known, *self._named(drawn.entrance)]
        pairs += [self._pair(names) for _ in range(self.dice.choice([1, 1, 2]))]
        return replace(drawn, query=pairs)

    def _with_version(self, drawn: Drawn) -> Drawn:
        version = self._version(drawn.entrance)
        return replace(drawn, headers={**drawn.headers, "OpenStack-API-Version": version})

    def _with_name(self, drawn: Drawn) -> Drawn:
        rule = drawn.entrance.rule
        return replace(drawn, path=PARAMETER.sub(lambda _: self._quoted_name(), rule))

    def _with_method(self, drawn: Drawn) -> Drawn:
        return replace(drawn, method=self.dice.choice(METHODS))

    def _with_header(self, drawn: Drawn) -> Drawn:
        name, values = self.dice.choice(list(HEADERS.items()))
        return replace(drawn, headers={**drawn.headers, name: self.dice.choice(values)})

    def _version(self, entrance: Entrance) -> str:
        """Return a header that names a version, mostly one that the entrance serves."""
        if (served := entrance.versions) and self.dice.random() < 0.7:
            return f"{entrance.face} {self.dice.choice(served)}"
        face = self.dice.choice([entrance.face] * 4 + list(VERSIONS))
        every = ["latest", "1.0", "1.12", "1.27", "1.36", "2.1", "2.53", "2.90", "9.9", "x", ""]
        return f"{face} {self.dice.choice(every)}"

    def _wild(self, entrance: Entrance) -> Drawn:
        """Return a request made of the schemas of a route alone."""
        route, path = entrance.route, PARAMETER.sub(lambda _: self._quoted_name(), entrance.rule)
        named = self._named(entrance)
        query = [self._pair(named) for _ in range(self.dice.choice([0, 0, 1, 1, 2, 3]))]
        headers = {
            **ALL_ROLES,
            "User-Agent": AGENT,
            "OpenStack-API-Version": self._version(entrance),
            "Accept": self.dice.choice(["application/json", *HEADERS["Accept"]]),
        }
        body = None
        if entrance.method in {"PUT", "POST", "PATCH"}:
            body = self._body(route, headers["OpenStack-API-Version"])
            kinds = route.content_types if route else ("application/json", FORM)
            headers["Content-Type"] = self.dice.choice([*kinds * 8, *HEADERS["Content-Type"]])
        drawn = Drawn(entrance, entrance.method, path, query, headers, body)
        if self.dice.random() < 0.2:
            drawn = self._with_header(drawn)
        return self._with_method(drawn) if self.dice.random() < 0.03 else drawn

    def _quoted_name(self) -> str:
        return quote(self._name(), safe="", errors="replace")

    def _name(self) -> str:
        kind = self.dice.random()
        if kind < 0.5:
            return self.dice.choice(UUIDS)
        if kind < 0.8:
            return self.dice.choice(NAMES)
        # An empty part, or one of dots alone, would be another path.
        return self.dice.choice(EVIL).strip(".") or "x"

    def _named(self, entrance: Entrance) -> list[str]:
        """Return the parameters that the schemas of a route's query string know."""
        query = entrance.route.query if entrance.route else None
        return [] if query is None else [name for one in _definitions(query) for name in _keys(one)]

    def _pair(self, names: Sequence[str]) -> tuple[str, str]:
        name = self.dice.choice([*names * 2, *QUERIES])
        values = QUERIES.get(name.rstrip("0123456789"), [])
        return name, self.dice.choice([*values, *NAMES, *EVIL[:10]])

    def _body(self, route: Route | None, version: str) -> bytes:
        if self.dice.random() < 0.1:
            return self.dice.choice(RAW_BODIES)
        if route is None or route.body is None:
            return _as_bytes(self._anything(2))
        _face, _, number = version.partition(" ")
        numbers = [int(part) for part in number.split(".") if part.isdecimal()]
        schema = route.body.at(Version(*numbers) if len(numbers) == 2 else NEVER)
        # That of another version now and then.
        if schema is not None and self.dice.random() < 0.8:
            return _as_bytes(self.value(schema.definition, 0))
        return _as_bytes(self.value(self.dice.choice(_definitions(route.body)), 0))

    def value(self, schema: Any, depth: int) -> Any:
        """Return a value that fits a schema, or nearly."""
        dice = self.dice
        if not isinstance(schema, Mapping) or depth > 12 or dice.random() < 0.03:
            return self._anything(1)
        for choices in ("oneOf", "anyOf"):
            if choices in schema:
                rest = {key: part for key, part in schema.items() if key != choices}
                return self.value({**rest, **dice.choice(schema[choices])}, depth + 1)
        if "enum" in schema:
            return dice.choice(list(schema["enum"]))
        if "const" in schema:
            return schema["const"]
        return self._of_type(schema, depth)

    def _of_type(self, schema: Mapping[str, Any], depth: int) -> Any:
        kinds = schema.get("type", "object" if "properties" in schema else "string")
        kind = self.dice.choice(kinds) if isinstance(kinds, list) else kinds
        match kind:
            case "object":
                return self._object(schema, depth)
            case "array":
                some = range(self.dice.choice([0, 1, 1, 2, 3]))
                return [self.value(schema.get("items", {}), depth + 1) for _ in some]
            case "integer" | "number":
                low, high = schema.get("minimum", 0), schema.get("maximum", 64)
                inside = self.dice.randint(int(low), int(max(low, min(high, low + 64))))
                return self.dice.choice([inside] * 6 + NUMBERS)
            case "boolean":
                return self.dice.choice([True, False])
            case "null":
                return None
        return self._text(schema)

    def _text(self, schema: Mapping[str, Any]) -> str:
        if schema.get("format") == "uuid" or "uuid" in str(schema.get("pattern", "")):
            return self.dice.choice(UUIDS)
        return self.dice.choice([*UUIDS, *NAMES * 3, *EVIL])

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        found = {}
        needed = set(schema.get("required", ()))
        for name, part in (schema.get("properties") or {}).items():
            chance = 0.97 if name in needed else 0.5
            if self.dice.random() < chance:
                found[name] = self.value(part, depth + 1)
        for part in (schema.get("patternProperties") or {}).values():
            for _ in range(self.dice.choice([0, 1, 1, 2])):
                key = self.dice.choice([*UUIDS, "VCPU", "MEMORY_MB", "CUSTOM_X", "1", *EVIL[:4]])
                found[key] = self.value(part, depth + 1)
        more = schema.get("additionalProperties", True)
        if more is not False and self.dice.random() < 0.3:
            found[self._name()] = self.value(more, depth + 1)
        if self.dice.random() < 0.03:
            found[self.dice.choice(EVIL)] = self._anything(1)
        return found

    def _anything(self, depth: int) -> Any:
        dice = self.dice
        plain = [None, True, *NUMBERS, *EVIL, *NAMES, *UUIDS]
        if depth and dice.random() < 0.4:
            return dice.choice(
                [
                    [self._anything(depth - 1) for _ in range(dice.randint(0, 3))],
                    {str(self._anything(0)): self._anything(depth - 1) for _ in range(2)},
                ]
            )
        return dice.choice(plain)


def _definitions(schemas: Schemas) -> list[Mapping[str, Any]]:
    """Return the schemas of all versions."""
    return [schema.definition for _since, schema in schemas.windows if schema is not None]


def _keys(schema: Mapping[str, Any]) -> list[str]:
    return list(schema.get("properties") or {})


def _as_bytes(document: Any) -> bytes:
    return json.dumps(document).encode(errors="replace")
