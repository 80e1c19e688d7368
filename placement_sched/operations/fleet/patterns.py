"""Names that stand for many: ``host-[001-120]`` is ``host-001`` to ``host-120``.

Within brackets are numbers and ranges of numbers, joined by commas; each number has as many digits
as the first one of its range. Several brackets stand for every combination, the last one running
fastest. A backslash takes the meaning from a bracket, a brace or a backslash.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, product

from placement_sched.model.shape import Misfit

#: The most names that one pattern may stand for.
MOST = 1_000_000

_PART = re.compile(
    r"\\(?P<plain>.)|\[(?P<ranges>[^\]]*)\]|(?P<text>[^\\\[]+)|(?P<wrong>.)", re.DOTALL
)
_RANGE = re.compile(r"(?P<first>[0-9]{1,18})(?:-(?P<last>[0-9]{1,18}))?")
_SPECIAL = re.compile(r"([\\\[\]{}])")
_DIGITS = re.compile(r"[0-9]{1,18}")
_PLACE = re.compile(r"\\.|\{(?P<name>[^}]*)\}", re.DOTALL)


def expand(pattern: str) -> list[str]:
    """Return the names that a pattern stands for; raises :class:`Misfit`."""
    parts: list[Sequence[str]] = []
    count = 1
    for found in _PART.finditer(pattern):
        if found["wrong"] is not None:
            raise Misfit(f"{pattern!r}: a backslash before a bracket takes its meaning from it")
        parts.append(_choices(found, pattern))
        count *= len(parts[-1])
        if count > MOST:
            raise Misfit(f"{pattern!r} stands for more than {MOST} names")
    return ["".join(some) for some in product(*parts)]


def _choices(found: re.Match[str], pattern: str) -> Sequence[str]:
    if found["ranges"] is None:
        return (found["plain"] or found["text"],)
    return [name for part in found["ranges"].split(",") for name in _numbers(part, pattern)]


def _numbers(part: str, pattern: str) -> Sequence[str]:
    found = _RANGE.fullmatch(part.strip())
    if found is None:
        raise Misfit(f"{pattern!r}: {part!r} is no range like 001-120; \\[ is a bracket itself")
    first, last = found["first"], found["last"] or found["first"]
    if int(last) < int(first):
        raise Misfit(f"{pattern!r}: the range {part.strip()} ends before it begins")
    if int(last) - int(first) >= MOST:
        raise Misfit(f"{pattern!r} stands for more than {MOST} names")
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]


def filled(pattern: str, names: Mapping[str, str]) -> str:
    """Return a pattern with what stands in braces replaced by the name of that kind.

    Raises :class:`Misfit` for a kind of which there is no name.
    """

    def one(found: re.Match[str]) -> str:
        if found["name"] is None:
            return found[0]
        if found["name"] not in names:
            known = " and ".join(f"{{{name}}}" for name in names)
            raise Misfit(f"{pattern!r}: only {known} are known; \\{{ is a brace itself")
        return escaped(names[found["name"]])

    return _PLACE.sub(one, pattern)


def escaped(name: str) -> str:
    """Return the pattern that stands for this one name."""
    return _SPECIAL.sub(r"\\\1", name)


def fold(names: Sequence[str]) -> list[str]:
    """Return few patterns that stand for these names, in this order."""
    return list(_folded(names))


def _folded(names: Sequence[str]) -> Iterator[str]:
    at = 0
    while at < len(names):
        run = _Run.of(names[at], names[at + 1]) if at + 1 < len(names) else None
        if run is None:
            yield escaped(names[at])
            at += 1
            continue
        length = 2
        for name in islice(names, at + 2, None):
            if name != run.name(length):
                break
            length += 1
        yield run.pattern(length)
        at += length


class _Run:
    """Names that differ in one number only, which rises by one from each to the next."""

    def __init__(self, before: str, digits: str, after: str) -> None:
        self._before, self._digits, self._after = before, digits, after

    @classmethod
    def of(cls, first: str, second: str) -> "_Run | None":
        """Return the run that begins with two names, if they begin one."""
        for found in _DIGITS.finditer(first):
            run = cls(first[: found.start()], found[0], first[found.end() :])
            if run.name(1) == second:
                return run
        return None

    def name(self, place: int) -> str:
        """Return the name at a place of the run, the first one being at 0."""
        return f"{self._before}{self._number(place)}{self._after}"

    def pattern(self, length: int) -> str:
        """Return the pattern that stands for so many names."""
        numbers = f"[{self._digits}-{self._number(length - 1)}]"
        return f"{escaped(self._before)}{numbers}{escaped(self._after)}"

    def _number(self, place: int) -> str:
        return str(int(self._digits) + place).zfill(len(self._digits))
