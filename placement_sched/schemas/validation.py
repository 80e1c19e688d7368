# SPDX-License-Identifier: Apache-2.0
"""Validation of documents with JSON Schemas, and messages about faults."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

import jsonschema_rs

from placement_sched.errors import Invalid, shorten
from placement_sched.limits import MAX_VALUE_CHARACTERS
from placement_sched.model import names
from placement_sched.model.document import Json, PathStep, build_json_path, is_larger
from placement_sched.schemas.formats import CHECKS, READERS, DocumentError, show_value

#: Maximum number of values and keys of a document whose faults are all collected and compared. The
#: error for a larger document is its first fault.
MAX_COMPARED = 1000
#: Maximum number of faults that are compared.
MAX_FAULTS = 100
#: Maximum length of the problem in a message (characters).
_MAX_PROBLEM_LENGTH = 400
#: Maximum number of unknown keys in the data of an error, and of unknown keys with suggestions.
_MAX_UNKNOWN_KEYS = 10
_MAX_SUGGESTED = 3

#: A fault as data, in errors and in responses of the scheduler API: the ``problem`` in words and
#: the JSON ``path``. If a value does not match a schema, ``keyword``, ``value`` (as text),
#: ``expected`` and, for an unknown key or value, ``suggestion`` are added.
FaultData = Mapping[str, Any]

_COUNTED = {"Length": "characters", "Items": "items", "Properties": "properties"}
_SINGULAR = {"characters": "character", "items": "item", "properties": "property"}
#: The phrases of the Python library jsonschema, by keyword of the schema.
_PHRASES = {
    "minimum": "{value} is less than the minimum of {expected!r}",
    "maximum": "{value} is greater than the maximum of {expected!r}",
    "exclusiveMinimum": "{value} is less than or equal to the minimum of {expected!r}",
    "exclusiveMaximum": "{value} is greater than or equal to the maximum of {expected!r}",
    "required": "{expected!r} is a required property",
    "pattern": "{value} does not match {expected!r}",
    "format": "{value} is not a {expected!r}",
    "uniqueItems": "{value} has non-unique elements",
    "anyOf": "{value} is not valid under any of the given schemas",
}
_NOUNS = {
    "array": "a list",
    "boolean": "a boolean",
    "integer": "an integer",
    "number": "a number",
    "object": "an object",
    "string": "a string",
}
#: Descriptions of a text that does not match a pattern, by pattern.
_PATTERNS = {
    "^[^\\x00-\\x1f\\x7f]*$": "has control characters",
    "^[A-Z0-9_]+$": "is not a valid name (A-Z, 0-9, _)",
    "^[1-9][0-9]{0,8}$": "is not an integer of 1 or more",
    "^$": "is not an integer",
    names.HOST: "is not a valid host name (letters, digits, _ . -)",
    names.ZONE: "has a colon, which no availability zone may have",
    names.KEY: "is not a valid key (letters, digits, : _ . - and, inside, blanks)",
    names.FLAVOR_ID: "is not a valid id (letters, digits, _ . - and, inside, blanks)",
    names.UUID: "is not a uuid",
}
#: Descriptions in plain words, by keyword of the schema.
_PLAIN_PHRASES = {
    "required": "{expected!r} is required",
    "format": "{value} is not a {expected}",
    "anyOf": "{value} has none of the accepted forms",
}
#: Converts a value by its schema.
Conversion = Callable[[Any, Json], Any]
#: Converts a value whose schema has a custom keyword. The arguments are the value, the value of the
#: keyword, and the conversion of other values.
Keyword = Callable[[Any, Any, Conversion], Any]
#: Keyword of a schema whose nested values are not converted.
UNCONVERTED = "x-as-given"


class Fault(NamedTuple):
    """A value of a document that does not match its schema.

    ``keys`` lead to the value. ``keyword`` is the violated keyword of ``schema``, and ``expected``
    its value. For the keyword ``required``, ``expected`` is the missing key. For
    ``additionalProperties``, it has the unknown keys.
    """

    keys: tuple[PathStep, ...]
    keyword: str
    value: Any
    expected: Any
    schema_path: tuple[PathStep, ...]
    schema: Json
    #: The message of jsonschema_rs.
    message: str
    #: The faults of the alternatives of ``anyOf``.
    alternatives: "tuple[Fault, ...]" = ()

    def as_data(self) -> dict[str, Any]:
        """Convert the fault to :data:`FaultData`."""
        data = {
            "path": shorten(build_json_path(self.keys), MAX_VALUE_CHARACTERS),
            "keyword": self.keyword,
            "value": show_value(self.value),
            "expected": self.expected,
        }
        problem = format_phrase(self, data["value"])
        if self.keyword == "additionalProperties":
            unknown_keys = self.expected[:_MAX_UNKNOWN_KEYS]
            data["expected"] = [shorten(key, MAX_VALUE_CHARACTERS) for key in unknown_keys]
            valid = self.schema.get("properties", {})
            near = chain.from_iterable(
                names.find_nearest(key[:MAX_VALUE_CHARACTERS], valid)
                for key in sorted(self.expected)[:_MAX_SUGGESTED]
            )
            suggestions = dict.fromkeys(near)
            valid_keys = () if suggestions else names.list_if_few(valid)
            data["suggestion"] = (
                names.suggest_names("key", suggestions, valid_keys) if valid else ""
            )
            problem += data["suggestion"]
        elif self.keyword == "enum" and isinstance(self.value, str):
            words = [value for value in self.expected if isinstance(value, str)]
            if nearest := names.find_nearest(self.value[:MAX_VALUE_CHARACTERS], words):
                data["suggestion"] = names.format_suggestion(nearest)
                problem += data["suggestion"]
        return {"problem": shorten(problem, _MAX_PROBLEM_LENGTH), **data}


class Schema:
    """A compiled JSON Schema."""

    def __init__(self, definition: Json, *, validate_formats: bool = True) -> None:
        self.definition = definition
        self._compiled = jsonschema_rs.validator_for(
            dict(definition), formats=dict(CHECKS), validate_formats=validate_formats
        )
        self.is_valid = self._compiled.is_valid

    def check(self, document: Any, words: str) -> None:
        """Raise :class:`Invalid` (``words: problem ...``) for a bad document."""
        if self.is_valid(document) or not (fault := find_most_helpful(self.find_faults(document))):
            return
        data = fault.as_data()
        steps = shorten("".join(f"[{step!r}]" for step in fault.schema_path), MAX_VALUE_CHARACTERS)
        raise Invalid(
            f"{words}: {data['problem']} (at {data['path']}). "
            f"Failed validating {fault.keyword!r} in schema{steps}",
            fault=data,
        )

    def find_faults(self, document: Any) -> Iterator[Fault]:
        """Yield the faults of a document, or only the first of a large document."""
        if not is_larger(document, MAX_COMPARED):
            for error in islice(self._compiled.iter_errors(document), MAX_FAULTS):
                yield _build_fault(error, document, self.definition)
            return
        try:
            self._compiled.validate(document)
        except jsonschema_rs.ValidationError as first:
            yield _build_fault(first, document, self.definition)


def find_most_helpful(faults: Iterable[Fault]) -> Fault | None:
    """Return the fault of jsonschema's ``best_match``, as placement does."""
    fault = max(faults, key=_rank, default=None)
    while fault is not None and fault.alternatives:
        inner = sorted(fault.alternatives, key=_rank)
        if len(inner) > 1 and _rank(inner[0]) == _rank(inner[1]):
            break
        fault = inner[0]
    return fault


