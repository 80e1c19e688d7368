"""JSON schemas by version window, compiled once, with the place of the offence in the error."""

import re
from collections.abc import Iterable
from operator import itemgetter
from typing import Any

import jsonschema_rs

from placement_sched.api.versions import EVER, Version
from placement_sched.errors import Invalid
from placement_sched.model.document import Json, not_text
from placement_sched.model.names import if_few, names_instead, nearest
from placement_sched.schemas.faults import Fault, faults_in, in_json, phrase, worst
from placement_sched.schemas.formats import CHECKS

#: Marks a parameter of a query string that may be given several times; a note to readers of the
#: schema, which itself sees one value at a time.
REPEATED = "x-repeated"
#: The formats that schemas may name, in addition to JSON Schema's own.
FORMATS = dict(CHECKS)

#: Maximum number of characters of a value or a path, and of all words, that a message repeats.
_MAX_VALUE = 120
_MAX_REASON = 400
_CUT = " [...] "
#: A key that a JSON path has without quotes.
_PLAIN = re.compile(r"^[a-zA-Z][a-zA-Z0-9_]*$")
#: Up to this number of unknown keys, known keys are named that may be meant.
_MAX_MEANT = 3
#: Maximum number of unknown keys that an error names as data.
_MAX_NAMED = 10


class Schema:
    """One schema: a compiled checker, and the words for what it finds."""

    def __init__(self, schema: Json) -> None:
        self.definition = schema
        self._checker = jsonschema_rs.validator_for(
            dict(schema), formats=FORMATS, validate_formats=True
        )

    def check(self, document: Any, words: str) -> None:
        """Raise :class:`Invalid`, opening with ``words``, if ``document`` does not fit."""
        if self._checker.is_valid(document):
            return
        fault = worst(faults_in(self._checker, document, self.definition))
        if fault is not None:
            raise _error(fault, words)


def _error(fault: Fault, words: str) -> Invalid:
    """Return the error with what is wrong, where, and the keyword of the schema that says so."""
    problem = phrase(fault, lambda value: shortened(in_json(value), _MAX_VALUE))
    if fault.keyword == "additionalProperties":
        problem += _known_keys(fault)
    problem = shortened(problem, _MAX_REASON)
    place = shortened(_json_path(fault.keys), _MAX_VALUE)
    within = shortened("".join(f"[{step!r}]" for step in fault.schema_path), _MAX_VALUE)
    return Invalid(
        f"{words}: {problem} (at {place}). Failed validating {fault.keyword!r} in schema{within}",
        fault={
            "problem": problem,
            "path": place,
            "keyword": fault.keyword,
            "value": shortened(in_json(fault.value), _MAX_VALUE),
            "expected": _expected(fault),
        },
    )


def _expected(fault: Fault) -> Any:
    if fault.keyword != "additionalProperties":
        return fault.expected
    return [shortened(key, _MAX_VALUE) for key in fault.expected[:_MAX_NAMED]]


def _known_keys(fault: Fault) -> str:
    """Return which keys may be meant by unknown ones, or all known keys if they are few."""
    known = fault.schema.get("properties", {})
    unknown = sorted(fault.expected)[:_MAX_MEANT]
    meant = [near for key in unknown for near in nearest(key[:_MAX_VALUE], known)]
    others = () if meant else if_few(known)
    return names_instead("key", dict.fromkeys(meant), others) if known else ""


def _json_path(keys: Iterable[str | int]) -> str:
    return "$" + "".join(
        f"[{key}]" if isinstance(key, int) else f".{key}" if _PLAIN.match(key) else _quoted(key)
        for key in keys
    )


def _quoted(key: str) -> str:
    escaped = key.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def check_texts(document: Any, words: str) -> None:
    """Raise :class:`Invalid` for a text that is not UTF-8, as arguments of a command may be."""
    if found := not_text(document):
        text, keys = found
        shown, place = shortened(repr(text), _MAX_VALUE), shortened(_json_path(keys), _MAX_VALUE)
        problem = f"{shown} is not valid UTF-8"
        raise Invalid(f"{words}: {problem} (at {place})", fault={"problem": problem, "path": place})


def shortened(text: str, most: int) -> str:
    """Return ``text`` in at most ``most`` characters; a mark shows what its middle lacks."""
    if len(text) <= most:
        return text
    kept = (most - len(_CUT)) // 2
    return f"{text[:kept]}{_CUT}{text[-kept:]}"


class Schemas:
    """Schemas by the version from which each holds (``(OLDEST, A), (USAGES, B)``), or one alone."""

    def __init__(self, *windows: tuple[Version, Json | None] | Json) -> None:
        dated = [(EVER, one) if isinstance(one, dict) else one for one in windows]
        self.windows = tuple(
            (since, None if schema is None else Schema(schema))
            for since, schema in sorted(dated, key=itemgetter(0), reverse=True)
        )

    def at(self, version: Version) -> Schema | None:
        """Return the schema in force at ``version``, or None where there is none yet."""
        return next((schema for since, schema in self.windows if version >= since), None)
