"""What the tables are made of: the one collection of them, and the types they share."""

from datetime import datetime

from sqlalchemy import Column, DateTime, MetaData, String, Text
from sqlalchemy.dialects import mysql

metadata = MetaData()

#: A JSON document, or a text, of any size.
Document = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")

#: As :data:`Document`, and comparisons heed case on MariaDB too.
ExactDocument = Text().with_variant(
    mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
)


def exact(length: int) -> String:
    """Return a text type of ``length`` whose comparisons heed case on MariaDB too."""
    return String(length).with_variant(
        mysql.VARCHAR(length, charset="utf8mb4", collation="utf8mb4_bin"), "mysql", "mariadb"
    )


def stamps() -> tuple[Column[datetime], Column[datetime]]:
    """Return the columns that tell when a row was made and last changed."""
    return Column("created_at", DateTime), Column("updated_at", DateTime)
