"""What drivers raise about themselves, as exceptions and sentences of this service."""

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import (
    DataError,
    DBAPIError,
    InterfaceError,
    InvalidRequestError,
    OperationalError,
    PendingRollbackError,
    ProgrammingError,
    SQLAlchemyError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout

from placement_sched.db.engine import NO_QUORUM
from placement_sched.errors import CommitUnknown, Invalid, TooComplex, Unavailable, one_line
from placement_sched.model.request_stats import request_stats

#: What a client reads where another writer holds a lock for too long.
LOCKED = "the database is locked by another writer; try again"

#: What a client reads where the database takes no writes: a standby, or a file without permission.
READ_ONLY = "the database is read-only just now and takes no writes; try again later"
_SILENT = "the database does not answer: it, or the network before it, says nothing at all"
_NO_CONNECTION = "no connection to the database can be made as configured"
#: How often a connection is asked for while each that is given turns out to be closed.
_CONNECTIONS = 3

# The codes are PostgreSQL's SQLSTATEs and the numbers of MariaDB and MySQL.
# Two writers met and one must start again: deadlock; serialization failure, record changed, or the
# definition of a table changed.
_DEADLOCK, _OTHER_CHANGE = {"40P01", 1213}, {"40001", 1020, 1412, 1615}
_CONCURRENT = _DEADLOCK | _OTHER_CHANGE
# A lock was not given in time, or there is no room for more locks or transactions.
_LOCKED = {"55P03", 1205, 1206, 1637}

#: The kinds of conflicts that are counted. Of claims: the capacity is taken, something else was
#: changed, or the claim went on to another host. Of all writes: what the database reports.
CAPACITY, CHANGED, MOVED = "capacity", "changed", "moved"
DEADLOCK, SERIALIZATION, LOCK_TIMEOUT = "deadlock", "serialization", "lock_timeout"
_BY_CODES = ((_DEADLOCK, DEADLOCK), (_OTHER_CHANGE, SERIALIZATION), (_LOCKED, LOCK_TIMEOUT))
# A statement was stopped after [placement_database] read_timeout.
_LATE = {"57014", 1969, 3024, "interrupted"}
# The server is a standby, or was set to take no writes.
_READ_ONLY = {"25006", 1036, 1290, 1792, 1836}
_READ_ONLY_FILE = "readonly database"
_NO_TABLE = {"42P01", 1146}
# There is no room for what is written; SQLite says so of any file that cannot grow.
_FULL, _FULL_WORDS = {"53100", 1021, 1026, 1030, 1114, 1180}, ("disk is full", "disk I/O error")
# Files of tables that cannot be opened, read or closed.
_FILES = {"58030", 1003, 1004, 1016, 1017, 1023, 1024, 1033, 1034, 1035, 1194, 1195}
# The user of the connection may not do what it asks for: of databases, tables, columns, or of all.
# 3F000: no schema may be used.
_DENIED = {"42501", "3F000", 1044, 1142, 1143, 1227}
_DENIED_BY_POSTGRESQL = re.compile(r"permission denied for (\w+) (\S+)")
_DENIED_BY_MARIADB = re.compile(
    r"denied (?:to|for) user '([^']*)'@'([^']*)' "
    r"(?:for table `(\w+)`\.|to database '(\w+)'|for table)"
)
_CANNOT_WRITE = "the database cannot write: its disk is full, or fails"
_SENTENCES = (
    (_LOCKED, LOCKED),
    ({NO_QUORUM}, "the database is a node of a cluster without a quorum, or that is not ready yet"),
    (_FULL, _CANNOT_WRITE),
    (_FILES, "the database cannot read its own files; its log says why"),
    (_LATE, "the query took longer than [placement_database] read_timeout; ask for less"),
    (_CONCURRENT, "the transaction conflicted with concurrent writers; try again"),
)
# Why a database, or the library of its driver, refuses a connection. PostgreSQL gives only words.
_REFUSED: tuple[tuple[set[object], tuple[str, ...], str], ...] = (
    (
        {1045, 1698, "28000", "28P01"},
        ("authentication failed", "no pg_hba.conf entry", "no password supplied", 'role "'),
        "the database refuses the user of the connection, or its password",
    ),
    (
        {1049, "3D000"},
        ('FATAL:  database "',),
        "the database that the connection names does not exist",
    ),
    (
        {1040, 1203, 1226, "53300"},
        ("too many clients", "too many connections", "remaining connection slots"),
        "the database takes no more connections",
    ),
    ({2026}, ("SSL", "certificate"), "no TLS connection to the database can be made as configured"),
)
# PyMySQL's numbers for a server that cannot be reached, or that is lost.
_NOT_REACHED = {2002, 2003, 2005, 2006, 2013}
# What PostgreSQL says, and libpq of what PostgreSQL has said.
_ANSWERED = ("FATAL:", "channel binding", "hot standby", "session is ", "invalid ")
# A statement that the database does not take for its length.
_TOO_LARGE_SQLSTATE = "54"  # PostgreSQL's class: program limit exceeded
_TOO_LARGE = {1116, 1117, 1153, 1390, 1436}  # tables, columns, packet, placeholders, stack
_TOO_LARGE_WORDS = (
    "too many columns",
    "too many sql variables",
    "expression tree is too large",
    "parser stack overflow",
    "number of parameters must be between",
)
# SQLite's words for a statement that is wrong: all its errors are OperationalErrors.
_WRONG_IN_SQLITE = ("no such ", "syntax error", "ambiguous column", "misuse of")
# A character that the database cannot keep, or not compare with what it keeps.
_NOT_KEPT_SQLSTATE = "22P05"  # untranslatable character
# MySQL's conversions; mixes of the collations of two values, of three, and of more.
_NOT_CONVERTED, _MIXED, _MIXED_MORE = {3854, 3988}, {1267, 1270}, 1271
_BAD_VALUE = 1366
_COLLATION = re.compile(r"\((\w+?)_\w+,(\w+)\)")
# The last characters of ASCII and of utf8mb3, the character set of many databases of placement.
_LAST_OF_ASCII, _LAST_OF_UTF8MB3 = "\x7f", "\uffff"
# PyMySQL calls every error of the server above 1000 an OperationalError. These, and its own from
# 2000 to 2999, are about the database: connections, access, shutdown, network, killed statements.
_AWAY_MYSQL = {
    *(1037, 1038, 1040, 1041, 1042, 1043, 1045, 1049, 1053, 1077, 1079, 1080, 1129, 1130, 1135),
    *(1152, 1154, 1155, 1158, 1159, 1160, 1161, 1184, 1203, 1218, 1226, 1251, 1317, 1524, 1927),
    *(1156, 1157, 1275, 1698, 1820, 1862, 3118, 3159, 3168, 3169, 4031, 4151),
    *(9001, 9002),  # ProxySQL
}


def connected(engine: Engine) -> Connection:
    """Return an open connection.

    Raises :class:`Unavailable` whatever the reason why there is none: no statement was sent yet.
    """
    for _ in range(_CONNECTIONS):
        try:
            return engine.connect()
        except InvalidRequestError as failure:  # the pool has given up
            last = failure
        except ProgrammingError as failure:
            raise Unavailable(f"{_NO_CONNECTION}: {_said(failure)}") from failure
        except DBAPIError as failure:
            raise Unavailable(_refusal(failure)) from failure
        except SQLAlchemyError:
            raise
        except Exception as failure:  # of a driver, such as for a package that is not installed
            raise Unavailable(f"{_NO_CONNECTION}: {one_line(failure)}") from failure
    raise Unavailable("the database closes its connections as soon as they are made") from last


@contextmanager
def translated() -> Iterator[None]:
    """Turn what a driver raises about itself (not about the data) into :class:`Unavailable`.

    A statement too long for the database is the fault of the request, and becomes
    :class:`TooComplex`; a character that the database cannot keep, :class:`Invalid`.
    """
    try:
        yield
    except PendingRollbackError as failure:
        raise Unavailable("the connection to the database was lost in a transaction") from failure
    except PoolTimeout as failure:
        request_stats().pool_timeouts += 1
        raise Unavailable("the database has no free connection just now") from failure
    except UnicodeEncodeError as failure:  # psycopg cannot write it in the database's encoding
        reason = f"its encoding is {failure.encoding}"
        raise Invalid(_cannot_keep(failure.object[failure.start], reason)) from failure
    except DBAPIError as failure:
        _check_characters(failure)
        about_itself = _is_about_database(failure)
        if about_itself and _is_too_large(failure):
            raise TooComplex(
                "the request names more than the database takes in one statement"
            ) from failure
        if about_itself or failure.connection_invalidated:
            raise Unavailable(_sentence(failure) or _silence(failure)) from failure
        if sentence := _sentence(failure):
            raise Unavailable(sentence) from failure
        raise


def _is_about_database(failure: DBAPIError) -> bool:
    """Return whether an error is about the database or the connection, not about a statement."""
    if not isinstance(failure, OperationalError | InterfaceError):
        return False
    code = _code(failure)
    if isinstance(code, int) and code >= 1000 and not 2000 <= code < 3000:
        return code in _AWAY_MYSQL or _is_too_large(failure)
    if isinstance(failure.orig, sqlite3.Error):
        return not any(words in str(failure.orig) for words in _WRONG_IN_SQLITE)
    return True


def is_worth_retrying(failure: Exception) -> bool:
    """Return whether a new transaction may succeed where one failed with :class:`Unavailable`."""
    if isinstance(failure, CommitUnknown):
        return False
    cause = failure.__cause__
    if isinstance(cause, PendingRollbackError):
        return True
    return (
        isinstance(cause, DBAPIError)
        and (cause.connection_invalidated or _code(cause) in _CONCURRENT)
        and not _is_silent(cause)
    )


def _is_silent(failure: DBAPIError) -> bool:
    """Return whether the database has said nothing for as long as it is waited for."""
    original = failure.orig
    cause = original and (original.__cause__ or original.__context__)
    # That of a machine that has vanished has a number: another may have its address by now.
    return isinstance(cause, TimeoutError) and cause.errno is None


def is_read_only(failure: Exception) -> bool:
    """Return whether :class:`Unavailable` was raised because the database takes no writes."""
    cause = failure.__cause__
    return isinstance(cause, DBAPIError) and _is_read_only(_code(cause))


def refuses_writes(failure: Exception) -> bool:
    """Return whether a driver's own error is that the database takes no writes."""
    return _is_read_only(_code_of(failure))


def is_late(failure: Exception) -> bool:
    """Return whether :class:`Unavailable` was raised for a statement that took too long."""
    cause = failure.__cause__
    return isinstance(cause, DBAPIError) and _code(cause) in _LATE


def conflict_of(failure: Exception) -> str | None:
    """Return what kind of conflict :class:`Unavailable` was raised for; None for none."""
    cause = failure.__cause__
    if not isinstance(cause, DBAPIError):
        return None
    code = _code(cause)
    return next((kind for codes, kind in _BY_CODES if code in codes), None)


def _sentence(failure: DBAPIError) -> str | None:
    """Return what happened to the database, or None where it is not known."""
    code = _code(failure)
    text = str(code)
    if "file is not a database" in text:
        return "the file is not an SQLite database"
    if code in _NO_TABLE or "no such table" in text:
        return (
            "the database has no schema of this service; run placement-sched db sync, or db adopt "
            "where OpenStack placement made it"
        )
    if "database is locked" in text:
        return LOCKED
    if code in _DENIED:
        return _lacks_privilege(_said(failure))
    if _is_read_only(code):
        return READ_ONLY
    if any(words in text for words in _FULL_WORDS):
        return _CANNOT_WRITE
    return next((sentence for codes, sentence in _SENTENCES if code in codes), None)


def _refusal(failure: DBAPIError) -> str:
    """Return why no connection was made."""
    code, text = _code(failure), str(failure.orig)
    for codes, words, sentence in _REFUSED:
        if code in codes or any(word in text for word in words):
            return sentence
    if (known := _sentence(failure)) is not None:
        return known
    if _has_answered(code, text):
        reason = _said(failure).rpartition(" failed: ")[2]  # without the server's address
        return f"{_NO_CONNECTION}: {reason}"
    return _silence(failure)


def _has_answered(code: object, said: str) -> bool:
    """Return whether a server answered to the attempt to connect with it."""
    if isinstance(code, int):
        return code not in _NOT_REACHED
    return any(words in said for words in _ANSWERED)


def _silence(failure: DBAPIError) -> str:
    return _SILENT if _is_silent(failure) else "the database does not answer"


def _lacks_privilege(said: str) -> str:
    """Return the message for a missing privilege, with the GRANT statement that gives it."""
    sentence = f"the database user named in the connection lacks a privilege: {said}"
    if match := _DENIED_BY_POSTGRESQL.search(said):
        kind, name = match.groups()
        grant = f"GRANT ALL ON {kind.upper()} {name} TO <user>"
    elif match := _DENIED_BY_MARIADB.search(said):
        user, host, of_table, database = match.groups()
        if database is None:  # of tables it names the host of the connection, not of the account
            account = f"'{user}'@'<host>' (SELECT CURRENT_USER() by this user shows the host)"
            grant = f"GRANT ALL ON {of_table or '<database>'}.* TO {account}"
        else:
            grant = f"GRANT ALL ON {database}.* TO '{user}'@'{host}'"
    elif "no schema has been selected" in said:
        grant = "GRANT ALL ON SCHEMA public TO <user>"
    else:
        return sentence
    return f"{sentence}; an administrator allows it with {grant}"


def _code(failure: DBAPIError) -> object:
    """Return MariaDB's number (its SQLSTATE says less), PostgreSQL's SQLSTATE, SQLite's text."""
    return _code_of(failure.orig)


def _code_of(failure: BaseException | None) -> object:
    """Return the same of a driver's own error."""
    first = next(iter(getattr(failure, "args", ())), None)
    return first if isinstance(first, int) else getattr(failure, "sqlstate", None) or first


def _said(failure: DBAPIError) -> str:
    """Return the first line of what the database said."""
    original = failure.orig
    return str(getattr(original, "args", (original,))[-1]).partition("\n")[0]


def _is_read_only(code: object) -> bool:
    return code in _READ_ONLY or _READ_ONLY_FILE in str(code)


def _is_too_large(failure: DBAPIError) -> bool:
    code, text = _code(failure), str(failure.orig).lower()
    return (
        code in _TOO_LARGE
        or (isinstance(code, str) and len(code) == 5 and code.startswith(_TOO_LARGE_SQLSTATE))
        or any(words in text for words in _TOO_LARGE_WORDS)
    )


def _check_characters(failure: DBAPIError) -> None:
    """Raise :class:`Invalid` where the failure is about a character that cannot be kept."""
    code = _code(failure)
    if isinstance(failure, DataError) and "cannot contain NUL" in str(failure.orig):
        raise Invalid("a text has a NUL character, which PostgreSQL cannot store") from failure
    if code == _NOT_KEPT_SQLSTATE:
        raise Invalid(
            "a text has a character that the database cannot keep in its character set"
        ) from failure
    # The error does not name the letter. Character sets lack the greatest letters first.
    letter = max((letter for one in _texts(failure.params) for letter in one), default="")
    if letter > _LAST_OF_ASCII and _is_of_characters(code, _said(failure)):
        beyond = letter > _LAST_OF_UTF8MB3
        reason = "its character set is not utf8mb4" if beyond else "its character set lacks it"
        raise Invalid(_cannot_keep(letter, reason)) from failure


def _is_of_characters(code: object, said: str) -> bool:
    """Return whether MariaDB or MySQL says that a column cannot hold a character that was sent."""
    if code in _MIXED:
        # A value that was sent is COERCIBLE. A mix of two columns is our fault.
        sets = _COLLATION.findall(said)
        return len({name for name, _ in sets}) > 1 and ("COERCIBLE" in {kind for _, kind in sets})
    is_text = code == _BAD_VALUE and "string value" in said
    return is_text or code in _NOT_CONVERTED or code == _MIXED_MORE


def _cannot_keep(letter: str, reason: str) -> str:
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