def _rank(fault: Fault) -> tuple[Any, ...]:
    order = list(fault.schema).index(fault.keyword) if fault.keyword in fault.schema else 0
    return (-len(fault.keys), fault.keys, not fault.alternatives, fault.keyword == "type", -order)


def _build_fault(error: Any, document: Any, root: Json) -> Fault:
    keys, value = _locate(error, document)
    kind = error.kind
    *schema_path, keyword = error.schema_path
    schema = _find_schema(root, schema_path)
    expected = schema.get(keyword)
    if kind.name == "propertyNames":
        value = kind.error.instance
    elif kind.name == "required":
        expected = kind.property
    elif kind.name == "additionalProperties":
        expected = list(kind.unexpected)
    alternatives = chain(*kind.context) if kind.name in {"anyOf", "oneOf"} else ()
    return Fault(
        keys=keys,
        keyword=str(keyword),
        value=value,
        expected=expected,
        schema_path=tuple(schema_path),
        schema=schema,
        message=error.message,
        alternatives=tuple(_build_fault(inner, document, root) for inner in alternatives),
    )


def _find_schema(root: Json, path: Iterable[PathStep]) -> Json:
    schema: Any = root
    for step in path:
        if step == "$ref":
            schema = resolve_reference(root, schema[step])
        elif isinstance(schema, list):
            schema = schema[int(step)]
        else:
            schema = schema.get(str(step), {})
    return schema if isinstance(schema, dict) else {}


