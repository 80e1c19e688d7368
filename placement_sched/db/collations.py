# SPDX-License-Identifier: Apache-2.0
"""Collations and character sets of the database's text columns.

MariaDB and MySQL reject comparisons of texts in two collations. OpenStack placement compares texts
of two tables only to join allocations with consumers. This service joins its own tables with each
other. Any other comparison or union of two tables' texts uses :func:`is_same_uuid` or
:func:`in_unicode`, which accept any collations.
"""

import codecs
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Table, text
from sqlalchemy.dialects import mysql
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.schema import CreateColumn

from placement_sched.db.tables import (
    OWN_TABLES,
    PLACEMENT_TABLES,
    allocations,
    compute_nodes,
    consumers,
)

#: Replacement for a character that cannot be stored.
PLACEHOLDER = "?"
_MARIADB_CHARACTER_SETS = text(
    "SELECT character_set_name, @@character_set_client FROM information_schema.columns WHERE "
    "table_schema = DATABASE() AND table_name = 'sched_instances' AND column_name = 'display_name'"
)
#: Python's names of character sets of MariaDB and PostgreSQL, if they differ.
_CODECS = {"latin1": "cp1252", "sql_ascii": "ascii"}
_DIALECT = mysql.dialect()
_UTF8 = frozenset({"utf8", "utf8mb3", "utf8mb4"})
_UNICODE = _UTF8 | {"ucs2", "utf16", "utf16le", "utf32"}
_COLLATIONS = text(
    "SELECT table_name, column_name, collation_name FROM information_schema.columns "
    "WHERE table_schema = DATABASE() AND collation_name IS NOT NULL"
)


@dataclass(frozen=True, slots=True)
class CollationMismatch:
    """A table in another collation than the tables of the same service."""

    table: str
    collation: str
    #: The SQL statement that converts the table.
    fix: str
    #: Whether the database rejects joins of the table with others.
    is_rejected: bool


def collation_for_own_tables(connection: Connection) -> str | None:
    """Return the collation to create this service's tables with.

    It is the collation of existing tables of this service, else of OpenStack placement's tables.
    Returns None without such tables, and on databases other than MariaDB and MySQL.
    """
    collations = _collations(connection)
    return collations.get(compute_nodes.name) or _most_frequent(collations, PLACEMENT_TABLES)


def find_mismatches(connection: Connection) -> tuple[CollationMismatch, ...]:
    """Return the tables whose collation differs from most of their service's, by name."""
    collations = _collations(connection)
    joined = {collations.get(table.name) for table in (allocations, consumers)}
    mismatches = []
    for tables in (PLACEMENT_TABLES, OWN_TABLES):
        usual = _most_frequent(collations, tables)
        for table in tables:
            collation = collations.get(table.name)
            if usual is None or collation is None or collation == usual:
                continue
            if tables is OWN_TABLES:
                is_rejected = _conflict({collation, usual})
            else:
                is_rejected = table in {allocations, consumers} and _conflict(joined)
            mismatches.append(
                CollationMismatch(table.name, collation, conversion_of(table, usual), is_rejected)
            )
    return tuple(sorted(mismatches, key=lambda mismatch: mismatch.table))


def describe_mismatches(mismatches: Iterable[CollationMismatch]) -> str:
    """Return a message with the tables and the statements that convert them."""
    tables = tuple(mismatches)
    names = ", ".join(f"{mismatch.table} ({mismatch.collation})" for mismatch in tables)
    fixes = " ".join(f"{mismatch.fix};" for mismatch in tables)
    return f"These tables have another collation than the others: {names}. Run {fixes}"


def _collations(connection: Connection) -> dict[str, str]:
    """Return the collation of each table, ignoring columns with a fixed collation."""
    if connection.dialect.name not in {"mysql", "mariadb"}:
        return {}
    columns = {
        (str(table), str(column)): str(collation)
        for table, column, collation in connection.execute(_COLLATIONS).all()
    }
    by_table = {}
    for table in (*PLACEMENT_TABLES, *OWN_TABLES):
        texts = (columns.get((table.name, column.name)) for column in texts_of(table))
        if collations := Counter(filter(None, texts)):
            by_table[table.name] = collations.most_common(1)[0][0]
    return by_table


def texts_of(table: Table) -> list[sa.Column[str]]:
    """Return the text columns that use the collation of their table."""
    types = ((column, column.type.dialect_impl(_DIALECT)) for column in table.columns)
    return [
        column
        for column, kind in types
        if isinstance(kind, sa.String) and getattr(kind, "collation", None) is None
    ]


def _most_frequent(collations: Mapping[str, str], tables: Iterable[Table]) -> str | None:
    counts = Counter(collations[table.name] for table in tables if table.name in collations)
    return counts.most_common(1)[0][0] if counts else None


