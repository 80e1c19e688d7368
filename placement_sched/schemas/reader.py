"""Reads documents by a JSON schema: checks them, and returns their values as the code uses them."""

from collections.abc import Callable, Mapping
from itertools import chain, repeat
from typing import Any

import jsonschema_rs

from placement_sched.model import names as names_module
from placement_sched.model.document import Json
from placement_sched.schemas.faults import Fault, faults_in, resolved
from placement_sched.schemas.formats import READERS, DocumentError, shown

#: Returns what a valid value means, or a value as it is.
Conversion = Callable[[Any], Any]
#: Makes the conversion of values whose schema has a keyword of its own, from the keyword's value.
Keyword = Callable[[Any, Callable[[Json | None], Conversion | None]], Conversion]

#: Marks a schema whose values are kept as they are given, with all that is in them.
AS_GIVEN = "x-as-given"
#: Maximum number of values of a document, with its keys, in which all faults are compared.
_MAX_COMPARED = 5000

_NOUNS = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "a boolean",
    "object": "an object",
    "array": "a list",
}
#: What is said of a text that does not match a pattern.
_PATTERNS = {
    "^[^\\x00-\\x1f\\x7f]*$": "has control characters",
    "^[A-Z0-9_]+$": "is not a valid name (A-Z, 0-9, _)",
    "^$": "is not an integer",
    names_module.HOST: "is not a valid host name (letters, digits, _ . -)",
    names_module.ZONE: "has a colon, which no availability zone may have",
    names_module.KEY: "is not a valid key (letters, digits, : _ . - and, inside, blanks)",
    names_module.FLAVOR_ID: "is not a valid id (letters, digits, _ . - and, inside, blanks)",
    names_module.UUID: "is not a uuid",
}


class Reader:
    """Reads the documents of one schema.

    A valid document is returned with its uuids and names of enumerations in their usual spelling,
    its times as naive UTC, ``4.0`` as ``4`` where an integer is asked for, and ``4`` as ``4.0``
    where a number is. ``keywords`` convert values whose schema has a keyword of its own.
    Formats are checked as they are converted: in properties, items and names of properties.
    With ``digits_as_text`` an integer is taken for text where only text may be, as in YAML.
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
        self._texts = _Walk(schema, _digits, {}).of(schema) if digits_as_text else None
        self._convert = _Walk(schema, _plain_value, keywords or {}).of(schema)

    def __call__(self, document: Any) -> Any:
        """Return what a document says; raises :class:`DocumentError`."""
        if self._texts is not None:
            document = self._texts(document)
        try:
            valid = self._checker.is_valid(document)
        except UnicodeEncodeError:
            raise DocumentError("it has characters that cannot be encoded") from None
        if not valid:
            error = _explained(self._fault(document))
            if self._texts is not None and error.what.endswith("is not a string"):
                error.what += "; quotes make it one"
            raise error
        return document if self._convert is None else self._convert(document)

    def _fault(self, document: Any) -> Fault:
        """Return the fault of an invalid document to name: of a large one the first."""
        # What is missing may be there under a wrong name, which says more.
        faults = faults_in(self._checker, document, self._schema, _MAX_COMPARED)
        return min(faults, key=lambda fault: fault.keyword == "required")


def _digits(schema: Json) -> Conversion | None:
    kinds = set(_kinds(schema))
    if "string" not in kinds or kinds & {"integer", "number"}:
        return None
    return lambda value: str(value) if type(value) is int else value


def _plain_value(schema: Json) -> Conversion | None:
    kinds = _kinds(schema)
    if reader := READERS.get(schema.get("format", "")):
        return _if_of(str, reader, kinds)
    if "integer" in kinds and "number" not in kinds:
        return _if_of(float, int, kinds)
    if "number" in kinds and not {"integer", "string"} & set(kinds):
        return _if_of(int, float, kinds)
    return None


def _if_of(kind: type, convert: Conversion, kinds: list[str]) -> Conversion:
    """Return what converts values of a type; the only one of the kinds needs no question."""
    if len(kinds) == 1:
        return convert
    return lambda value: convert(value) if type(value) is kind else value


def _kinds(schema: Json) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


class _Walk:
    """Makes conversions of documents from those of the values in them (``leaf``)."""

    def __init__(
        self, root: Json, leaf: Callable[[Json], Conversion | None], keywords: Mapping[str, Keyword]
    ) -> None:
        self._root, self._leaf, self._keywords = root, leaf, keywords
        self._shared: dict[str, Conversion | None] = {}

    def of(self, schema: Json | None) -> Conversion | None:
        """Return the conversion of a schema's values; None where they stay as they are."""
        if not schema or schema.get(AS_GIVEN):
            return self._leaf(schema or {})
        if "$ref" in schema:
            return self._referred(schema["$ref"])
        for keyword, make in self._keywords.items():
            if keyword in schema:
                return make(schema[keyword], self.of)
        return self._object(schema) or self._list(schema) or self._leaf(schema)

    def _object(self, schema: Json) -> Conversion | None:
        own = {key: self.of(inner) for key, inner in schema.get("properties", {}).items()}
        names = self._leaf(schema.get("propertyNames", {}))
        others = self.of(schema.get("additionalProperties"))
        if not (any(own.values()) or names or others):
            return None

        def convert(value: Any) -> Any:
            if not isinstance(value, dict):
                return value
            found = dict(value)
            key = None
            try:
                for key, item in value.items():
                    inner = own.get(key, others)
                    if inner is not None:
                        found[key] = inner(item)
            except DocumentError as error:
                raise error.under(str(key)) from None
            if names is not None:
                _check_names(value, names)
            return found

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
            found: list[Any] = []
            try:
                for inner, item in zip(chain(first, repeat(items)), value, strict=False):
                    found.append(item if inner is None else inner(item))
            except DocumentError as error:
                raise error.under(len(found)) from None
            return found

        def convert_numbers(value: Any) -> Any:
            return value if value is None else list(map(int, value))

        return convert_numbers if items is int and not first else convert

    def _referred(self, reference: str) -> Conversion:
        """Return the conversion of a schema by reference, made at its first use."""

        def convert(value: Any) -> Any:
            if reference not in self._shared:
                self._shared[reference] = self.of(resolved(self._root, reference))
            inner = self._shared[reference]
            return value if inner is None else inner(value)

        return convert


