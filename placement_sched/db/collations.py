# SPDX-License-Identifier: Apache-2.0
"""Collations and character sets of the database's text columns.

MariaDB and MySQL reject comparisons of texts in two collations, and the tables of OpenStack
placement and of this service may differ in their collations. Joins of allocations with consumers,
and of this service's own tables, need no conversion. Any other comparison or union of texts uses
:func:`is_same_uuid` or :func:`convert_to_unicode`, which accept any collations.
"""

import codecs
from contextlib import suppress
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, text
from sqlalchemy.ext.compiler import compiles

from placement_sched.errors import Unavailable

#: Replacement for a character that cannot be stored.
PLACEHOLDER = "?"
_MARIADB_CHARACTER_SETS = text(
    "SELECT character_set_name, @@character_set_client FROM information_schema.columns WHERE "
    "table_schema = DATABASE() AND table_name = 'sched_instances' AND column_name = 'display_name'"
)
#: Python's names of character sets of MariaDB and PostgreSQL, if they differ.
_CODECS = {"latin1": "cp1252", "sql_ascii": "ascii"}
_COLLATION = text(
    "SELECT collation_name FROM information_schema.columns WHERE table_schema = DATABASE() "
    "AND (table_name = 'sched_compute_nodes' AND column_name = 'uuid' "
    "OR table_name = 'allocations' AND column_name = 'consumer_id') "
    "ORDER BY table_name DESC LIMIT 1"
)


#: The columns of joins without a conversion, and a column of another table.
_JOINED = text(
    "SELECT table_name, character_set_name, collation_name FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND (table_name, column_name) IN "
    "(('allocations', 'consumer_id'), ('consumers', 'uuid'), ('resource_providers', 'uuid'))"
)


def find_own_collation(connection: Connection) -> str | None:
    """Return the collation of existing tables for new tables, or None."""
    if connection.dialect.name not in {"mysql", "mariadb"}:
        return None
    collation: str | None = connection.scalar(_COLLATION)
    return collation


def check_collations(connection: Connection) -> None:
    """Raise Unavailable for tables that MariaDB and MySQL cannot join."""
    if connection.dialect.name not in {"mysql", "mariadb"}:
        return
    collations = {str(row[0]): (str(row[1]), str(row[2])) for row in connection.execute(_JOINED)}
    allocations, consumers = collations.get("allocations"), collations.get("consumers")
    if allocations is None or consumers is None or allocations == consumers:
        return
    # The other tables mostly show which of the two has been changed.
    is_changed = consumers == collations.get("resource_providers")
    name, (character_set, collation) = (
        ("allocations", consumers) if is_changed else ("consumers", allocations)
    )
    raise Unavailable(
        f"the collations of allocations ({allocations[1]}) and consumers ({consumers[1]}) differ, "
        "so that the database cannot join the tables. Nothing was changed. Back up the database, "
        f"stop all placement services and run: ALTER TABLE {name} CONVERT TO CHARACTER SET "
        f"{character_set} COLLATE {collation}"
    )


class _InCharacterSet(sa.sql.functions.FunctionElement[str]):
    inherit_cache = True
    type = sa.String()
    character_set = "utf8mb4"


class _InAscii(_InCharacterSet):
    inherit_cache = True
    character_set = "ascii"


@compiles(_InCharacterSet)
def _keep_text(element: _InCharacterSet, compiler: Any, **options: Any) -> str:
    return str(compiler.process(*element.clauses, **options))


@compiles(_InCharacterSet, "mysql", "mariadb")
def _convert_text(element: _InCharacterSet, compiler: Any, **options: Any) -> str:
    return f"CONVERT({_keep_text(element, compiler, **options)} USING {element.character_set})"


def is_same_uuid(column: ColumnElement[str], other: ColumnElement[str]) -> ColumnElement[bool]:
    """Build the condition that uuids of two tables are equal.

    The collations may differ: ``other`` is converted to ASCII, which MariaDB and MySQL compare in
    the collation of ``column``. They can then use the index of ``column``, but not the index of
    ``other``.
    """
    return column == _InAscii(other)


def convert_to_unicode(column: ColumnElement[str]) -> ColumnElement[str]:
    """Convert a text column to Unicode for a union of tables in any collation."""
    return _InCharacterSet(column)


class Characters(NamedTuple):
    """The characters that a database can store.

    ``codec`` is Python's name of the character set, empty if it has all characters. ``largest`` is
    the last character that can be stored.
    """

    codec: str = ""
    largest: str = "\U0010ffff"
    has_nul: bool = True

    @classmethod
    def read_from(cls, connection: Connection) -> "Characters":
        """Read the character set of a database with a single SQL statement."""
        kind = connection.dialect.name
        if kind == "sqlite":
            return cls()
        if kind == "postgresql":
            return cls(_find_codec(connection.scalar(text("SHOW server_encoding"))), has_nul=False)
        names = connection.execute(_MARIADB_CHARACTER_SETS).first() or ("utf8mb4", "utf8mb4")
        for name in names:
            if name != "utf8mb4":
                is_utf8 = name in {"utf8", "utf8mb3"}
                return cls(largest="\uffff") if is_utf8 else cls(_find_codec(name))
        return cls()

    def find_unstorable(self, value: str | None) -> str | None:
        """Return the first character that the database cannot store, or None."""
        if value is None or (value.isascii() and (self.has_nul or "\0" not in value)):
            return None
        return next((letter for letter in value if not self._has(letter)), None)

    def replace_unstorable(self, value: str) -> str:
        """Replace each character that cannot be stored with a placeholder."""
        if self.find_unstorable(value) is None:
            return value
        return "".join(letter if self._has(letter) else PLACEHOLDER for letter in value)

    def _has(self, letter: str) -> bool:
        if letter > self.largest or (letter == "\0" and not self.has_nul):
            return False
        with suppress(UnicodeEncodeError):
            return not self.codec or bool(letter.encode(self.codec))
        return False


def _find_codec(name: str) -> str:
    """Return Python's codec of a character set, or "" for UTF-8 or unknown."""
    name = _CODECS.get(name.lower(), name)
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        return ""
    return "" if codec == "utf-8" else codec
