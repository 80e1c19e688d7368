"""Characters that a database can store, which depend on its character set."""

import codecs
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import Connection, text

#: Shown in place of a character that cannot be stored.
PLACEHOLDER = "?"
_OF_MARIADB = text(
    "SELECT character_set_name, @@character_set_client FROM information_schema.columns WHERE "
    "table_schema = DATABASE() AND table_name = 'sched_instances' AND column_name = 'display_name'"
)
#: The names that Python has for the character sets of MariaDB and PostgreSQL, if it has others.
_CODECS = {"latin1": "cp1252", "sql_ascii": "ascii"}


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
        """Return the characters of the database of a connection, by one statement."""
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
