"""JSON schemas by version window, compiled once, with the place of the offence in the error."""

import json
from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import jsonschema
import jsonschema_rs
from jsonschema import FormatChecker

from placement_sched.api.microversion import Version
from placement_sched.errors import Invalid
from placement_sched.model.naming import is_printable, is_printable_name

Json = Mapping[str, Any]

#: Marks a parameter of a query string that may be given several times; a note to readers of the
#: schema, which itself sees one value at a time.
REPEATED = "x-repeated"


def is_uuid(text: object) -> bool:
    """Return whether ``text`` reads as a UUID, with or without hyphens, braces or ``urn:uuid:``."""
    written = str(text)
    try:
        # Python takes 0x and underscores in a number for good, and so in a uuid.
        return UUID(written).hex in written.replace("-", "").lower()
    except ValueError:
        return False


def _is_uuid_if_text(value: object) -> bool:
    """Return whether ``value`` is a UUID, or of a type of which a format says nothing."""
    return not isinstance(value, str) or is_uuid(value)


def _is_printable_if_text(value: object) -> bool:
    return not isinstance(value, str) or is_printable(value)


def _is_printable_name_if_text(value: object) -> bool:
    return not isinstance(value, str) or is_printable_name(value)


#: The formats that schemas may name, beside JSON Schema's own.
FORMATS = {
    "uuid": _is_uuid_if_text,
    "printable": _is_printable_if_text,
    "printable-name": _is_printable_name_if_text,
}

#: How many characters of a value or a path, and of all that is said of it, a message repeats.
_VALUE = 120
_REASON = 400
_CUT = " [...] "

_FORMATS = FormatChecker(formats=())
for _name, _holds in FORMATS.items():
    _FORMATS.checks(_name)(_holds)


class Schema:
    """One schema. A compiled checker decides; the slower, wordier one speaks only on a fault."""

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
        fault = jsonschema.exceptions.best_match(self._speaker.iter_errors(document))
        reason = self._terse(document) if fault is None else _tell(fault)
        raise Invalid(f"{words}: {reason}")

    def _terse(self, document: Any) -> str:
        """Return what the deciding checker says where the wordier one finds no fault.

        Their patterns differ: Python lets a final ``$`` match before a line feed as well.
        """
        fault = next(iter(self._checker.iter_errors(document)))
        steps = (
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in fault.instance_path
        )
        *path, keyword = fault.schema_path
        return _placed(fault.message, f"${''.join(steps)}", str(keyword), path)


def _tell(fault: jsonschema.ValidationError) -> str:
    """Return what is wrong and where, as a JSON path; in the words of JSON, not of Python."""
    told = fault.message
    if fault.validator == "enum" and isinstance(fault.validator_value, list):
        choices = ", ".join(_in_json(choice) for choice in fault.validator_value)
        told = f"{fault.instance!r} is not one of [{choices}]"
    python = repr(fault.instance)
    if told.startswith(python):
        told = shortened(_in_json(fault.instance), _VALUE) + told[len(python) :]
    *path, _ = fault.absolute_schema_path
    return _placed(told, fault.json_path, str(fault.validator), path)


def _placed(told: str, place: str, keyword: str, path: Iterable[object]) -> str:
    """Return what is wrong, where, and which keyword of the schema says so: clients look for it."""
    within = "".join(f"[{step!r}]" for step in path)
    return (
        f"{shortened(told, _REASON)} (at {shortened(place, _VALUE)}). "
        f"Failed validating {keyword!r} in schema{shortened(within, _VALUE)}"
    )


def _in_json(value: Any) -> str:
    """Return a value as JSON has it, but for a lone text, which messages have always quoted so."""
    return repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def shortened(text: str, most: int) -> str:
    """Return ``text`` in at most ``most`` characters, what is left out in its middle told."""
    if len(text) <= most:
        return text
    kept = (most - len(_CUT)) // 2
    return f"{text[:kept]}{_CUT}{text[-kept:]}"


class Schemas:
    """Schemas by the version from which each holds: ``Schemas(((1, 0), A), ((1, 8), B))``."""

    def __init__(self, *windows: tuple[tuple[int, int], Json | None]) -> None:
        self.windows = tuple(
            (Version(*since), None if schema is None else Schema(schema))
            for since, schema in sorted(windows, key=lambda window: window[0], reverse=True)
        )

    def at(self, version: Version) -> Schema | None:
        """Return the schema in force at ``version``, or None where there is none yet."""
        return next((schema for since, schema in self.windows if version >= since), None)
