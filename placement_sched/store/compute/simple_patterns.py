"""Regular expressions that are quick in Python, which SQLite asks to match them.

Python's ``re`` tries every way in which an expression may match, and nothing can stop it: a
repetition in another, or alternatives that are repeated, take longer than anybody waits.
PostgreSQL and MariaDB have matchers and limits of their own.
"""

import re

from placement_sched.errors import Invalid

#: How many repetitions there may be. A text of n characters takes n steps for each place at which
#: the match may begin, and n for each repetition but the last: where ``^`` says the place, one
#: repetition more costs the same.
MOST_REPETITIONS = 1
_PART = re.compile(
    r"""
    (?P<one> [^\\\[\](){}|^$*+?]        # a character, or . for any
           | \\ (?: [^A-Za-z0-9] | [dDsSwW] )
           | \[ \^? \]? (?: [^\]\\] | \\. )* \] )
    (?P<repeated> [*+?] )?
    | [\^$\]}]
    """,
    re.VERBOSE | re.DOTALL,
)


def refuse_slow(pattern: str) -> None:
    """Raise :class:`Invalid`, with the place, for an expression that may be slow.

    What passes takes at most as many steps as a text has pairs of characters.
    """
    most = MOST_REPETITIONS + pattern.startswith("^")
    at = repetitions = 0
    while at < len(pattern):
        part = _PART.match(pattern, at)
        if part is None:
            raise _refused(f"{pattern[at]!r}", pattern, at)
        if part["repeated"]:
            repetitions += 1
            if repetitions > most:
                raise _refused(f"repetition {repetitions}", pattern, part.end() - 1)
        at = part.end()


def _refused(what: str, pattern: str, at: int) -> Invalid:
    return Invalid(
        f"{pattern!r}: {what} is not supported (at character {at + 1} of the name): the SQLite "
        "database takes only simple expressions, of characters, sets, '.', '^', '$', and one of "
        "'*', '+' and '?' after a character or set, or two if the expression begins with '^'"
    )
