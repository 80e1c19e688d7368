"""Collations and character sets: which texts a database can compare, and which it can store.

MariaDB and MySQL refuse to compare texts of two collations.

OpenStack placement compares texts of two tables only to join allocations with consumers. This
service joins its own tables with each other. All other texts of two tables are compared by
:func:`is_same_uuid`, or united by :func:`in_unicode`, in whichever collations they are.
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

#: Shown in place of a character that cannot be stored.
PLACEHOLDER = "?"
_OF_MARIADB = text(
    "SELECT character_set_name, @@character_set_client FROM information_schema.columns WHERE "
    "table_schema = DATABASE() AND table_name = 'sched_instances' AND column_name = 'display_name'"
)
#: The names that Python has for the character sets of MariaDB and PostgreSQL, if it has others.
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
    #: The statement that converts the table.
    fix: str
    #: Whether the database refuses to join the table with others.
    is_refused: bool


def collation_for_own_tables(connection: Connection) -> str | None:
    """Return the collation in which a table of this service must be created.

    That of the own tables if there are any, else that of OpenStack placement's tables. None for
    other databases than MariaDB and MySQL, and for a database without such tables.
    """
    found = _collations(connection)
    return found.get(compute_nodes.name) or _most_frequent(found, PLACEMENT_TABLES)


def find_mismatches(connection: Connection) -> tuple[CollationMismatch, ...]:
    """Return the tables in another collation than most tables of the same service, by name."""
    found = _collations(connection)
    joined = {found.get(table.name) for table in (allocations, consumers)}
    mismatches = []
    for tables in (PLACEMENT_TABLES, OWN_TABLES):
        usual = _most_frequent(found, tables)
        for table in tables:
            collation = found.get(table.name)
            if usual is None or collation is None or collation == usual:
                continue
            if tables is OWN_TABLES:
                is_refused = _conflict({collation, usual})
            else:
                is_refused = table in {allocations, consumers} and _conflict(joined)
            mismatches.append(
                CollationMismatch(table.name, collation, conversion_of(table, usual), is_refused)
            )
    return tuple(sorted(mismatches, key=lambda mismatch: mismatch.table))


def describe_mismatches(mismatches: Iterable[CollationMismatch]) -> str:
    """Return the sentences that name the tables and the statements that convert them."""
    found = tuple(mismatches)
    names = ", ".join(f"{mismatch.table} ({mismatch.collation})" for mismatch in found)
    fixes = " ".join(f"{mismatch.fix};" for mismatch in found)
    return f"These tables have another collation than the others: {names}. Run {fixes}"


def _collations(connection: Connection) -> dict[str, str]:
    """Return by table the collation of its texts, but not of columns with a fixed collation."""
    if connection.dialect.name not in {"mysql", "mariadb"}:
        return {}
    columns = {
        (str(table), str(column)): str(collation)
        for table, column, collation in connection.execute(_COLLATIONS).all()
    }
    found = {}
    for table in (*PLACEMENT_TABLES, *OWN_TABLES):
        texts = (columns.get((table.name, column.name)) for column in texts_of(table))
        if collations := Counter(filter(None, texts)):
            found[table.name] = collations.most_common(1)[0][0]
    return found


def texts_of(table: Table) -> list[sa.Column[str]]:
    """Return the columns that have the collation of their table."""
    types = ((column, column.type.dialect_impl(_DIALECT)) for column in table.columns)
    return [
        column
        for column, kind in types
        if isinstance(kind, sa.String) and getattr(kind, "collation", None) is None
    ]


def _most_frequent(found: Mapping[str, str], tables: Iterable[Table]) -> str | None:
    counts = Counter(found[table.name] for table in tables if table.name in found)
    return counts.most_common(1)[0][0] if counts else None


def _conflict(collations: set[str | None]) -> bool:
    """Return whether the database refuses to compare columns of these two collations.

    In one character set it prefers a binary collation. It converts the texts of one set to another
    that has all its characters: utf8mb4 those of utf8mb3, a set of Unicode those of any other kind,
    and every set those of ASCII.
    """
    known = sorted(filter(None, collations))
    sets = {_character_set(collation) for collation in known}
    if len(sets) == 1:
        return len(known) > 1 and not any(name.endswith("_bin") for name in known)
    if sets <= _UTF8 or "ascii" in sets:
        return False
    return len(sets & _UNICODE) != 1


def _character_set(collation: str) -> str:
    return collation.partition("_")[0]


def conversion_of(table: Table, collation: str) -> str:
    """Return the statement that converts the texts of a table to a collation."""
    wanted = f"CHARACTER SET {_character_set(collation)} COLLATE {collation}"
    if table in PLACEMENT_TABLES:
        return f"ALTER TABLE {table.name} CONVERT TO {wanted}"
    # CONVERT would make the columns that are compared exactly ignore case.
    changes = []
    for column in texts_of(table):
        kind = column.type.compile(_DIALECT)
        definition = str(CreateColumn(column).compile(dialect=_DIALECT))
        changes.append(f"MODIFY {definition.replace(kind, f'{kind} {wanted}', 1)}")
    return f"ALTER TABLE {table.name} {', '.join(changes)}"


class _InCharacterSet(sa.sql.functions.FunctionElement[str]):
    """A text that MariaDB and MySQL convert to a character set, elsewhere the text itself."""

    inherit_cache = True
    type = sa.String()

    @property
    def character_set(self) -> str:
        """Return the name of the character set."""
        raise NotImplementedError


class _InAscii(_InCharacterSet):
    inherit_cache = True
    character_set = "ascii"


class _InUnicode(_InCharacterSet):
    inherit_cache = True
    character_set = "utf8mb4"


@compiles(_InCharacterSet)
def _leave(element: _InCharacterSet, compiler: Any, **options: Any) -> str:
    return str(compiler.process(*element.clauses, **options))


@compiles(_InCharacterSet, "mysql", "mariadb")
def _convert(element: _InCharacterSet, compiler: Any, **options: Any) -> str:
    return f"CONVERT({_leave(element, compiler, **options)} USING {element.character_set})"


def is_same_uuid(column: ColumnElement[str], other: ColumnElement[str]) -> ColumnElement[bool]:
    """Return whether the uuids of two tables are equal, in whichever collations they are.

    MariaDB and MySQL find the row of ``column`` by its index, never that of ``other``: they compare
    a text of ASCII in the collation of the column, but refuse two columns of different collations.
    """
    return column == _InAscii(other)


def in_unicode(column: ColumnElement[str]) -> ColumnElement[str]:
    """Return a text for a union with the texts of other tables, in whichever collations they are.

    MariaDB and MySQL refuse a union of columns of different collations.
    """
    return _InUnicode(column)


class Characters(NamedTuple):
    """The characters that texts of a database may have.

    ``codec`` is Python's name of the character set, empty if it has all characters; ``largest`` is
    its last character.
    """

    codec: str = ""
    largest: str = "\U0010ffff"
    has_nul: bool = True

    @classmethod
    def of(cls, connection: Connection) -> "Characters":
        """Read the character set of a database with one statement."""
        kind = connection.dialect.name
        if kind == "sqlite":
            return cls()
        if kind == "postgresql":
            return cls(_codec_of(connection.scalar(text("SHOW server_encoding"))), has_nul=False)
        found = connection.execute(_OF_MARIADB).first() or ("utf8mb4", "utf8mb4")
        for name in found:
            if name != "utf8mb4":
                is_utf8 = name in {"utf8", "utf8mb3"}
                return cls(largest="\uffff") if is_utf8 else cls(_codec_of(name))
        return cls()

    def missing(self, written: str | None) -> str | None:
        """Return the first character of a text that cannot be stored; None if all can."""
        if written is None or (written.isascii() and (self.has_nul or "\0" not in written)):
            return None
        return next((letter for letter in written if not self._has(letter)), None)

    def lacking(self, texts: Mapping[str, str | None]) -> tuple[str, str] | None:
        """Return the name of the first text that cannot be stored, and the character."""
        for name, written in texts.items():
            if (letter := self.missing(written)) is not None:
                return name, letter
        return None

    def shown(self, written: str) -> str:
        """Return a text with a placeholder for each character that cannot be stored."""
        if self.missing(written) is None:
            return written
        return "".join(letter if self._has(letter) else PLACEHOLDER for letter in written)

    def _has(self, letter: str) -> bool:
        if letter > self.largest or (letter == "\0" and not self.has_nul):
            return False
        with suppress(UnicodeEncodeError):
            return not self.codec or bool(letter.encode(self.codec))
        return False


def _codec_of(name: str) -> str:
    """Return Python's codec of a character set; empty if it is UTF-8, or unknown to Python."""
    name = _CODECS.get(name.lower(), name)
    try:
        codec = codecs.lookup(name).name
    except LookupError:
        return ""
    return "" if codec == "utf-8" else codec
