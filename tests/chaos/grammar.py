"""Requests made from the table of routes: right ones, nearly right ones, and nonsense."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from placement_sched.api.application import Application
from placement_sched.api.blueprint import PARAMETER, Route

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


#: What is asked of paths that are no API's: of the console, say.
_PAGE = Route(method="GET", path="/", handler=lambda _call: NotImplemented, public=True)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A request: everything that is sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None


@dataclass
class Grammar:
    """Draws requests for the routes of an application."""

    routes: Sequence[tuple[str, Route | None]]
    dice: random.Random
    versions: Sequence[str] = field(default=("latest", "1.0", "1.12", "1.27", "1.36", "9.9", "x"))

    @classmethod
    def of(cls, application: Application, dice: random.Random) -> "Grammar":
        """Return the grammar of all routes, those of the console among them."""
        rules = [
            (one.rule, getattr(one, "route", None)) for one in application.url_map.iter_rules()
        ]
        return cls(rules, dice)

    def draw(self) -> Drawn:
        """Return one request."""
        dice = self.dice
        rule, declared = dice.choice(self.routes)
        route = declared or _PAGE
        path = PARAMETER.sub(lambda _found: quote(self._name(), safe="", errors="replace"), rule)
        if query := self._query(route):
            path = f"{path}?{query}"
        method = route.method
        if dice.random() < 0.03:
            method = dice.choice(
                ["GET", "PUT", "POST", "DELETE", "PATCH", "HEAD", "OPTIONS", "TRACE"]
            )
        headers = {
            "X-Auth-Token": dice.choice(["admin"] * 8 + ["bob:p", ""]),
            "OpenStack-API-Version": f"placement {dice.choice(self.versions)}",
            "Accept": dice.choice(["application/json", "*/*", "text/html", "image/png", ""]),
        }
        body = self._body(route) if method in {"PUT", "POST", "PATCH"} else None
        if body is not None:
            kinds = [*route.content_types * 8, "text/plain", "application/json; charset=x", ""]
            headers["Content-Type"] = dice.choice(kinds)
        return Drawn(method, path, headers, body)

    def _name(self) -> str:
        kind = self.dice.random()
        if kind < 0.5:
            return self.dice.choice(UUIDS)
        if kind < 0.8:
            return self.dice.choice(NAMES)
        # An empty part, or one of dots alone, would be another path.
        return self.dice.choice(EVIL).strip(".") or "x"

    def _query(self, route: Route) -> str:
        dice = self.dice
        known: list[str] = []
        if route.query is not None:
            known = [name for schema in _definitions(route.query) for name in _named(schema)]
        names = [dice.choice([*known, *QUERIES]) for _ in range(dice.choice([0, 0, 1, 1, 2, 3]))]
        pairs = [
            (name, dice.choice([*QUERIES.get(name.rstrip("0123456789"), []), *NAMES, *EVIL[:10]]))
            for name in names
        ]
        return urlencode(pairs, errors="replace")

    def _body(self, route: Route) -> bytes:
        if self.dice.random() < 0.1:
            return self.dice.choice(RAW_BODIES)
        if route.body is None:
            return json.dumps(self._anything(2)).encode(errors="replace")
        schema = self.dice.choice(list(_definitions(route.body)))
        return json.dumps(self.value(schema, 0)).encode(errors="replace")

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


def _definitions(schemas: Any) -> list[Mapping[str, Any]]:
    """Return the schemas of all versions."""
    return [schema.definition for _since, schema in schemas.windows if schema is not None]


def _named(schema: Mapping[str, Any]) -> list[str]:
    return list(schema.get("properties") or {})
