# SPDX-License-Identifier: Apache-2.0
"""The fourteen comparison operators of extra specs.

::

    =         equal or greater, as numbers      s==       equal, as texts
    ==        equal, as numbers                 s!=       not equal, as texts
    !=        not equal, as numbers             s>= s>    greater (or equal), as texts
    >=        greater or equal, as numbers      s<= s<    less (or equal), as texts
    <=        less or equal, as numbers         <in>      the word is part of the text
    <or> a <or> b   equal to one of them        <all-in>  all words are part of the text

A value without an operator is compared as a whole, as text. An operator without a value never
matches. Sources: nova's documentation of ComputeCapabilitiesFilter, and for undocumented cases the
behavior of nova 34.
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
#: The first words of a requirement that are operators.
OPERATORS = frozenset((*_NUMBERS, *_TEXTS, "<or>", "<all-in>"))


def match(value: Any, requirement: str) -> bool:
    """Return whether a host's ``value`` satisfies ``requirement``.

    Raises :class:`Invalid` if ``requirement`` is invalid, and :class:`ValueError` or
    :class:`TypeError` if the operator cannot compare ``value``.
    """
    return build_matcher(requirement)(value)


def build_matcher(requirement: str) -> Callable[[Any], bool]:
    """Return :func:`match` as a function of a value, which raises its errors."""
    first, *words = requirement.split() or [""]
    if first == "<or>":
        # Every second word is the operator again.
        return lambda value: value in _parse_alternatives(requirement, words)
    if first == "<all-in>":
        return lambda value: bool(words) and all(word in str(value) for word in words)
    if compare_numbers := _NUMBERS.get(first):
        return lambda value: (
            bool(words) and compare_numbers(float(value), _parse_number(requirement, words[0]))
        )
    if compare_texts := _TEXTS.get(first):
        return lambda value: bool(words) and compare_texts(value, words[0])
    return lambda value: bool(value == requirement)


def check(key: str, requirement: str) -> None:
    """Raise Invalid, naming the key, if no value can match ``requirement``."""
    first, *words = requirement.split() or [""]
    try:
        if first in _NUMBERS and words:
            _parse_number(requirement, words[0])
        if first == "<or>":
            _parse_alternatives(requirement, words)
    except Invalid as error:
        raise Invalid(f"extra spec {key!r}: {error.detail}") from None


def _parse_number(requirement: str, word: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise Invalid(f"{word!r} in {requirement!r} is not a number") from None


def _parse_alternatives(requirement: str, words: Sequence[str]) -> Sequence[str]:
    if not words:
        raise Invalid(f"{requirement!r} has an operator without a value")
    return words[::2]