def resolve_reference(root: Json, reference: str) -> Json:
    """Return the part of a schema that the value of a ``$ref`` refers to."""
    schema: Any = root
    for step in reference.removeprefix("#/").split("/"):
        schema = schema[step]
    return dict(schema)


def _locate(error: Any, document: Any) -> tuple[tuple[PathStep, ...], Any]:
    """Return keys and value of an error, as jsonschema_rs is not exact."""
    keys: list[PathStep] = []
    value = document
    for step in error.instance_path:
        if isinstance(value, dict):
            keys.append(str(step))
            value = value.get(str(step))
        else:
            keys.append(step)
            is_index = isinstance(value, list | tuple) and step in range(len(value))
            value = value[step] if is_index else None
    return tuple(keys), value if value == error.instance else error.instance


def format_phrase(fault: Fault, value: str) -> str:
    """Describe a fault in placement's words, which clients match."""
    keyword, expected = fault.keyword, fault.expected
    if keyword == "type":
        return f"{value} is not of type {', '.join(map(repr, _as_list(expected)))}"
    if keyword == "enum":
        return f"{value} is not one of [{', '.join(map(show_value, expected))}]"
    if keyword == "additionalProperties":
        return _describe_unknown_keys(fault)
    if keyword in _PHRASES:
        return _PHRASES[keyword].format(value=value, expected=expected)
    if keyword[3:] in _COUNTED:
        return f"{value} {_describe_size(keyword, expected)}"
    return fault.message


def _describe_size(keyword: str, limit: int) -> str:
    noun = _COUNTED[keyword[3:]]
    if keyword.startswith("min"):
        words = "does not have enough properties" if noun == "properties" else "is too short"
        return "should be non-empty" if limit == 1 else f"{words}: at least {limit} {noun}"
    words = "has too many properties" if noun == "properties" else "is too long"
    limited = noun if limit != 1 else _SINGULAR[noun]
    return f"{words if limit else 'is expected to be empty'}: at most {limit} {limited}"


def _describe_unknown_keys(fault: Fault) -> str:
    keys, patterns = sorted(fault.expected), fault.schema.get("patternProperties")
    unknown = ", ".join(map(repr, keys))
    if patterns:
        verb = "does" if len(keys) == 1 else "do"
        forms = ", ".join(map(repr, sorted(patterns)))
        return f"{unknown} {verb} not match any of the regexes: {forms}"
    verb = "was" if len(keys) == 1 else "were"
    return f"Additional properties are not allowed ({unknown} {verb} unexpected)"


def _as_list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


def describe_fault(fault: FaultData) -> str:
    """Describe a fault in plain words."""
    keyword, expected = fault.get("keyword"), fault.get("expected")
    if keyword == "type":
        kinds = [_NOUNS[kind] for kind in _as_list(expected) if kind != "null"]
        *first_kinds, last = kinds or ["null"]
        return f"{fault['value']} is not {', '.join(first_kinds)}{' or ' * bool(first_kinds)}{last}"
    if keyword == "pattern" and expected in _PATTERNS:
        return f"{fault['value']} {_PATTERNS[expected]}"
    if keyword in _PLAIN_PHRASES:
        return _PLAIN_PHRASES[keyword].format(**fault)
    if keyword == "enum":
        choices = [str(choice) for choice in _as_list(expected) if choice is not None]
        suggestion = fault.get("suggestion", "")
        return f"{fault['value']} is not one of {', '.join(choices)}{suggestion}"
    if keyword == "additionalProperties":
        unknown = _as_list(expected)
        keys = ", ".join(map(repr, unknown))
        return f"unknown key{'s' * (len(unknown) > 1)} {keys}{fault.get('suggestion', '')}"
    problem: str = fault["problem"]
    return problem


