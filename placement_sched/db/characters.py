"""Characters that a database cannot keep: MariaDB's older ``utf8`` ends at U+FFFF.

Databases of OpenStack placement's are often of that character set.
"""

from collections.abc import Iterable, Iterator, Mapping

from sqlalchemy.exc import DBAPIError

# What a database says of a character that it cannot keep, or not compare with what it keeps.
_UNKEPT_SQLSTATES = {"22P05"}  # PostgreSQL: untranslatable character
_UNKEPT_MYSQL = {1267, 1366, 3854, 3988}  # mix of collations, string value; MySQL: conversion
_LAST_OF_UTF8MB3 = "\uffff"


def unkept(failure: DBAPIError, code: object) -> str | None:
    """Return a sentence where ``failure`` is about a character that the database cannot keep.

    ``code`` is what the driver says. None where it is about something else.
    """
    if code in _UNKEPT_SQLSTATES:
        return "a text has a character that the database cannot keep in its character set"
    if code not in _UNKEPT_MYSQL:
        return None
    # The same numbers tell of other faults, too, which are not the caller's.
    beyond = (letter for text in _texts(failure.params) for letter in text)
    found = next((letter for letter in beyond if letter > _LAST_OF_UTF8MB3), None)
    if found is None:
        return None
    return _sentence(found, "its character set is not utf8mb4")


def unsent(failure: UnicodeEncodeError) -> str:
    """Return a sentence about a character that psycopg cannot write as the database reads."""
    return _sentence(failure.object[failure.start], f"its encoding is {failure.encoding}")


def _sentence(letter: str, reason: str) -> str:
    return f"the database cannot keep the character {letter} (U+{ord(letter):X}): {reason}"


def _texts(params: object) -> Iterator[str]:
    """Yield every text among the parameters of a statement, or of many."""
    if isinstance(params, str):
        yield params
    elif isinstance(params, Mapping):
        yield from _texts(list(params.values()))
    elif isinstance(params, Iterable) and not isinstance(params, bytes):
        for one in params:
            yield from _texts(one)
