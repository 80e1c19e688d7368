# SPDX-License-Identifier: Apache-2.0
"""Validation of documents by a JSON Schema, and conversion of their values."""

from collections.abc import Callable, Mapping
from itertools import chain, repeat
from typing import Any

from placement_sched.model.document import Json
from placement_sched.schemas.faults import Fault, Schema, plain_reason, resolve_reference
from placement_sched.schemas.formats import READERS, DocumentError

#: Converts a valid value.
Conversion = Callable[[Any], Any]
#: Builds the conversion for a schema with a custom keyword, from the value of the keyword.
Keyword = Callable[[Any, Callable[[Json | None], Conversion | None]], Conversion]

#: Marks a schema whose values, including nested values, are not converted.
AS_GIVEN = "x-as-given"


class Reader:
    """Reader of documents that match a schema.

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
        # Formats are checked by the conversion.
        self._schema = Schema(schema, validate_formats=False)
        self._texts = (
            _ConversionBuilder(schema, _accept_digits, {}).of(schema) if digits_as_text else None
        )
        self._convert = _ConversionBuilder(schema, _convert_plain, keywords or {}).of(schema)

    def __call__(self, document: Any) -> Any:
        """Validate and convert a document.

        Raises :class:`DocumentError`.
        """
        if self._texts is not None:
            document = self._texts(document)
        try:
            is_valid = self._schema.is_valid(document)
        except UnicodeEncodeError:
            raise DocumentError("the text has characters that cannot be encoded") from None
        if not is_valid:
            # A missing key may be present under a wrong name, which is the better message.
            faults = self._schema.find_faults(document)
            raise self._error(min(faults, key=lambda fault: fault.keyword == "required"))
        return document if self._convert is None else self._convert(document)

    def _error(self, fault: Fault) -> DocumentError:
        data = fault.as_data()
        problem, keys, is_key = plain_reason(data), fault.keys, True
        if fault.keyword == "additionalProperties":
            keys = (*keys, fault.expected[0])
        elif fault.schema_path[-1:] == ("propertyNames",):
            keys = (*keys, fault.value)
        else:
            is_key = False
        takes_only_text = set(_list_types(fault.schema)) - {"null"} == {"string"}
        if self._texts is not None and fault.keyword == "type" and takes_only_text:
            problem += "; put it in quotes"
        return DocumentError(problem, *keys, at_key=is_key, fault=data)


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
    """Build a conversion for values of a type.

    A single type needs no check.
    """
    if len(kinds) == 1:
        return convert
    return lambda value: convert(value) if type(value) is kind else value


def _list_types(schema: Json) -> list[str]:
    kinds = schema.get("type", [])
    return [kinds] if isinstance(kinds, str) else list(kinds)


class _ConversionBuilder:
    """Build conversions of documents from conversions of their values (``leaf``)."""

    def __init__(
        self, root: Json, leaf: Callable[[Json], Conversion | None], keywords: Mapping[str, Keyword]
    ) -> None:
        self._root, self._leaf, self._keywords = root, leaf, keywords
        self._shared: dict[str, Conversion | None] = {}

    def of(self, schema: Json | None) -> Conversion | None:
        """Build the conversion for values of a schema, or None if they stay unchanged."""
        if not schema or schema.get(AS_GIVEN):
            return self._leaf(schema or {})
        if "$ref" in schema:
            return self._reference(schema["$ref"])
        for keyword, make in self._keywords.items():
            if keyword in schema:
                return make(schema[keyword], self.of)
        return self._of_parts(schema) or self._leaf(schema)

    def _of_parts(self, schema: Json) -> Conversion | None:
        """Build the conversion for objects and lists, or None without parts to convert."""
        properties = {key: self.of(inner) for key, inner in schema.get("properties", {}).items()}
        additional = self.of(schema.get("additionalProperties"))
        name_conversion = self._leaf(schema.get("propertyNames", {}))
        first = [self.of(inner) for inner in schema.get("prefixItems", ())]
        items = self.of(schema.get("items"))
        if not (any([*properties.values(), *first]) or additional or name_conversion or items):
            return None
        if items is int and not first:  # CPUs of NUMA nodes: many numbers
            return lambda value: value if value is None else list(map(int, value))
        leaf = self._leaf(schema) or (lambda value: value)

        def convert(value: Any) -> Any:
            converted: Any
            if isinstance(value, dict):
                converted = dict(value)
                parts: Any = [(key, properties.get(key, additional)) for key in value]
                if name_conversion is not None:
                    _check_names(value, name_conversion)
            elif isinstance(value, list | tuple):
                converted = list(value)
                parts = zip(range(len(value)), chain(first, repeat(items)), strict=False)
            else:
                return leaf(value)
            key: str | int = ""
            try:
                for key, conversion in parts:
                    if conversion is not None:
                        converted[key] = conversion(value[key])
            except DocumentError as error:
                error.keys = (key, *error.keys)
                raise
            return converted

        return convert

    def _reference(self, reference: str) -> Conversion:
        """Build the conversion for a referenced schema, at its first use."""

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
