"""Types, columns and keys that several tables have."""

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, String, Table, UniqueConstraint
from sqlalchemy.dialects import mysql
from sqlalchemy.schema import SchemaItem

#: All tables of ``db/tables.py``.
metadata = sa.MetaData()

#: A JSON document, or a text, of any size.
LongText = sa.Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
#: As :data:`LongText`; comparisons are case-sensitive on MariaDB too.
ExactLongText = sa.Text().with_variant(
    mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)

#: A time with its microseconds.
Moment = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")


def exact(length: int) -> String:
    """Return a text type of ``length`` whose comparisons are case-sensitive on MariaDB too."""
    return String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def texts(*names: str, length: int = 255, nullable: bool = False) -> tuple[Column[str], ...]:
    """Return columns of texts that are compared exactly."""
    return tuple(Column(name, exact(length), nullable=nullable) for name in names)


def integers(*names: str, default: str | None = None) -> tuple[Column[int], ...]:
    """Return integer columns that are never null."""
    return tuple(Column(name, Integer, nullable=False, server_default=default) for name in names)


def indexes(table: str, *columns: str, then: str | None = None) -> tuple[Index, ...]:
    """Return indexes of ``table``, one for each column (followed by another) and named for it."""
    return tuple(Index(f"{table}_{one}_idx", *filter(None, (one, then))) for one in columns)


def stamps() -> tuple[Column[datetime], Column[datetime]]:
    """Return the columns for when a row was made and last changed."""
    return Column("created_at", sa.DateTime), Column("updated_at", sa.DateTime)


def pair_of(owner: str, table: str, key: str) -> tuple[Column[int], Column[str]]:
    """Return the primary key of what a row of ``table`` has many of: its number, and a text."""
    number = Column(owner, Integer, ForeignKey(f"{table}.id"), primary_key=True)
    return number, Column(key, exact(255), primary_key=True)


def new_table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Return a table of this service's :data:`metadata`."""
    return Table(name, metadata, *items, mysql_engine="InnoDB", **options)


def numbered(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Return a table with the two stamps and a numeric primary key before its other columns."""
    key = Column("id", Integer, primary_key=True, nullable=False)
    return new_table(name, *stamps(), key, *items, **options)


def with_uuid(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Return a numbered table whose first other column is a unique ``uuid``."""
    unique = UniqueConstraint("uuid", name=f"uniq_{name}0uuid")
    return numbered(name, Column("uuid", String(36), nullable=False), *items, unique, **options)


def distinct_texts(name: str, column: str) -> Table:
    """Return a numbered table of unique texts in one column."""
    unique = UniqueConstraint(column, name=f"uniq_{name}0{column}")
    return numbered(name, Column(column, String(255), nullable=False), unique)


def longest(column: Column[str]) -> int:
    """Return how many characters a text in this column has at most: a longer one is in no row.

    SQLite takes no pattern for LIKE of more than 50 000 bytes.
    """
    return int(getattr(column.type, "length", 0) or 0)
