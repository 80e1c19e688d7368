"""The known names that are nearest to one that is not known."""

from collections import defaultdict
from collections.abc import Iterable
from difflib import SequenceMatcher

#: How alike two names have to be, from 0 to 1.
_ALIKE = 0.6


def nearest(name: str, known: Iterable[str], most: int = 1) -> tuple[str, ...]:
    """Return at most so many of the known names, the nearest first, whatever the case."""
    matcher = SequenceMatcher(b=name.lower())

    def likeness(other: str) -> float:
        matcher.set_seq1(other)
        # Each bounds the next from above, and takes less time.
        for bound in (matcher.real_quick_ratio, matcher.quick_ratio):
            if bound() < _ALIKE:
                return 0.0
        return matcher.ratio()

    spelled: dict[str, list[str]] = defaultdict(list)
    for one in sorted(set(known)):
        spelled[one.lower()].append(one)
    found = sorted((-alike, one) for one in spelled if (alike := likeness(one)) >= _ALIKE)
    return tuple(one for _, key in found[:most] for one in spelled[key])[:most]


def did_you_mean(names: Iterable[str]) -> str:
    """Return the end of a sentence that names these, or nothing where there are none."""
    quoted = " or ".join(repr(name) for name in names)
    return f"; did you mean {quoted}?" if quoted else ""
