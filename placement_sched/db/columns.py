"""Types and columns that several tables have."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Column, ForeignKey, Index, Integer, String
from sqlalchemy.dialects import mysql

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
