# SPDX-License-Identifier: Apache-2.0
"""Validation of documents by a JSON Schema, and conversion of their values."""

from collections.abc import Callable, Mapping
from itertools import chain, repeat
from typing import Any

import jsonschema_rs

from placement_sched.model import names
from placement_sched.model.document import Json
from placement_sched.schemas.faults import Fault, faults_in, resolve_reference
from placement_sched.schemas.formats import READERS, DocumentError, show_value

#: Converts a valid value.
Conversion = Callable[[Any], Any]
#: Builds the conversion for a schema with a custom keyword, from the value of the keyword.
Keyword = Callable[[Any, Callable[[Json | None], Conversion | None]], Conversion]

#: Marks a schema whose values, including nested values, are not converted.
AS_GIVEN = "x-as-given"
#: Maximum number of values and keys of a document for which all faults are compared.
_MAX_COMPARED = 5000

_NOUNS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "object": "an object",
    "array": "a list",
}
#: Messages for text that does not match a pattern.
_PATTERNS = {
    "^[^\\x00-\\x1f\\x7f]*$": "has control characters",
    "^[A-Z0-9_]+$": "is not a valid name (A-Z, 0-9, _)",
    "^$": "is not an integer",
    names.HOST: "is not a valid host name (letters, digits, _ . -)",
    names.ZONE: "has a colon, which no availability zone may have",
    names.KEY: "is not a valid key (letters, digits, : _ . - and, inside, blanks)",
    names.FLAVOR_ID: "is not a valid id (letters, digits, _ . - and, inside, blanks)",
    names.UUID: "is not a uuid",
}
_COUNTED = {"Length": "characters", "Items": "items"}


class Reader:
    """Reader of documents of a schema.

    The reader returns a valid document with UUIDs and enumeration names normalized, times as naive
    UTC, ``4.0`` as ``4`` for integers, and ``4`` as ``4.0`` for numbers. ``keywords`` convert
    values whose schema has a custom keyword. Formats are checked during conversion: in properties,
    items and property names. With ``digits_as_text``, an integer is accepted as text if only text
    is allowed, as in YAML.
    """

    def __init__(
        self,
        schema: Json,
        keywords: Mapping[str, Keyword] | None = None,
        *,
        digits_as_text: bool = False,
    ) -> None:
        self._schema = schema
        self._checker = jsonschema_rs.validator_for(schema, validate_formats=False)
        self._texts = (
            _ConversionBuilder(schema, _accept_digits, {}).of(schema) if digits_as_text else None
        )
        self._convert = _ConversionBuilder(schema, _convert_plain, keywords or {}).of(schema)

    def __call__(self, document: Any) -> Any:
        """Validate and convert a document. Raises :class:`DocumentError`."""
        if self._texts is not None:
            document = self._texts(document)
        try:
            valid = self._checker.is_valid(document)
        except UnicodeEncodeError:
            raise DocumentError("the text has characters that cannot be encoded") from None
        if not valid:
            error = _explain(self._fault(document))
            if self._texts is not None and error.what.endswith("is not a string"):
                error.what += "; put it in quotes"
            raise error
        return document if self._convert is None else self._convert(document)

    def _fault(self, document: Any) -> Fault:
        """Return the most helpful fault, or the first fault of a large document."""
        # A missing key may be present under a wrong name, which is the better message.
        faults = faults_in(self._checker, document, self._schema, _MAX_COMPARED)
        return min(faults, key=lambda fault: fault.keyword == "required")


def _accept_digits(schema: Json) -> Conversion | None:
    kinds = set(_list_types(schema))
    if "string" not in kinds or kinds & {"integer", "number"}:
        return None
    return lambda value: str(value) if type(value) is int else value


def _convert_plain(schema: Json) -> Conversion | None:
    kinds = _list_types(schema)
    if reader := READERS.get(schema.get("format", "")):
        return _convert_if(str, reader, kinds)
    if "integer" in kinds and "number" not in kinds:
        return _convert_if(float, int, kinds)
    if "number" in kinds and not {"integer", "string"} & set(kinds):
        return _convert_if(int, float, kinds)
    return None


def _convert_if(kind: type, convert: Conversion, kinds: list[str]) -> Conversion:
    """Return a conversion of values of a type. A single type needs no check."""
    if len(kinds) == 1:
        return convert
    return lambda value: convert(value) if type(value) is kind else value


def _list_types(schema: Json) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