def _check_names(value: Json, reader: Conversion) -> None:
    for name in value:
        try:
            reader(name)
        except DocumentError as error:
            raise DocumentError(error.what, name, at_key=True) from None


def _explained(fault: Fault) -> DocumentError:
    if fault.keyword == "additionalProperties":
        return DocumentError("the key is unknown", *fault.keys, fault.expected[0], at_key=True)
    at_key = fault.schema_path[-1:] == ("propertyNames",)
    keys = (*fault.keys, fault.value) if at_key else fault.keys
    return DocumentError(_what(fault) or fault.message, *keys, at_key=at_key)


def _what(fault: Fault) -> str | None:
    """Return what is wrong with a value; None if JSON Schema's own words have to do."""
    name, value, expected, schema = fault.keyword, fault.value, fault.expected, fault.schema
    if name == "required":
        return f"{expected!r} is required"
    if name == "pattern":
        what = _PATTERNS.get(expected, f"does not match {expected}")
    elif name == "type":
        *others, last = (_NOUNS[kind] for kind in _kinds(schema) if kind in _NOUNS)
        what = f"is not {', '.join(others)} or {last}" if others else f"is not {last}"
    elif name == "enum":
        choices = [str(choice) for choice in expected if choice is not None]
        what = f"is not one of {', '.join(choices)}"
    elif name == "exclusiveMinimum":
        what = f"is not greater than {expected}"
    elif name in {"minimum", "maximum"} and {"minimum", "maximum"} <= schema.keys():
        what = f"is not within {schema['minimum']} and {schema['maximum']}"
    elif noun := _COUNTED.get(name[3:]):
        span = _span(schema.get(f"min{name[3:]}"), schema.get(f"max{name[3:]}"))
        what = f"has {len(value)} {noun}, not {span}"
    else:
        return None
    return f"{shown(value)} {what}"


_COUNTED = {"Length": "characters", "Items": "items"}


def _span(least: int | None, most: int | None) -> str:
    if most is None:
        return f"at least {least}"
    return str(least) if least == most else f"{least or 0} to {most}"
