"""JSON schemas by version window, compiled once, with the place of the offence in the error."""

from collections.abc import Mapping
from typing import Any
from unicodedata import category
from uuid import UUID

import jsonschema
import jsonschema_rs
from jsonschema import FormatChecker

from placement_sched.api.microversion import Version
from placement_sched.errors import Invalid

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


def is_printable_name(text: object) -> bool:
    """Return whether ``text`` is printable, with no white space at either end (nova's names)."""
    if not isinstance(text, str):
        return True
    printable = all(letter.isprintable() or category(letter) == "Zs" for letter in text)
    return printable and text == text.strip()


#: The formats that schemas may name, beside JSON Schema's own.
FORMATS = {"uuid": _is_uuid_if_text, "printable-name": is_printable_name}

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
        reason = "it does not fit its schema" if fault is None else _tell(fault)
        raise Invalid(f"{words}: {reason}")


def _tell(fault: jsonschema.ValidationError) -> str:
    """Return what is wrong and where, as a JSON path."""
    return f"{fault.message} (at {fault.json_path})"


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
