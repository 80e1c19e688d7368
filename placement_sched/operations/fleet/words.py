"""How names and values are written in a fleet file."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from placement_sched.operations.fleet.patterns import fold

_PARTS = re.compile(r"[0-9]+|[^0-9]+")
#: A whole number that is written without quotes, and read as the text of its digits again.
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")

#: So many patterns fit on a line that a person reads.
_SHOWN = 10


def short(text: str) -> str | int:
    """Return a text as it is written: digits without quotes."""
    return int(text) if _WHOLE.fullmatch(text) else text


def few(names: Sequence[str]) -> str | list[str]:
    """Return patterns for these names, in this order: one alone, or a list of them."""
    patterns = fold(names)
    return patterns[0] if len(patterns) == 1 else patterns


def natural(names: Iterable[str]) -> list[str]:
    """Return names in the order in which people count them."""
    return sorted(names, key=natural_key)


def natural_key(name: str) -> tuple[Any, ...]:
    """Return what puts ``cn2`` before ``cn10``, and no two names at one place."""
    parts = (
        (int(part), "") if "0" <= part[0] <= "9" else (-1, part) for part in _PARTS.findall(name)
    )
    return tuple(parts), name


def fold_words(names: Sequence[str]) -> str:
    """Return patterns for these names in one line; of very many patterns the first ones."""
    patterns = fold(names)
    more = f" and {len(patterns) - _SHOWN} more" if len(patterns) > _SHOWN else ""
    return ", ".join(patterns[:_SHOWN]) + more
