"""What the API says of a document that does not fit its schema, taken apart and put in plain words.

The API names the offence as programs want it: its place as a JSON path, and the keyword of the
schema that refuses it. Who types options, fills in a form or writes a file of changes has seen
neither paths nor schemas; the command line and the console say the same by their own names.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

_INVALID = ("JSON does not validate: ", "Invalid query string parameters: ")
#: The place of an error, and the keyword of the schema, which may be cut in its middle.
_PLACE = re.compile(
    r" \(at (?P<path>\$(?:\['[^']*'\]|[^()\s]|\([^()]*\))*|[\w.\[\]'-]+)\)"
    r"(?P<schema>\. Failed validating '\w+' in schema(?:\S| \[\.\.\.\] )*)?"
)
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
#: What is expected by patterns that values of forms can miss, as the API repeats them.
_PATTERNS = {
    r"^[^\\x00-\\x1f\\x7f]*$": "a text without control characters",
    r"^[A-Z0-9_]+$": "capital letters, digits and _",
    r"^[1-9][0-9]{0,8}$": "a whole number, 1 or more",
}

#: How the checkers of schemas say that a value does not fit, and what is expected by that.
_Forms = tuple[tuple[str, Callable[[str], str]], ...]
_OF_ANOTHER_KIND: _Forms = (
    (
        r"(?P<value>.*) is not of type (?P<limit>'\w+'(?:, '\w+')*)",
        lambda names: either([_TYPES.get(name, name) for name in _listed(names)]),
    ),
    (r"(?P<value>.*) is not a '(?P<limit>[\w-]+)'", lambda name: _FORMATS.get(name, f"a {name}")),
)
_OUT_OF_BOUNDS: _Forms = (
    (r"(?P<value>.*) is less than the minimum of (?P<limit>.*)", "{} or more".format),
    (r"(?P<value>.*) is greater than the maximum of (?P<limit>.*)", "{} or less".format),
    (r"(?P<value>.*) is less than or equal to the minimum of (?P<limit>.*)", "more than {}".format),
    (r"(?P<value>.*) is too long; (?P<limit>at most .*)", str),
    (
        r"(?P<value>.*) is not one of \[(?P<limit>.*)\]",
        lambda texts: either([one for one in _listed(texts) if one != "null"]),
    ),
    *(
        (rf"(?P<value>.*) does not match '(?P<limit>{re.escape(pattern)})'", _PATTERNS.__getitem__)
        for pattern in _PATTERNS
    ),
)
#: What they say of what is missing, unknown or empty, and the same in plain words.
_REASONS: tuple[tuple[str, str], ...] = (
    (r"('.*') is a required property", r"the key \1 is missing"),
    (r"Additional properties are not allowed \((.*) was unexpected\)(.*)", r"unknown key \1\2"),
    (r"Additional properties are not allowed \((.*) were unexpected\)(.*)", r"unknown keys \1\2"),
    (r"'' should be non-empty", "expected a text that is not empty"),
    (r"(.*) should be non-empty", r"expected at least one entry, not \1"),
    (r"(.*) has too many properties", r"expected one key, not those of \1"),
    (
        r"(.*) is not valid under any of the given schemas",
        r"\1 has none of the forms that are accepted here",
    ),
    (r"(.*) does not match (.*)", r"\1 is not of the form \2"),
)


class SchemaError(NamedTuple):
    """What is wrong, the JSON path of the offence, and what follows after both."""

    problem: str
    path: str
    rest: str


class Expectation(NamedTuple):
    """A value as it was given, and what is expected in its place: ``a whole number``."""

    value: str
    expected: str


def taken_apart(detail: str) -> SchemaError | None:
    """Return the parts of an error that names a place; None for any other."""
    found = _PLACE.search(detail)
    if found is None:
        return None
    problem = detail[: found.start()]
    for prefix in _INVALID:
        problem = problem.removeprefix(prefix)
    return SchemaError(problem, found["path"], detail[found.end() :])


def without_place(detail: str) -> str:
    """Return what an error says, without where."""
    return _PLACE.sub("", detail, count=1)


def expectation(problem: str) -> Expectation | None:
    """Return which value does not fit, and what does; None for what is wrong in another way."""
    return _expectation(problem, _OF_ANOTHER_KIND + _OUT_OF_BOUNDS)


def plain_reason(problem: str) -> str:
    """Return what a checker of schemas says in plain words; what is plain already as it is."""
    if found := _expectation(problem, _OF_ANOTHER_KIND):
        return f"expected {found.expected}, not {found.value}"
    for pattern, words in _REASONS:
        if match := re.fullmatch(pattern, problem, re.DOTALL):
            return match.expand(words)
    return problem


def either(names: list[str]) -> str:
    """Return names as a sentence has them: ``a, b or c``."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last


def bare(value: str) -> str:
    """Return a value without the quotes that a text has in messages."""
    quoted = len(value) > 1 and value[0] == value[-1] == "'"
    return value[1:-1] if quoted else value


def _expectation(problem: str, forms: _Forms) -> Expectation | None:
    for pattern, words in forms:
        if found := re.fullmatch(pattern, problem, re.DOTALL):
            return Expectation(found["value"], words(found["limit"]))
    return None


def _listed(texts: str) -> list[str]:
    return [bare(one) for one in texts.split(", ")]
