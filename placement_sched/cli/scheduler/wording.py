"""Errors about JSON, in the words of the command line: which option, or which line of a file.

The API says what is wrong with a document, at which JSON path and by which keyword of a schema.
Who types options, or writes a file of changes, has seen neither paths nor schemas.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from placement_sched.errors import Error
from placement_sched.schemas.errors import plain_reason, taken_apart

#: A key of an object, or the position in a list, on the way to a value.
PathStep = str | int
#: Gives the option, or file and line, that a value came from; None where it came from neither.
#: It takes the steps to the value, and a key in it that is not known.
PlaceOf = Callable[[Sequence[PathStep], str | None], str | None]

_STEP = re.compile(r"\['(?P<quoted>[^']*)'\]|\[(?P<position>\d+)\]|(?:^|\.)(?P<plain>[^.\[$]+)")
_UNKNOWN_KEY = re.compile(r"unknown key '([^']*)'")


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
    found = taken_apart(detail)
    if found is None:
        return detail
    reason = plain_reason(found.problem)
    key = _UNKNOWN_KEY.search(reason)
    place = place_of(steps_of(found.path), key and key[1])
    if place is None:
        return f"{reason} (at {found.path}){found.rest}"
    return f"{place}: {reason}{found.rest}"


def steps_of(path: str) -> tuple[PathStep, ...]:
    """Return the steps of a JSON path: of ``$.a[1].b`` these are ``a``, 1 and ``b``."""
    return tuple(
        step["quoted"] or step["plain"] if step["position"] is None else int(step["position"])
        for step in _STEP.finditer(path)
    )


def keys_in(steps: Sequence[PathStep]) -> str:
    """Return the keys among steps as a message names them: ``add.count``."""
    return ".".join(step for step in steps if isinstance(step, str))
