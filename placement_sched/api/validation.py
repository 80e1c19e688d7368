# SPDX-License-Identifier: Apache-2.0
"""JSON schemas by version, and the errors of their validation."""

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import jsonschema_rs

from placement_sched.api.versions import EVER, Version
from placement_sched.errors import Invalid
from placement_sched.model.document import Json, find_invalid_text
from placement_sched.model.names import names_if_few, nearest, suggest_names
from placement_sched.schemas.faults import Fault, faults_in, in_json, most_helpful, phrase
from placement_sched.schemas.formats import CHECKS

#: Marks a query parameter that may be repeated. Only documentation: each value is validated alone.
REPEATED = "x-repeated"
#: The formats that schemas may name, in addition to JSON Schema's own.
FORMATS = dict(CHECKS)

#: Maximum length of a value or a path, and of the whole problem, in a message (characters).
_MAX_VALUE = 120
_MAX_REASON = 400
_CUT = " [...] "
#: A key that needs no quotes in a JSON path.
_PLAIN = re.compile(r"^[a-zA-Z][a-zA-Z0-9_]*$")
#: Maximum number of unknown keys with suggestions.
_MAX_SUGGESTED = 3
#: Maximum number of unknown keys that an error names as data.
_MAX_NAMED = 10


class Schema:
    """A compiled schema."""

    def __init__(self, schema: Json) -> None:
        self.definition = schema
        self._checker = jsonschema_rs.validator_for(
            dict(schema), formats=FORMATS, validate_formats=True
        )

    def check(self, document: Any, words: str) -> None:
        """Raise :class:`Invalid`, beginning with ``words``, if ``document`` is invalid."""
        if self._checker.is_valid(document):
            return
        fault = most_helpful(faults_in(self._checker, document, self.definition))
        if fault is not None:
            raise _build_error(fault, words)


def _build_error(fault: Fault, words: str) -> Invalid:
    """Return the error with the problem, the JSON path and the keyword of the schema."""
    problem = phrase(fault, lambda value: shorten(in_json(value), _MAX_VALUE))
    if fault.keyword == "additionalProperties":
        problem += _suggest_keys(fault)
    problem = shorten(problem, _MAX_REASON)
    place = shorten(_json_path(fault.keys), _MAX_VALUE)
    within = shorten("".join(f"[{step!r}]" for step in fault.schema_path), _MAX_VALUE)
    return Invalid(
        f"{words}: {problem} (at {place}). Failed validating {fault.keyword!r} in schema{within}",
        fault={
            "problem": problem,
            "path": place,
            "keyword": fault.keyword,
            "value": shorten(in_json(fault.value), _MAX_VALUE),
            "expected": _expected(fault),
        },
    )


def _expected(fault: Fault) -> Any:
    if fault.keyword != "additionalProperties":
        return fault.expected
    return [shorten(key, _MAX_VALUE) for key in fault.expected[:_MAX_NAMED]]


def _suggest_keys(fault: Fault) -> str:
    """Return the nearest valid keys for unknown keys, or all valid keys if there are few."""
    valid = fault.schema.get("properties", {})
    unknown = sorted(fault.expected)[:_MAX_SUGGESTED]
    suggestions = [near for key in unknown for near in nearest(key[:_MAX_VALUE], valid)]
    alternatives = () if suggestions else names_if_few(valid)
    return suggest_names("key", dict.fromkeys(suggestions), alternatives) if valid else ""


def _json_path(keys: Iterable[str | int]) -> str:
    return "$" + "".join(
        f"[{key}]" if isinstance(key, int) else f".{key}" if _PLAIN.match(key) else _quoted(key)
        for key in keys
    )


def _quoted(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def check_texts(document: Any, words: str) -> None:
    """Raise :class:`Invalid` if a text is not UTF-8: arguments of a command may be any bytes."""
    if invalid := find_invalid_text(document):
        text, keys = invalid
        value, place = shorten(repr(text), _MAX_VALUE), shorten(_json_path(keys), _MAX_VALUE)
        problem = f"{value} is not valid UTF-8"
        raise Invalid(f"{words}: {problem} (at {place})", fault={"problem": problem, "path": place})


def shorten(text: str, max_length: int) -> str:
    """Shorten ``text`` to at most ``max_length`` characters, with a mark in its middle."""
    if len(text) <= max_length:
        return text
    half = (max_length - len(_CUT)) // 2
    return f"{text[:half]}{_CUT}{text[-half:]}"


class Schemas:
    """Schemas by their first version (``(OLDEST, A), (USAGES, B)``), or a single schema."""

    def __init__(self, *windows: tuple[Version, Json | None] | Json) -> None:
        dated = [(EVER, window) if isinstance(window, dict) else window for window in windows]
        self.windows = tuple(
            (since, None if schema is None else Schema(schema))
            for since, schema in sorted(dated, key=itemgetter(0), reverse=True)
        )

    def at(self, version: Version) -> Schema | None:
        """Return the schema of ``version``, or None if there is none yet."""
        return next((schema for since, schema in self.windows if version >= since), None)
