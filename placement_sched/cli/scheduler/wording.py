"""Errors about JSON, in the words of the command line: which option, or which line of a file.

The API says what is wrong with a document, at which JSON path and by which keyword of a schema.
Who types options, or writes a file of changes, has seen neither paths nor schemas.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from placement_sched.errors import Error

#: A key of an object, or the position in a list, on the way to a value.
PathStep = str | int
#: Gives the option, or file and line, that a value came from; None where it came from neither.
#: It takes the steps to the value, and a key in it that is not known.
PlaceOf = Callable[[Sequence[PathStep], str | None], str | None]

_INVALID = ("JSON does not validate: ", "Invalid query string parameters: ")
#: The place of an error, and the keyword of the schema, which may be cut in its middle.
_PLACE = re.compile(
    r" \(at (?P<path>\$(?:[^()\s]|\([^()]*\))*|since|until)\)"
    r"(?P<schema>\. Failed validating '\w+' in schema(?:\S| \[\.\.\.\] )*)?"
)
_STEP = re.compile(r"\['(?P<quoted>[^']*)'\]|\[(?P<position>\d+)\]|(?:^|\.)(?P<plain>[^.\[$]+)")
_UNKNOWN_KEY = re.compile(r"unknown key '([^']*)'")

_TYPES = {
    "array": "a list",
    "boolean": "true or false",
    "integer": "a whole number",
    "null": "null",
    "number": "a number",
    "object": "keys with values",
    "string": "a text",
}
#: What the checkers of schemas say, and the same in plain words.
_REASONS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (
        r"(?P<value>.*) is not of type (?P<types>'\w+'(?:, '\w+')*)",
        lambda found: f"expected {_types(found['types'])}, not {found['value']}",
    ),
    (r"(?P<key>'.*') is a required property", lambda found: f"the key {found['key']} is missing"),
    (
        r"Additional properties are not allowed \((?P<keys>.*) was unexpected\)(?P<more>.*)",
        lambda found: f"unknown key {found['keys']}{found['more']}",
    ),
    (
        r"Additional properties are not allowed \((?P<keys>.*) were unexpected\)(?P<more>.*)",
        lambda found: f"unknown keys {found['keys']}{found['more']}",
    ),
    (r"'' should be non-empty", lambda _found: "expected a text that is not empty"),
    (
        r"(?P<value>.*) should be non-empty",
        lambda found: f"expected at least one entry, not {found['value']}",
    ),
    (
        r"(?P<value>.*) has too many properties",
        lambda found: f"expected one key, not those of {found['value']}",
    ),
    (r"(?P<value>.*) is not a 'uuid'", lambda found: f"expected a UUID, not {found['value']}"),
    (
        r"(?P<value>.*) is not valid under any of the given schemas",
        lambda found: f"{found['value']} has none of the forms that are accepted here",
    ),
    (
        r"(?P<value>.*) does not match (?P<pattern>.*)",
        lambda found: f"{found['value']} is not of the form {found['pattern']}",
    ),
)


def _types(quoted: str) -> str:
    names = quoted.replace("'", "").split(", ")
    return " or ".join(_TYPES.get(name, name) for name in names)


@contextmanager
def reworded(words: Callable[[str], str]) -> Iterator[None]:
    """Raise each error with what ``words`` makes of its detail."""
    try:
        yield
    except Error as failure:
        failure.detail = words(failure.detail)
        failure.args = (failure.detail,)
        raise


def in_words_of(place_of: PlaceOf) -> AbstractContextManager[None]:
    """Put errors about a document in plain words, each after the place that the value is from."""
    return reworded(lambda detail: worded(detail, place_of))


def worded(detail: str, place_of: PlaceOf) -> str:
    """Return what an error says in plain words; its JSON path stays where no place is known."""
    found = _PLACE.search(detail)
    if found is None:
        return detail
    problem = detail[: found.start()]
    for prefix in _INVALID:
        problem = problem.removeprefix(prefix)
    reason = plain_reason(problem)
    after = detail[found.end() :]
    key = _UNKNOWN_KEY.search(reason)
    place = place_of(steps_of(found["path"]), key and key[1])
    if place is None:
        return f"{reason} (at {found['path']}){after}"
    return f"{place}: {reason}{after}"


def without_place(detail: str) -> str:
    """Return what an error says, without where."""
    return _PLACE.sub("", detail, count=1)


def plain_reason(reason: str) -> str:
    """Return what a checker of schemas says in plain words; what another says as it is."""
    for pattern, words in _REASONS:
        if found := re.fullmatch(pattern, reason, re.DOTALL):
            return words(found)
    return reason


def steps_of(path: str) -> tuple[PathStep, ...]:
    """Return the steps of a JSON path: of ``$.a[1].b`` these are ``a``, 1 and ``b``."""
    return tuple(
        step["quoted"] or step["plain"] if step["position"] is None else int(step["position"])
        for step in _STEP.finditer(path)
    )


def keys_in(steps: Sequence[PathStep]) -> str:
    """Return the keys among steps as a message names them: ``add.count``."""
    return ".".join(step for step in steps if isinstance(step, str))