class Reader:
    """Reader of documents that match a schema.

    The reader returns a valid document with UUIDs and enumeration names normalized, times as naive
    UTC, ``4.0`` as ``4`` for integers, and ``4`` as ``4.0`` for numbers. ``keywords`` has functions
    for schemas with custom keywords. The formats of values and property names are checked during
    the conversion. With ``digits_as_text``, an integer is converted to text if the schema allows
    text but no number, because YAML reads unquoted digits as an integer.
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
        self._keywords = keywords or {}
        self._digits_as_text = digits_as_text

    def __call__(self, document: Any) -> Any:
        """Validate and convert, or raise :class:`DocumentError`."""
        definition = self._schema.definition
        if self._digits_as_text:
            document = _Conversion(definition, _accept_digits, {}).convert(document, definition)
        try:
            is_valid = self._schema.is_valid(document)
        except UnicodeEncodeError:
            raise DocumentError("the document has characters that UTF-8 cannot encode") from None
        if not is_valid:
            # A missing key may be present under a wrong name. Errors about unknown keys help more.
            faults = self._schema.find_faults(document)
            raise self._build_error(min(faults, key=lambda fault: fault.keyword == "required"))
        return _Conversion(definition, _convert_value, self._keywords).convert(document, definition)

    def _build_error(self, fault: Fault) -> DocumentError:
        data = fault.as_data()
        problem, keys, is_key = describe_fault(data), fault.keys, True
        if fault.keyword == "additionalProperties":
            keys = (*keys, fault.expected[0])
        elif fault.schema_path[-1:] == ("propertyNames",):
            keys = (*keys, fault.value)
        else:
            is_key = False
        takes_only_text = set(_as_list(fault.schema.get("type", []))) - {"null"} == {"string"}
        if self._digits_as_text and fault.keyword == "type" and takes_only_text:
            problem += ". Put it in quotes"
        return DocumentError(problem, *keys, at_key=is_key, fault=data)


def _accept_digits(value: Any, schema: Json) -> Any:
    kinds = _as_list(schema.get("type", []))
    accepts_text = "string" in kinds and not {"integer", "number"} & set(kinds)
    return str(value) if type(value) is int and accepts_text else value


def _convert_value(value: Any, schema: Json) -> Any:
    if isinstance(value, str):
        reader = READERS.get(schema.get("format", ""))
        return value if reader is None else reader(value)
    kinds = schema.get("type", [])
    if type(value) is float and "integer" in kinds and "number" not in kinds:
        return int(value)
    if type(value) is int and "number" in kinds and not {"integer", "string"} & {*_as_list(kinds)}:
        return float(value)
    return value


class _Conversion(NamedTuple):
    """Conversion of the values of a document by ``leaf``, with their schemas."""

    root: Json
    leaf: Conversion
    keywords: Mapping[str, Keyword]

    def convert(self, value: Any, schema: Json) -> Any:
        """Convert a value and its parts. Errors have the keys of the part."""
        if schema.get(UNCONVERTED):
            return self.leaf(value, schema)
        if "$ref" in schema:
            return self.convert(value, resolve_reference(self.root, schema["$ref"]))
        for keyword, convert_keyword in self.keywords.items():
            if keyword in schema:
                return convert_keyword(value, schema[keyword], self.convert)
        if isinstance(value, dict):
            names, properties = schema.get("propertyNames", {}), schema.get("properties", {})
            for key in value if names else ():
                try:
                    self.leaf(key, names)
                except DocumentError as error:
                    raise DocumentError(error.detail, key, at_key=True) from None
            additional = schema.get("additionalProperties") or {}
            return {
                key: self._convert_part(key, inner, properties.get(key, additional))
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            first, items = schema.get("prefixItems", ()), schema.get("items") or {}
            if items.get("type") == "integer":  # CPUs of NUMA nodes: many numbers
                return list(map(int, value))
            schemas = chain(first, repeat(items))
            return [
                self._convert_part(index, inner, next(schemas)) for index, inner in enumerate(value)
            ]
        return self.leaf(value, schema)

    def _convert_part(self, key: PathStep, value: Any, schema: Json) -> Any:
        if not schema:
            return value
        try:
            return self.convert(value, schema)
        except DocumentError as error:
            error.keys = (key, *error.keys)
            raise
