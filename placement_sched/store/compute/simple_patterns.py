"""Regular expressions of names that every database matches quickly.

SQLite (Python's ``re``) and MariaDB try every way in which an expression may match, and all
databases do so for back-references; nothing can stop them. A repetition in another, or two in
which the same characters may be, take longer than anybody waits.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations, zip_longest

from placement_sched.errors import Invalid

#: The longest name, and the longest expression.
LONGEST = 255
#: How many characters may be looked at for one name, as counted below: two choices among the places
#: of the longest name, and some more. A thousand names take at most about a second.
MOST_STEPS = 3 * LONGEST**2 + 100 * LONGEST
#: Groups in groups.
_DEEPEST = 10
_PART = re.compile(
    r"""
    (?P<one> [^\\\[\](){}|^$*+?]        # a character, or . for any
           | \\ (?: [^A-Za-z0-9] | [dDsSwW] )
           | \[ \^? \]? (?: [^\]\\] | \\. )* \]
           | [\]}] )
    (?: (?P<sign> [*+?] ) | \{ (?P<least> [0-9]{1,3} ) (?P<comma> , (?P<most> [0-9]{0,3} ) )? \} )?
    | (?P<place> [\^$] )
    | (?P<opened> \( (?: \?: )? )
    | (?P<other> \| )
    | (?P<closed> \) \?? )
    """,
    re.VERBOSE | re.DOTALL,
)
_SIGNS = {None: (1, 1), "*": (0, LONGEST), "+": (1, LONGEST), "?": (0, 1)}
_ASCII = [chr(number) for number in range(128)]
#: Stands for all other characters, which need not be distinguished.
_BEYOND = "beyond"
_ANY = frozenset([*_ASCII, _BEYOND])
_START, _END = frozenset(["start"]), frozenset(["end"])


@dataclass(frozen=True, slots=True)
class _Part:
    """A character or set, how often it comes, and which characters it may be."""

    text: str
    letters: frozenset[str]
    least: int = 1
    most: int = 1

    @property
    def whole(self) -> str:
        if self.least == self.most == 1:
            return self.text
        if self.least == self.most:
            return f"{self.text}{{{self.least}}}"
        return f"{self.text}{{{self.least},{self.most if self.most < LONGEST else ''}}}"


@dataclass(frozen=True, slots=True)
class _Group:
    """Alternatives, one of which comes."""

    alternatives: "list[_Sequence]"

    @property
    def whole(self) -> str:
        return f"({_text(self.alternatives)})"


_Sequence = list[_Part | _Group]


@dataclass(frozen=True, slots=True)
class _Rest:
    """What it takes, from one place of a name, to find that the rest of an expression fails.

    ``letters`` are the characters that it may begin with, ``fixed`` those of the single characters
    at its beginning. ``run`` are the steps in repetitions that end in one way only, each after the
    other: together no more than a name has.
    """

    letters: frozenset[str] = frozenset()
    steps: int = 0
    run: int = 0
    fixed: tuple[frozenset[str], ...] = ()

    def at(self, places: int) -> int:
        """Return the steps it takes from each of some places, one beside the other.

        The fixed beginning is looked at from several places at once only as far as it is like
        itself.
        """
        length = len(self.fixed)
        alike = sum(not self.fixed[0].isdisjoint(each) for each in self.fixed)
        beginning = min(places * length, (places + length) * alike) if alike else 0
        return places * (self.steps + self.run - length) + beginning


def quick_expression(pattern: str) -> str:
    """Return an expression that parts of the same names meet, and that is quick to match.

    A repetition at either end of an expression decides nothing beyond its least, which is left.
    Raises :class:`Invalid`, with the place, for what is not a simple expression, and for one of
    which a name may need more than ``MOST_STEPS``.
    """
    alternatives = _parsed(pattern)
    for each in alternatives:
        for end in (0, -1):
            while each and isinstance(part := each[end], _Part) and part.least != part.most:
                del each[end]
                if part.least:
                    least = replace(part, most=part.least)
                    each.insert(0 if end == 0 else len(each), least)
    if sum(map(_steps, alternatives)) > MOST_STEPS:
        raise Invalid(f"{pattern!r} may take long to match: {_RULE}")
    return _text(alternatives)


_RULE = (
    "expressions of names have characters, sets, '.', '^', '$', groups of alternatives, and '*', "
    "'+', '?' or '{m,n}' after a character or set. Of repetitions that may be followed by what "
    "they repeat, there is one between other characters, or two if the expression begins with '^'"
)


def _refused(what: str, pattern: str, at: int) -> Invalid:
    return Invalid(
        f"{pattern!r}: {what} is not supported (at character {at + 1} of the name): {_RULE}"
    )


def _parsed(pattern: str) -> list[_Sequence]:
    """Return the alternatives of an expression; raises :class:`Invalid`."""
    levels: list[list[_Sequence]] = [[[]]]
    numbers = 0
    for part in _tokens(pattern):
        if part["opened"] and len(levels) <= _DEEPEST:
            levels.append([[]])
        elif part["other"]:
            levels[-1].append([])
        elif part["closed"] and len(levels) > 1:
            alternatives = levels.pop()
            # What may be left out is one alternative more.
            levels[-1][-1].append(_Group([*alternatives, *([[]] if "?" in part[0] else [])]))
        elif part["place"]:
            letters = _START if part[0] == "^" else _END
            levels[-1][-1].append(_Part(part[0], letters))
        elif part["one"]:
            numbers += max(int(part["least"] or 0), int(part["most"] or 0))
            if numbers > LONGEST:  # PostgreSQL writes out what is repeated so often
                raise _refused("so many repetitions", pattern, part.end("one"))
            levels[-1][-1].append(_repeated(part, pattern))
        else:
            raise _refused(f"{part[0]!r}", pattern, part.start())
    if len(levels) > 1:
        raise _refused("a group without end", pattern, len(pattern) - 1)
    return levels[0]


def _tokens(pattern: str) -> Iterator[re.Match[str]]:
    at = 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            raise _refused(f"{pattern[at]!r}", pattern, at)
        yield part
        at = part.end()


def _repeated(part: re.Match[str], pattern: str) -> _Part:
    text = part["one"]
    if part["least"] is None:
        least, most = _SIGNS[part["sign"]]
    else:
        least = int(part["least"])
        most = int(part["most"] or LONGEST) if part["comma"] else least
        if not least <= most <= LONGEST:
            raise _refused("this number of repetitions", pattern, part.end("one"))
    return _Part(text, _letters(text), least, most)


def _letters(text: str) -> frozenset[str]:
    """Return which characters a character or set may be, or more than that."""
    if len(text) == 1 and text != ".":
        return frozenset([text if text in _ANY else _BEYOND])
    try:
        found = re.compile(text, re.DOTALL)
    except re.error:
        return _ANY
    few = text.isascii() and re.fullmatch(r"\[[^^\\][^\\]*\]|\\\W", text)
    return frozenset([*filter(found.fullmatch, _ASCII), *([] if few else [_BEYOND])])


def _text(alternatives: list[_Sequence]) -> str:
    return "|".join("".join(part.whole for part in each) for each in alternatives)


def _steps(sequence: _Sequence) -> int:
    """Return how many steps a name takes at most that does not meet what is asked."""
    rest = _before(sequence, _Rest())
    return rest.at(1 if rest.letters == _START else LONGEST)


def _before(sequence: _Sequence, rest: _Rest) -> _Rest:
    """Return what a sequence takes together with the rest that comes after it."""
    for part in reversed(sequence):
        if isinstance(part, _Group):
            rest = _either([_before(each, rest) for each in part.alternatives])
        elif part.least == part.most:
            rest = _Rest(
                letters=part.letters if part.least else rest.letters,
                steps=rest.steps + part.least,
                run=rest.run,
                fixed=(part.letters,) * part.least + rest.fixed,
            )
        else:
            rest = _repetition(part, rest)
    return rest


def _repetition(part: _Part, rest: _Rest) -> _Rest:
    letters = part.letters if part.least else part.letters | rest.letters
    if part.letters.isdisjoint(rest.letters):
        # The rest comes nowhere but at the end of what is repeated.
        return _Rest(letters, rest.steps, min(rest.run + 2 * part.most, 2 * LONGEST))
    return _Rest(letters, part.most + rest.at(part.most - part.least + 1))


def _either(several: list[_Rest]) -> _Rest:
    letters = frozenset[str]().union(*(each.letters for each in several))
    if not _apart(several):
        # To go back to another alternative takes the time of some steps.
        return _Rest(letters, sum(4 + each.steps + each.run for each in several))
    # The first character shows which of them it is; four are asked in the time of one step.
    together = zip_longest(*(each.fixed for each in several), fillvalue=frozenset[str]())
    fixed = tuple(frozenset[str]().union(*some) for some in together)
    later = max(each.steps + each.run - len(each.fixed) for each in several)
    return _Rest(letters, len(fixed) + later + len(several) // 4, fixed=fixed)


def _apart(several: list[_Rest]) -> bool:
    return all(one.letters.isdisjoint(other.letters) for one, other in combinations(several, 2))
