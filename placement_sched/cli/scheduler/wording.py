"""Errors about JSON, in the words of the command line: which option, or which line of a file."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from placement_sched.errors import Error
from placement_sched.schemas.wording import plain_reason

#: A key of an object, or the position in a list, on the way to a value.
PathStep = str | int
#: Gives the option, or file and line, that a value came from; None if it came from neither.
#: It takes the steps to the value, and a key in it that is not known.
PlaceOf = Callable[[Sequence[PathStep], str | None], str | None]

_STEP = re.compile(r"\['(?P<quoted>[^']*)'\]|\[(?P<position>\d+)\]|(?:^|\.)(?P<plain>[^.\[$]+)")


@contextmanager
def reworded(words: Callable[[Error], str]) -> Iterator[None]:
    """Raise each error with the detail that ``words`` makes of it."""
    try:
        yield
    except Error as failure:
        failure.detail = words(failure)
        failure.args = (failure.detail,)
        raise


def in_words_of(place_of: PlaceOf) -> AbstractContextManager[None]:
    """Put errors about a document in plain words, each after the place that the value is from."""
    return reworded(lambda failure: worded(failure, place_of))


def worded(failure: Error, place_of: PlaceOf) -> str:
    """Return an error in plain words; its JSON path stays if no place is known."""
    fault = failure.fault
    if fault is None:
        return failure.detail
    is_unknown_key = fault.get("keyword") == "additionalProperties" and fault["expected"]
    place = place_of(steps_of(fault["path"]), fault["expected"][0] if is_unknown_key else None)
    reason, rest = plain_reason(fault), fault.get("rest", "")
    return f"{reason} (at {fault['path']}){rest}" if place is None else f"{place}: {reason}{rest}"


def steps_of(path: str) -> tuple[PathStep, ...]:
    """Return the steps of a JSON path: of ``$.a[1].b`` these are ``a``, 1 and ``b``."""
    return tuple(
        step["quoted"] or step["plain"] if step["position"] is None else int(step["position"])
        for step in _STEP.finditer(path)
    )


def keys_in(steps: Sequence[PathStep]) -> str:
    """Return the keys among steps as a message names them: ``add.count``."""
    return ".".join(step for step in steps if isinstance(step, str))