class _ConversionBuilder:
    """Builder of conversions of documents from the conversions of their values (``leaf``)."""

    def __init__(
        self, root: Json, leaf: Callable[[Json], Conversion | None], keywords: Mapping[str, Keyword]
    ) -> None:
        self._root, self._leaf, self._keywords = root, leaf, keywords
        self._shared: dict[str, Conversion | None] = {}

    def of(self, schema: Json | None) -> Conversion | None:
        """Return the conversion of a schema's values, None if they stay unchanged."""
        if not schema or schema.get(AS_GIVEN):
            return self._leaf(schema or {})
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        for keyword, make in self._keywords.items():
            if keyword in schema:
                return make(schema[keyword], self.of)
        return self._object(schema) or self._list(schema) or self._leaf(schema)

    def _object(self, schema: Json) -> Conversion | None:
        own = {key: self.of(inner) for key, inner in schema.get("properties", {}).items()}
        name_conversion = self._leaf(schema.get("propertyNames", {}))
        additional = self.of(schema.get("additionalProperties"))
        if not (any(own.values()) or name_conversion or additional):
            return None

        def convert(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            converted = dict(value)
            key = None
            try:
                for key, item in value.items():
                    inner = own.get(key, additional)
                    if inner is not None:
                        converted[key] = inner(item)
            except DocumentError as error:
                raise error.prefixed(str(key)) from None
            if name_conversion is not None:
                _check_names(value, name_conversion)
            return converted

        return convert

    def _list(self, schema: Json) -> Conversion | None:
        first = [self.of(inner) for inner in schema.get("prefixItems", ())]
        items = self.of(schema.get("items"))
        leaf = self._leaf(schema)
        if not (any(first) or items):
            return None

        def convert(value: Any) -> Any:
            if not isinstance(value, list | tuple):
                return value if leaf is None else leaf(value)
            converted: list[Any] = []
            try:
                for inner, item in zip(chain(first, repeat(items)), value, strict=False):
                    converted.append(item if inner is None else inner(item))
            except DocumentError as error:
                raise error.prefixed(len(converted)) from None
            return converted

        def convert_numbers(value: Any) -> Any:
            return value if value is None else list(map(int, value))

        return convert_numbers if items is int and not first else convert

    def _reference(self, reference: str) -> Conversion:
        """Return the conversion of a referenced schema, built at its first use."""

        def convert(value: Any) -> Any:
            if reference not in self._shared:
                self._shared[reference] = self.of(resolve_reference(self._root, reference))
            inner = self._shared[reference]
            return value if inner is None else inner(value)

        return convert


def _check_names(value: Json, reader: Conversion) -> None:
    for name in value:
        try:
            reader(name)
        except DocumentError as error:
            raise DocumentError(error.what, name, at_key=True) from None


def _explain(fault: Fault) -> DocumentError:
    if fault.keyword == "additionalProperties":
        return DocumentError("the key is unknown", *fault.keys, fault.expected[0], at_key=True)
    at_key = fault.schema_path[-1:] == ("propertyNames",)
    keys = (*fault.keys, fault.value) if at_key else fault.keys
    return DocumentError(_describe(fault) or fault.message, *keys, at_key=at_key)


def _describe(fault: Fault) -> str | None:
    """Return the problem of a value, None to use the validator's message."""
    name, value, expected, schema = fault.keyword, fault.value, fault.expected, fault.schema
    if name == "required":
        return f"{expected!r} is required"
    if name == "pattern":
        problem = _PATTERNS.get(expected, f"does not match {expected}")
    elif name == "type":
        *leading, last = (_NOUNS[kind] for kind in _list_types(schema) if kind in _NOUNS)
        problem = f"is not {', '.join(leading)} or {last}" if leading else f"is not {last}"
    elif name == "enum":
        choices = [str(choice) for choice in expected if choice is not None]
        problem = f"is not one of {', '.join(choices)}"
    elif name == "exclusiveMinimum":
        problem = f"is not greater than {expected}"
    elif name in {"minimum", "maximum"} and {"minimum", "maximum"} <= schema.keys():
        problem = f"is not within {schema['minimum']} and {schema['maximum']}"
    elif noun := _COUNTED.get(name[3:]):
        span = _format_range(schema.get(f"min{name[3:]}"), schema.get(f"max{name[3:]}"))
        problem = f"has {len(value)} {noun}, not {span}"
    else:
        return None
    return f"{show_value(value)} {problem}"


def _format_range(minimum: int | None, maximum: int | None) -> str:
    if maximum is None:
        return f"at least {minimum}"
    return str(minimum) if minimum == maximum else f"{minimum or 0} to {maximum}"
