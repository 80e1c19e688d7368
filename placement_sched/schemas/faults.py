# SPDX-License-Identifier: Apache-2.0
"""Faults that the JSON Schema validator (jsonschema_rs) finds in a document."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

import jsonschema_rs

from placement_sched.model.document import Json, is_larger

#: Maximum number of values and keys of a document for which all faults are compared, because the
#: validator collects all of them first.
MAX_COMPARED = 1000
#: Maximum number of faults that are compared.
MAX_FAULTS = 100

Keys = tuple[str | int, ...]
#: A fault in an error and in responses of the scheduler API, with its ``problem`` in words and its
#: ``path``. A fault of a schema also has ``keyword``, ``value`` and ``expected``.
FaultData = Mapping[str, Any]
_COUNTED = {"Length": "characters", "Items": "items", "Properties": "properties"}
#: The phrases of the library jsonschema, by keyword.
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
_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "keys with values",
    "string": "a text",
}
_FORMATS = {"uuid": "a UUID", "date-time": "a time"}
#: Descriptions of the patterns of values that are entered in forms.
_PATTERNS = {
    "^[^\\x00-\\x1f\\x7f]*$": "a text without control characters",
    "^[A-Z0-9_]+$": "capital letters, digits and _",
    "^[1-9][0-9]{0,8}$": "a whole number, 1 or more",
}
#: Plain descriptions by keyword. The second table is for keywords with the value 1.
_PLAIN = {
    "required": "the key {expected!r} is missing",
    "anyOf": "{value} has none of the accepted forms",
    "pattern": "{value} is not of the form {expected!r}",
}
_PLAIN_OF_ONE = {
    "minLength": "expected a text that is not empty",
    "minItems": "expected at least one entry, not {value}",
    "minProperties": "expected at least one entry, not {value}",
    "maxProperties": "expected one key, not the keys of {value}",
}


class Fault(NamedTuple):
    """A value of a document that does not match its schema.

    ``keys`` lead to the value. ``keyword`` is the violated keyword of ``schema``. ``expected`` is
    the value of the keyword. For ``required`` it is the missing key, and for
    ``additionalProperties`` the unknown keys.
    """

    keys: Keys
    keyword: str
    value: Any
    expected: Any
    schema_path: Keys
    schema: Json
    #: The message of the validator.
    message: str
    #: The faults of the alternatives of ``anyOf``.
    alternatives: "tuple[Fault, ...]" = ()


def faults_in(
    checker: Any, document: Any, root: Json, compared: int = MAX_COMPARED
) -> Iterator[Fault]:
    """Yield the faults of a document, or the first fault of a large document.

    ``root`` is the schema. A document of more than ``compared`` values and keys is large.
    """
    if not is_larger(document, compared):
        for error in islice(checker.iter_errors(document), MAX_FAULTS):
            yield _build_fault(error, document, root)
        return
    try:
        checker.validate(document)
    except jsonschema_rs.ValidationError as first:
        yield _build_fault(first, document, root)


def most_helpful(faults: Iterable[Fault]) -> Fault | None:
    """Return the outermost fault, among alternatives the innermost.

    The choice is the same as by ``best_match`` in the library jsonschema. OpenStack placement
    returns the messages of this library.
    """
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
    *path, keyword = error.schema_path
    schema = _find_schema(root, path)
    expected = schema.get(keyword)
    if kind.name == "propertyNames":
        value = kind.error.instance
    elif kind.name == "required":
        expected = kind.property
    elif kind.name == "additionalProperties":
        expected = list(kind.unexpected)
    alternatives = chain(*kind.context) if kind.name in {"anyOf", "oneOf"} else ()
    return Fault(
        keys=tuple(keys),
        keyword=str(keyword),
        value=value,
        expected=expected,
        schema_path=tuple(path),
        schema=schema,
        message=error.message,
        alternatives=tuple(_build_fault(inner, document, root) for inner in alternatives),
    )


def _find_schema(root: Json, path: Sequence[str | int]) -> Json:
    schema: Any = root
    for step in path:
        schema = (
            resolve_reference(root, schema[step]) if step == "$ref" else _step_into(schema, step)
        )
    return schema if isinstance(schema, dict) else {}


def resolve_reference(root: Json, reference: str) -> Json:
    """Return the part of a schema that a ``$ref`` refers to."""
    schema: Any = root
    for step in reference.removeprefix("#/").split("/"):
        schema = schema[step]
    return dict(schema)


def _locate(error: Any, document: Any) -> tuple[list[str | int], Any]:
    """Return the keys that lead to the value of an error, and the value.

    A path may be read as different keys. A reading with the right value is preferred.
    """
    readings = _yield_readings(error.instance_path, document)
    first = next(readings)
    matches = [candidate for candidate in readings if candidate[1] == error.instance]
    return matches[0] if matches and first[1] != error.instance else first


def _step_into(container: Any, step: str | int) -> Any:
    return container[next(_keys_of(container, step))]


def _yield_readings(path: Sequence[str | int], value: Any) -> Iterator[tuple[list[str | int], Any]]:
    """Yield the keys that a path may stand for, with the value that they lead to.

    The validator omits empty keys from its paths.
    """
    if path:
        step, *remaining_path = path
        for key in _keys_of(value, step):
            for keys, inner in _yield_readings(remaining_path, value[key]):
                yield [key, *keys], inner
    else:
        yield [], value
    if isinstance(value, dict) and "" in value:
        for keys, inner in _yield_readings(path, value[""]):
            yield ["", *keys], inner


def _keys_of(container: Any, step: str | int) -> Iterator[str | int]:
    """Yield the keys that a step may stand for. In a list, a step is an index."""
    if isinstance(step, str):
        if isinstance(container, dict) and step in container:
            yield step
    elif isinstance(container, dict):
        yield from (key for key in container if _is_index(key, step))
    elif isinstance(container, list | tuple) and step < len(container):
        yield step


def _is_index(key: Any, step: int) -> bool:
    """Return whether the validator reports a key as the number ``step``.

    In the path of an error, it reports the keys "1", "+1" and "01" as the number 1, as if they were
    indexes of a list.
    """
    if not isinstance(key, str):
        return False
    digits = key.removeprefix("+")
    # Compared as text, since Python rejects integers of more than 4300 digits.
    return digits.isascii() and digits.isdigit() and (digits.lstrip("0") or "0") == str(step)


def phrase(fault: Fault, show: Callable[[Any], str]) -> str:
    """Describe a fault in the words of the library jsonschema, as OpenStack's placement does.

    ``show`` formats a value for the message. Clients match these phrases.
    """
    value, expected, keyword = show(fault.value), fault.expected, fault.keyword
    if keyword == "type":
        return f"{value} is not of type {', '.join(map(repr, _as_list(expected)))}"
    if keyword == "enum":
        return f"{value} is not one of [{', '.join(map(in_json, expected))}]"
    if keyword == "additionalProperties":
        return _describe_unknown_keys(fault)
    if keyword in _PHRASES:
        return _PHRASES[keyword].format(value=value, expected=expected)
    return _describe_size(keyword, value, expected) or fault.message


def _describe_size(keyword: str, value: str, expected: int) -> str | None:
    bound, noun = keyword[:3], _COUNTED.get(keyword[3:])
    if noun is None:
        return None
    if bound == "min" and expected == 1:
        return f"{value} should be non-empty"
    if bound == "max" and expected == 0:
        words = "is expected to be empty"
    elif noun == "properties":
        words = "does not have enough properties" if bound == "min" else "has too many properties"
    else:
        words = "is too short" if bound == "min" else "is too long"
    at_most = f"; {_format_limit(expected, noun)}" if bound == "max" else ""
    return f"{value} {words}{at_most}"


def _format_limit(limit: int, noun: str) -> str:
    singular = noun.removesuffix("s").replace("propertie", "property")
    return f"at most {limit} {singular if limit == 1 else noun}"


def _describe_unknown_keys(fault: Fault) -> str:
    keys, patterns = sorted(fault.expected), fault.schema.get("patternProperties")
    names = ", ".join(map(repr, keys))
    if patterns:
        verb = "does" if len(keys) == 1 else "do"
        forms = ", ".join(map(repr, sorted(patterns)))
        return f"{names} {verb} not match any of the regexes: {forms}"
    verb = "was" if len(keys) == 1 else "were"
    return f"Additional properties are not allowed ({names} {verb} unexpected)"


def in_json(value: Any) -> str:
    """Return a value as JSON, but text in single quotes, as in other messages."""
    return repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _as_list(values: Any) -> list[Any]:
    return values if isinstance(values, list) else [values]


_EXPECTED: Mapping[str, Callable[[Any], str | None]] = {
    "type": lambda kinds: join_with_or([_TYPES[kind] for kind in _as_list(kinds)]),
    "format": lambda name: _FORMATS.get(name, f"a {name}"),
    "minimum": "{} or more".format,
    "maximum": "{} or less".format,
    "exclusiveMinimum": "more than {}".format,
    "maxLength": lambda limit: _format_limit(limit, "characters"),
    "maxItems": lambda limit: _format_limit(limit, "items"),
    "enum": lambda choices: join_with_or([str(choice) for choice in choices if choice is not None]),
    "pattern": _PATTERNS.get,
}


class Expectation(NamedTuple):
    """An invalid value as text, and a description of the valid values.

    For example, ``expected`` is ``a whole number``.
    """

    value: str
    expected: str


def expectation(fault: FaultData) -> Expectation | None:
    """Return the value and the expected value of a fault, if it has them."""
    describe = _EXPECTED.get(fault.get("keyword", ""))
    expected = describe(fault["expected"]) if describe else None
    return None if expected is None else Expectation(fault["value"], expected)


def plain_reason(fault: FaultData) -> str:
    """Describe a fault in plain words."""
    keyword, expected = fault.get("keyword", ""), fault.get("expected")
    problem: str = fault["problem"]
    if keyword in {"type", "format"} and (details := expectation(fault)):
        return f"expected {details.expected}, not {details.value}"
    if keyword == "additionalProperties" and problem.startswith("Additional"):
        suffix = problem.partition(")")[2]  # the valid keys or the nearest valid key
        names = _as_list(expected)
        return f"unknown key{'s' * (len(names) > 1)} {', '.join(map(repr, names))}{suffix}"
    words = _PLAIN.get(keyword) or (_PLAIN_OF_ONE.get(keyword) if expected == 1 else None)
    return problem if words is None else words.format(**fault)


def join_with_or(names: list[str]) -> str:
    """Join names with commas and a final or: ``a, b or c``."""
    *leading, last = names
    return f"{', '.join(leading)} or {last}" if leading else last


def unquote(value: str) -> str:
    """Return a value without the quotes around text in messages."""
    quoted = len(value) > 1 and value[0] == value[-1] == "'"
    return value[1:-1] if quoted else value
