"""The fourteen operators that an extra spec's value may begin with.

::

    =         equal or greater, as numbers      s==       equal, as texts
    ==        equal, as numbers                 s!=       not equal, as texts
    !=        not equal, as numbers             s>= s>    greater (or equal), as texts
    >=        greater or equal, as numbers      s<= s<    less (or equal), as texts
    <=        less or equal, as numbers         <in>      the word is part of the text
    <or> a <or> b   equal to one of them        <all-in>  all words are part of the text

A value that begins with none of them is compared as a whole, as text. An operator with nothing
after it never matches. Source: nova's documentation of ComputeCapabilitiesFilter, and nova 34
observed for what it leaves open.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from placement_sched.errors import Invalid

_Compare = Callable[[Any, Any], bool]

_NUMBERS: Mapping[str, _Compare] = MappingProxyType(
    {"=": operator.ge, "==": operator.eq, "!=": operator.ne, ">=": operator.ge, "<=": operator.le}
)
_TEXTS: Mapping[str, _Compare] = MappingProxyType(
    {
        "s==": operator.eq,
        "s!=": operator.ne,
        "s>=": operator.ge,
        "s>": operator.gt,
        "s<=": operator.le,
        "s<": operator.lt,
        "<in>": operator.contains,
    }
)


def match(value: Any, wanted: str) -> bool:
    """Return whether a host's ``value`` is as the extra spec's value ``wanted`` asks.

    Raises :class:`Invalid` where ``wanted`` makes no sense, and :class:`ValueError` or
    :class:`TypeError` where ``value`` is not of the kind the operator compares.
    """
    return matcher(wanted)(value)


def matcher(wanted: str) -> Callable[[Any], bool]:
    """Return what :func:`match` is for one ``wanted``, of which nothing is read again for a value.

    It raises what :func:`match` raises, and only when it is called.
    """
    first, *words = wanted.split() or [""]
    if first == "<or>":
        # Every other word is an operator again.
        return lambda value: value in _alternatives(wanted, words)
    if first == "<all-in>":
        return lambda value: bool(words) and all(word in str(value) for word in words)
    if number := _NUMBERS.get(first):
        return lambda value: bool(words) and number(float(value), _number(wanted, words[0]))
    if text := _TEXTS.get(first):
        return lambda value: bool(words) and text(value, words[0])
    return lambda value: bool(value == wanted)


def check(key: str, wanted: str) -> None:
    """Raise :class:`Invalid`, naming the extra spec, where no host could match ``wanted``."""
    first, *words = wanted.split() or [""]
    try:
        if first in _NUMBERS and words:
            _number(wanted, words[0])
        if first == "<or>":
            _alternatives(wanted, words)
    except Invalid as wrong:
        raise Invalid(f"extra spec {key!r}: {wrong.detail}") from None


def _number(wanted: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise Invalid(f"{word!r} in {wanted!r} is not a number") from None


def _alternatives(wanted: str, words: Sequence[str]) -> Sequence[str]:
    if not words:
        raise Invalid(f"{wanted!r} has an operator but no value")
    return words[::2]