def _conflict(collations: set[str | None]) -> bool:
    """Return whether the database rejects comparisons of columns in these two collations.

    Within a character set the database prefers a binary collation. It converts texts to a character
    set that has all their characters: utf8mb3 to utf8mb4, anything to a Unicode set, and ASCII to
    any set.
    """
    names = sorted(filter(None, collations))
    sets = {_character_set(collation) for collation in names}
    if len(sets) == 1:
        return len(names) > 1 and not any(name.endswith("_bin") for name in names)
    if sets <= _UTF8 or "ascii" in sets:
        return False
    return len(sets & _UNICODE) != 1


def _character_set(collation: str) -> str:
    return collation.partition("_")[0]


def conversion_of(table: Table, collation: str) -> str:
    """Return the SQL statement that converts the texts of a table to a collation."""
    target = f"CHARACTER SET {_character_set(collation)} COLLATE {collation}"
    if table in PLACEMENT_TABLES:
        return f"ALTER TABLE {table.name} CONVERT TO {target}"
    # CONVERT would make the case-sensitive columns ignore case.
    changes = []
    for column in texts_of(table):
        kind = column.type.compile(_DIALECT)
        definition = str(CreateColumn(column).compile(dialect=_DIALECT))
        changes.append(f"MODIFY {definition.replace(kind, f'{kind} {target}', 1)}")
    return f"ALTER TABLE {table.name} {', '.join(changes)}"


class _InCharacterSet(sa.sql.functions.FunctionElement[str]):
    """A text that MariaDB and MySQL convert to a character set."""

    inherit_cache = True
    type = sa.String()

    @property
    def character_set(self) -> str:

        raise NotImplementedError


class _InAscii(_InCharacterSet):
    inherit_cache = True
    character_set = "ascii"


class _InUnicode(_InCharacterSet):
    inherit_cache = True
    character_set = "utf8mb4"


@compiles(_InCharacterSet)
def _keep_text(element: _InCharacterSet, compiler: Any, **options: Any) -> str:
    return str(compiler.process(*element.clauses, **options))


@compiles(_InCharacterSet, "mysql", "mariadb")
def _convert_text(element: _InCharacterSet, compiler: Any, **options: Any) -> str:
    return f"CONVERT({_keep_text(element, compiler, **options)} USING {element.character_set})"


def is_same_uuid(column: ColumnElement[str], other: ColumnElement[str]) -> ColumnElement[bool]:
    """Return the condition that uuids of two tables are equal.

    The collations may differ. MariaDB and MySQL compare an ASCII text in the collation of
    ``column``, but reject two columns of different collations. They can use the index of
    ``column``, but not the index of ``other``.
    """
    return column == _InAscii(other)


def in_unicode(column: ColumnElement[str]) -> ColumnElement[str]:
    """Convert a text column for a union with other tables, in any collations.

    MariaDB and MySQL reject a union of columns of different collations.
    """
    return _InUnicode(column)


class Characters(NamedTuple):
    """The characters that a database can store.

    ``codec`` is Python's name of the character set, empty if it has all characters. ``largest`` is
    the last character that can be stored.
    """

    codec: str = ""
    largest: str = "\U0010ffff"
    has_nul: bool = True

    @classmethod
    def of(cls, connection: Connection) -> "Characters":
        """Read the character set of a database with a single SQL statement."""
        kind = connection.dialect.name
        if kind == "sqlite":
            return cls()
        if kind == "postgresql":
            return cls(_codec_of(connection.scalar(text("SHOW server_encoding"))), has_nul=False)
        names = connection.execute(_MARIADB_CHARACTER_SETS).first() or ("utf8mb4", "utf8mb4")
        for name in names:
            if name != "utf8mb4":
                is_utf8 = name in {"utf8", "utf8mb3"}
                return cls(largest="\uffff") if is_utf8 else cls(_codec_of(name))
        return cls()

    def missing(self, value: str | None) -> str | None:
        """Return the first character of a text that cannot be stored, or None."""
        if value is None or (value.isascii() and (self.has_nul or "\0" not in value)):
            return None
        return next((letter for letter in value if not self._has(letter)), None)

    def lacking(self, texts: Mapping[str, str | None]) -> tuple[str, str] | None:
        """Return the key of the first text that cannot be stored, and the character."""
        for name, value in texts.items():
            if (letter := self.missing(value)) is not None:
                return name, letter
        return None

    def shown(self, value: str) -> str:
        """Replace each character that cannot be stored with a placeholder."""
        if self.missing(value) is None:
            return value
        return "".join(letter if self._has(letter) else PLACEHOLDER for letter in value)

    def _has(self, letter: str) -> bool:
        if letter > self.largest or (letter == "\0" and not self.has_nul):
            return False
        with suppress(UnicodeEncodeError):
            return not self.codec or bool(letter.encode(self.codec))
        return False


def _codec_of(name: str) -> str:
    """Return Python's codec of a character set, empty for UTF-8 and unknown sets."""
    name = _CODECS.get(name.lower(), name)
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        return ""
    return "" if codec == "utf-8" else codec
