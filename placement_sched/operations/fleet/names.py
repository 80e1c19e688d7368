# SPDX-License-Identifier: Apache-2.0
"""Name patterns: ``host-[001-120]`` means ``host-001`` to ``host-120``.

Brackets contain numbers and ranges of numbers, separated by commas. The numbers of a range have as
many digits as its first number. Several brackets produce every combination, with the last bracket
varying fastest. A backslash escapes a bracket, a brace or a backslash.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from placement_sched.limits import MAX_PATTERN_NAMES
from placement_sched.model.document import Json
from placement_sched.schemas.formats import DocumentError

_PART = re.compile(
    r"\\(?P<plain>.)|\[(?P<ranges>[^\]]*)\]|(?P<text>[^\\\[]+)|(?P<wrong>.)", re.DOTALL
)
_RANGE = re.compile(r"(?P<first>[0-9]{1,18})(?:-(?P<last>[0-9]{1,18}))?")
_SPECIAL = re.compile(r"([\\\[\]{}])")
_LAST_NUMBER = re.compile(r"(.*?)([0-9]{1,17})([^0-9]*)", re.DOTALL)
_PLACE = re.compile(r"\\.|\{(?P<name>[^}]*)\}", re.DOTALL)
_NUMBER = re.compile(r"([0-9]+)")


def expand(pattern: str) -> list[str]:
    """Return the names of a pattern, or raise :class:`DocumentError`."""
    parts: list[Sequence[str]] = []
    for match in _PART.finditer(pattern):
        if match["wrong"] is not None:
            message = f"{pattern!r}: unterminated {match['wrong']!r}; a backslash escapes a bracket"
            raise DocumentError(message)
        if (ranges := match["ranges"]) is None:
            parts.append((match["plain"] or match["text"],))
        else:
            parts.append(
                [number for part in ranges.split(",") for number in _numbers(part, pattern)]
            )
        if prod(map(len, parts)) > MAX_PATTERN_NAMES:
            raise DocumentError(f"{pattern!r} stands for more than {MAX_PATTERN_NAMES} names")
    return ["".join(combination) for combination in product(*parts)]


def _numbers(part: str, pattern: str) -> Sequence[str]:
    match = _RANGE.fullmatch(part.strip())
    if match is None:
        message = f"{pattern!r}: {part!r} is not a range like 001-120; write \\[ for a bracket"
        raise DocumentError(message)
    first, last = match["first"], match["last"] or match["first"]
    if int(last) < int(first):
        raise DocumentError(f"{pattern!r}: the range {part.strip()} ends before it begins")
    if int(last) - int(first) >= MAX_PATTERN_NAMES:
        raise DocumentError(f"{pattern!r} stands for more than {MAX_PATTERN_NAMES} names")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]


def fill_in(pattern: str, names: Mapping[str, str]) -> str:
    """Replace the placeholders in braces, or raise :class:`DocumentError`."""

    def substitute(match: re.Match[str]) -> str:
        if match["name"] is None:
            return match[0]
        if match["name"] not in names:
            placeholders = " and ".join(f"{{{name}}}" for name in names)
            raise DocumentError(
                f"{pattern!r}: only {placeholders} are allowed; write \\{{ for a brace"
            )
        return escape(names[match["name"]])

    return _PLACE.sub(substitute, pattern)


def escape(name: str) -> str:
    """Escape a name, so that the pattern stands for this name alone."""
    return _SPECIAL.sub(r"\\\1", name)


def fold(names: Sequence[str]) -> list[str]:
    """Return patterns for names in this order, with ranges of last numbers."""
    runs: list[list[str]] = []
    for name in names:
        if runs and name == _next_name(runs[-1][-1]):
            runs[-1].append(name)
        else:
            runs.append([name])
    return [_pattern_of(run) for run in runs]


def _next_name(name: str) -> str | None:
    match = _LAST_NUMBER.fullmatch(name)
    if match is None:
        return None
    prefix, digits, suffix = match.groups()
    return f"{prefix}{str(int(digits) + 1).zfill(len(digits))}{suffix}"


def _pattern_of(run: Sequence[str]) -> str:
    match = _LAST_NUMBER.fullmatch(run[0])
    if match is None or len(run) == 1:
        return escape(run[0])
    prefix, first, suffix = match.groups()
    last = run[-1][len(prefix) : len(run[-1]) - len(suffix)]
    return f"{escape(prefix)}[{first}-{last}]{escape(suffix)}"


def patterns_for(names: Sequence[str]) -> str | list[str]:
    """Return patterns for names, or a single name if all are equal."""
    patterns = fold(names[:1] if len(set(names)) == 1 else names)
    return patterns[0] if len(patterns) == 1 else patterns


def natural_key(name: str) -> tuple[Any, ...]:
    """Return a sort key that puts ``cn2`` before ``cn10``, unique for each name."""
    # Every second part is a number.
    parts = enumerate(_NUMBER.split(name))
    return tuple(int(part) if index % 2 else part for index, part in parts), name


def expand_entries(entry: Json, key: str, count: int) -> Sequence[Any]:
    """Return ``count`` values of a key, or None for each without the key.

    A single value is repeated. Raises :class:`DocumentError` for another number of values.
    """
    values = [None] if entry.get(key) is None else entry[key]
    if len(values) not in {1, count}:
        message = f"the pattern expands to {len(values)} values, {count} expected"
        raise DocumentError(message, key)
    return list(values) * (count // len(values))
