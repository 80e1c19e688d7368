"""JSON schemas by version window, compiled once, with the place of the offence in the error."""

import json
from collections.abc import Iterable
from itertools import islice
from operator import itemgetter
from typing import Any

import jsonschema
import jsonschema_rs
from jsonschema import FormatChecker

from placement_sched.api.microversion import EVER, Version
from placement_sched.errors import Invalid
from placement_sched.model.document import Json, is_larger, not_text
from placement_sched.model.naming import if_few, names_instead, nearest
from placement_sched.schemas.fault_paths import found_at
from placement_sched.schemas.formats import CHECKS

#: Marks a parameter of a query string that may be given several times; a note to readers of the
#: schema, which itself sees one value at a time.
REPEATED = "x-repeated"
#: The formats that schemas may name, beside JSON Schema's own.
FORMATS = dict(CHECKS)

#: How many characters of a value or a path, and of all that is said of it, a message repeats.
_VALUE = 120
_REASON = 400
_CUT = " [...] "
#: What is counted of a value that is too long, by the keyword that says so.
_LONGEST = {"maxLength": "characters", "maxItems": "items"}
#: For so many unknown keys, known ones are named that may be meant.
_MEANT = 3

#: The most values of a document, with its keys, in which faults are compared to name the worst. The
#: wordier checker compares each item of a list without duplicates with all others.
_EXPLAINED = 1000
#: So many faults are compared.
_FAULTS = 100

_FORMATS = FormatChecker(formats=())
for _name, _holds in FORMATS.items():
    _FORMATS.checks(_name)(_holds)


class Schema:
    """One schema. A compiled checker decides; a slower one explains what is invalid."""

    def __init__(self, schema: Json) -> None:
        self.definition = schema
        self._checker = jsonschema_rs.validator_for(
            dict(schema), formats=FORMATS, validate_formats=True
        )
        self._speaker = jsonschema.Draft202012Validator(dict(schema), format_checker=_FORMATS)

    def check(self, document: Any, words: str) -> None:
        """Raise :class:`Invalid`, opening with ``words``, where ``document`` does not fit."""
        if self._checker.is_valid(document):
            return
        # The wordier one takes a hundred times as long.
        fault = None if is_larger(document, _EXPLAINED) else self._worst(document)
        reason = self._terse(document) if fault is None else _described(fault)
        raise Invalid(f"{words}: {reason}")

    def _worst(self, document: Any) -> jsonschema.ValidationError | None:
        faults = islice(self._speaker.iter_errors(document), _FAULTS)
        worst: jsonschema.ValidationError | None = jsonschema.exceptions.best_match(faults)
        return worst

    def _terse(self, document: Any) -> str:
        """Return what the deciding checker finds first.

        That is for a document so large that the wordier one would take too long, or one in which
        that finds no fault. Their patterns differ: Python lets a final ``$`` match before a line
        feed as well.
        """
        try:
            self._checker.validate(document)
        except jsonschema_rs.ValidationError as found:
            fault = found
        keys, _ = found_at(fault, document)
        *path, keyword = fault.schema_path
        return _placed(fault.message, _json_path(keys), str(keyword), path)


def _json_path(keys: Iterable[str | int]) -> str:
    steps = (f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
    return f"${''.join(steps)}"


def check_texts(document: Any, words: str) -> None:
    """Raise :class:`Invalid` for a text that is not UTF-8, as arguments of a command may be."""
    if found := not_text(document):
        text, keys = found
        shown, place = shortened(repr(text), _VALUE), shortened(_json_path(keys), _VALUE)
        raise Invalid(f"{words}: {shown} is not valid UTF-8 (at {place})")


def _described(fault: jsonschema.ValidationError) -> str:
    """Return what is wrong and where, as a JSON path; with values as JSON writes them."""
    problem = fault.message
    if fault.validator == "enum" and isinstance(fault.validator_value, list):
        choices = ", ".join(_in_json(choice) for choice in fault.validator_value)
        problem = f"{fault.instance!r} is not one of [{choices}]"
    if fault.validator in _LONGEST:
        problem += f"; at most {fault.validator_value} {_LONGEST[fault.validator]}"
    if fault.validator == "additionalProperties" and isinstance(fault.instance, dict):
        known = fault.schema.get("properties", {}) if isinstance(fault.schema, dict) else {}
        unknown = sorted(map(str, fault.instance.keys() - known.keys()))[:_MEANT]
        meant = [near for key in unknown for near in nearest(key[:_VALUE], known)]
        others = () if meant else if_few(known)
        problem += names_instead("key", dict.fromkeys(meant), others) if known else ""
    python = repr(fault.instance)
    if problem.startswith(python):
        problem = shortened(_in_json(fault.instance), _VALUE) + problem[len(python) :]
    *path, _ = fault.absolute_schema_path
    return _placed(problem, fault.json_path, str(fault.validator), path)


def _placed(problem: str, place: str, keyword: str, path: Iterable[object]) -> str:
    """Return what is wrong, where, and which keyword of the schema says so: clients look for it."""
    within = "".join(f"[{step!r}]" for step in path)
    return (
        f"{shortened(problem, _REASON)} (at {shortened(place, _VALUE)}). "
        f"Failed validating {keyword!r} in schema{shortened(within, _VALUE)}"
    )


def _in_json(value: Any) -> str:
    """Return a value as JSON has it, but for a lone text, which messages have always quoted so."""
    return repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
