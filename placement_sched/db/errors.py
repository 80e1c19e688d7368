# SPDX-License-Identifier: Apache-2.0
"""Translation of database driver errors into exceptions of this service."""

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
from placement_sched.errors import (
    CommitUnknown,
    Invalid,
    Overtaken,
    TooComplex,
    Unavailable,
    format_one_line,
)
from placement_sched.model.request_stats import get_request_stats

#: The message if another writer holds a lock for too long.
LOCKED = "the database is locked by another writer. Try again"

#: The message if the database rejects writes: a standby, or a file without permission.
READ_ONLY = "the database is read-only at the moment and takes no writes. Try again later"
_SILENT = "the database does not answer: neither it nor the network in between sends anything"
_NO_CONNECTION = "no connection to the database can be made as configured"
#: Maximum number of attempts to get an open connection from the pool.
_MAX_CONNECT_ATTEMPTS = 3

# The codes are PostgreSQL's SQLSTATEs and the numbers of MariaDB and MySQL.
# MariaDB ends the whole transaction at a deadlock, and then has no savepoint to roll back to. A
# Galera node may do so without an error before.
_NO_SAVEPOINT = 1305
# Errors that are conflicts of cluster nodes if they have this text, and then get this code. When a
# Galera node ends or starts, the other nodes change the steps of their AUTO_INCREMENT values, and
# two nodes may use the same value. While a node replaces a trigger, other nodes may read an empty
# definition.
_CONFLICT = "conflict of cluster nodes"
_CONFLICT_TEXTS = {
    1062: re.compile(r"for key '(?:\w+\.)?PRIMARY'"),
    1064: re.compile(r"^Unknown trigger has an error in its body: 'Query was empty'"),
}
# Conflicts of two writers. A writer must then retry: deadlocks; serialization failures, changed
# records and changed table definitions; at COMMIT, MySQL's group replication (3101).
_DEADLOCK = {"40P01", 1213}
_OTHER_CHANGE = {"40001", 1020, _NO_SAVEPOINT, 1412, 1615, 3101, _CONFLICT}
_CONCURRENT = _DEADLOCK | _OTHER_CHANGE
# A lock timeout, or too many locks or transactions.
_LOCKED = {"55P03", 1205, 1206, 1637}

#: The kinds of conflicts in the metrics. A claim fails because its capacity is used up or something
#: else has changed, or it uses another host. The database reports the other kinds for all writes.
CAPACITY, CHANGED, MOVED = "capacity", "changed", "moved"
DEADLOCK, SERIALIZATION, LOCK_TIMEOUT = "deadlock", "serialization", "lock_timeout"
_BY_CODES = ((_DEADLOCK, DEADLOCK), (_OTHER_CHANGE, SERIALIZATION), (_LOCKED, LOCK_TIMEOUT))
# A statement exceeded [placement_database] read_timeout.
_LATE = {"57014", 1969, 3024, "interrupted"}
# The server is a standby, or is set to read-only.
_READ_ONLY = {"25006", 1036, 1290, 1792, 1836}
_NO_TABLE = {"42P01", 1146}
# The disk is full. SQLite reports it for any file that cannot grow.
_FULL, _FULL_WORDS = {"53100", 1021, 1026, 1030, 1114, 1180}, ("disk is full", "disk I/O error")
# Table files that cannot be opened, read or closed.
_FILES = {"58030", 1003, 1004, 1016, 1017, 1023, 1024, 1033, 1034, 1035, 1194, 1195}
# Unknown error, error during ROLLBACK, malformed packet: all of them when a cluster node fails.
_UNKNOWN = {1105, 1181, 1835}
# Missing privileges on databases, tables, columns or globally. 3F000: no usable schema.
_DENIED = {"42501", "3F000", 1044, 1142, 1143, 1227}
_DENIED_BY_MYSQL = re.compile(
    r"(?:(?P<privilege>[A-Z][A-Z ,]*) command|Access) denied (?:to|for) user '(?P<user>[^']*)'@\S+"
    r" (?:for (?:table|column '[^']*' in table) (?:[`'](?P<owner>[^`']+)[`']\.)?"
    r"[`'](?P<table>[^`']+)[`']|to database '(?P<database>[^']+)')"
)
_DENIED_BY_POSTGRESQL = re.compile(
    r"(?:permission denied for|(?P<owner>must be owner of)) "
    r"(?P<kind>table|relation|sequence|schema|database|function) (?P<name>\S+)"
)
#: The privileges that this service needs on PostgreSQL, by kind of object.
_PRIVILEGES = {
    "table": "SELECT, INSERT, UPDATE, DELETE",
    "sequence": "USAGE, SELECT",
    "schema": "USAGE, CREATE",
    "database": "CONNECT, CREATE",
}
_CANNOT_WRITE = "the database cannot write: its disk is full or fails"
_SENTENCES = (
    (_LOCKED, LOCKED),
    ({NO_QUORUM}, "the database is a cluster node without a quorum, or not ready yet"),
    (_FULL, _CANNOT_WRITE),
    (_FILES, "the database cannot read its own files. See its log for the reason"),
    (_UNKNOWN, "the database could not complete the statement. See its log for the reason"),
    (_LATE, "the query took longer than [placement_database] read_timeout. Simplify it"),
    (_CONCURRENT, "the transaction conflicted with concurrent writers. Try again"),
)
# Why a connection fails: error codes, parts of the message (PostgreSQL gives no codes), and the
# sentence for clients.
_CONNECTION_ERRORS: tuple[tuple[set[object], tuple[str, ...], str], ...] = (
    (
        {1045, 1698, "28000", "28P01"},
        ("authentication failed", "no pg_hba.conf entry", "no password supplied", 'role "'),
        "the database rejects the user of the connection or the password",
    ),
    (
        {1049, "3D000"},
        ('FATAL:  database "',),
        "the database that the connection names does not exist",
    ),
    (
        {1040, 1203, 1226, "53300"},
        ("too many clients", "too many connections", "remaining connection slots"),
        "the database has reached its maximum number of connections",
    ),
    (
        {1053, "57P01", "57P03"},
        ("is shutting down", "is starting up", "not yet accepting", "in recovery mode"),
        "the database is being started or shut down. Try again",
    ),
    ({2026}, ("SSL", "certificate"), "no TLS connection to the database can be made as configured"),
)
# PyMySQL's codes of an unreachable server or a lost connection.
_UNREACHABLE = {2002, 2003, 2005, 2006, 2013}
# Parts of PostgreSQL's messages, and of libpq's messages about PostgreSQL's responses.
_RESPONDED = ("FATAL:", "channel binding", "hot standby", "session is ", "invalid ")
# A statement that is too large for the database.
_TOO_LARGE = {1116, 1117, 1153, 1390, 1436}  # tables, columns, packet, placeholders, stack
_TOO_LARGE_WORDS = (
    "too many columns",
    "too many sql variables",
    "expression tree is too large",
    "parser stack overflow",
    "number of parameters must be between",
)
# SQLite's messages about invalid statements: all its errors are OperationalErrors.
_WRONG_IN_SQLITE = ("no such ", "syntax error", "ambiguous column", "misuse of")
# MySQL's failed conversions; mixed collations of two, three, and more values.
_NOT_CONVERTED, _MIXED, _MIXED_MORE = {3854, 3988}, {1267, 1270}, 1271
_BAD_VALUE = 1366
_COLLATION = re.compile(r"\((\w+?)_\w+,(\w+)\)")
# The last characters of ASCII and of utf8mb3, the character set of many databases of placement.
_LAST_OF_ASCII, _LAST_OF_UTF8MB3 = "\x7f", "\uffff"
# PyMySQL raises an OperationalError for every server error above 1000. These codes, and its own
# from 2000 to 2999, concern the database: connections, access, shutdown, network, killed
# statements.
_MYSQL_UNAVAILABLE = {
    *(1037, 1038, 1040, 1041, 1042, 1043, 1045, 1049, 1053, 1077, 1079, 1080, 1129, 1130, 1135),
    *(1152, 1154, 1155, 1158, 1159, 1160, 1161, 1184, 1203, 1218, 1226, 1251, 1317, 1524, 1927),
    *(1156, 1157, 1275, 1698, 1820, 1862, 3118, 3159, 3168, 3169, 4031, 4151),
    *(9001, 9002),  # ProxySQL
}


def connect(engine: Engine) -> Connection:
    """Open a connection, or raise :class:`Unavailable` for any error."""
    for _ in range(_MAX_CONNECT_ATTEMPTS):
        try:
            return engine.connect()
        except InvalidRequestError as failure:  # the pool gave up
            last = failure
        except ProgrammingError as failure:
            raise Unavailable(f"{_NO_CONNECTION}: {_get_driver_message(failure)}") from failure
        except DBAPIError as failure:
            raise Unavailable(_describe_connection_error(failure)) from failure
        except SQLAlchemyError:
            raise
        except Exception as failure:  # a driver's, for example for a missing package
            raise Unavailable(f"{_NO_CONNECTION}: {format_one_line(failure)}") from failure
    raise Unavailable("the database closes its connections as soon as they are made") from last


@contextmanager
def translate_errors() -> Iterator[None]:
    """Translate errors of the database or connection, and keep other errors.

    Raises :class:`Unavailable` if the database or the connection fails, :class:`TooComplex` if a
    statement is too large, and :class:`Invalid` if the database cannot store a character.
    """
    try:
        yield
    except PendingRollbackError as failure:
        raise Unavailable("the connection to the database was lost in a transaction") from failure
    except PoolTimeout as failure:
        get_request_stats().pool_timeouts += 1
        raise Unavailable("the database has no free connection at the moment") from failure
    except UnicodeEncodeError as failure:  # psycopg cannot encode it for the database
        reason = f"its encoding is {failure.encoding}"
        raise Invalid(_describe_unstorable(failure.object[failure.start], reason)) from failure
    except DBAPIError as last:
        error = _find_first_failure(last)
        _check_characters(error)
        is_about_database = _is_about_database(error)
        if is_about_database and _is_too_large(error):
            raise TooComplex("the request is too large for one SQL statement") from error
        if is_about_database or error.connection_invalidated:
            raise Unavailable(_describe_error(error) or _describe_silence(error)) from error
        if sentence := _describe_error(error):
            raise Unavailable(sentence) from error
        raise


def _find_first_failure(failure: DBAPIError) -> DBAPIError:
    """Return the conflict that removed a missing savepoint, else ``failure``."""
    context: BaseException | None = failure if _get_code(failure) == _NO_SAVEPOINT else None
    while context is not None:
        context = context.__context__
        if isinstance(context, DBAPIError) and _get_code(context) in _CONCURRENT:
            return context
    return failure


def _is_about_database(failure: DBAPIError) -> bool:
    """Return whether the database or connection failed, not a statement."""
    if not isinstance(failure, OperationalError | InterfaceError):
        return False
    code = _get_code(failure)
    if isinstance(code, int) and code >= 1000 and not 2000 <= code < 3000:
        return code in _MYSQL_UNAVAILABLE or _is_too_large(failure)
    if isinstance(failure.orig, sqlite3.Error):
        return not any(words in str(failure.orig) for words in _WRONG_IN_SQLITE)
    return True


def is_worth_retrying(failure: Exception) -> bool:
    """Return whether a new transaction may succeed after an error."""
    if isinstance(failure, Overtaken):
        return True
    if isinstance(failure, CommitUnknown):
        return False
    cause = failure.__cause__
    if isinstance(cause, PendingRollbackError):
        return True
    return (
        isinstance(cause, DBAPIError)
        and (cause.connection_invalidated or _get_code(cause) in _CONCURRENT)
        and not _is_silent(cause)
    )


def _is_silent(failure: DBAPIError) -> bool:
    """Return whether the database sent nothing until the limit of silence."""
    original = failure.orig
    cause = original and (original.__cause__ or original.__context__)
    # The TimeoutError of a vanished machine has an errno. A retry may reach its successor.
    return isinstance(cause, TimeoutError) and cause.errno is None


def is_read_only(failure: Exception) -> bool:
    """Return whether :class:`Unavailable` was raised for a read-only database."""
    return _is_read_only(_get_cause_code(failure))


def rejects_writes(failure: Exception) -> bool:
    """Return whether a driver's error means that the database is read-only."""
    return _is_read_only(get_error_code(failure))


def is_statement_timeout(failure: Exception) -> bool:
    """Return whether :class:`Unavailable` was raised for a statement timeout."""
    return _get_cause_code(failure) in _LATE


def lacks_table(failure: Exception) -> bool:
    """Return whether SQLAlchemy's error means that a table does not exist."""
    code = _get_code(failure) if isinstance(failure, DBAPIError) else None
    return code in _NO_TABLE or "no such table" in str(code)


def find_conflict_kind(failure: Exception) -> str | None:
    """Return the kind of the conflict behind :class:`Unavailable`, or None."""
    code = _get_cause_code(failure)
    return next((kind for codes, kind in _BY_CODES if code in codes), None)


def _describe_error(failure: DBAPIError) -> str | None:
    code = _get_code(failure)
    text = str(code)
    if "file is not a database" in text:
        return "the file is not an SQLite database"
    if lacks_table(failure):
        return (
            "the database has no schema of this service. Run placement-sched db sync, or db adopt "
            "for a database of OpenStack placement"
        )
    if "database is locked" in text:
        return LOCKED
    if code in _DENIED:
        reason = _get_driver_message(failure)
        grant = build_grant(reason)
        advice = f". Run as administrator of the database: {grant}" if grant else ""
        return f"the database user of the connection lacks a privilege: {reason}{advice}"
    if _is_read_only(code):
        return READ_ONLY
    if any(words in text for words in _FULL_WORDS):
        return _CANNOT_WRITE
    return next((sentence for codes, sentence in _SENTENCES if code in codes), None)


def _describe_connection_error(failure: DBAPIError) -> str:
    code, text = _get_code(failure), str(failure.orig)
    for codes, words, sentence in _CONNECTION_ERRORS:
        if code in codes or any(word in text for word in words):
            return sentence
    if (message := _describe_error(failure)) is not None:
        return message
    has_words = any(words in text for words in _RESPONDED)
    if code not in _UNREACHABLE if isinstance(code, int) else has_words:
        # Without the server's address.
        return f"{_NO_CONNECTION}: {_get_driver_message(failure).rpartition(' failed: ')[2]}"
    return _describe_silence(failure)


def _describe_silence(failure: DBAPIError) -> str:
    return _SILENT if _is_silent(failure) else "the database does not answer"


def _get_code(failure: DBAPIError) -> object:
    code = get_error_code(failure.orig)
    text = _CONFLICT_TEXTS.get(code) if isinstance(code, int) else None
    return _CONFLICT if text and text.search(_get_driver_message(failure)) else code


def _get_cause_code(failure: Exception) -> object:
    cause = failure.__cause__
    return _get_code(cause) if isinstance(cause, DBAPIError) else None


def get_error_code(failure: BaseException | None) -> object:
    """Return MariaDB's number, PostgreSQL's SQLSTATE or SQLite's message."""
    first = next(iter(getattr(failure, "args", ())), None)
    return first if isinstance(first, int) else getattr(failure, "sqlstate", None) or first


def _get_driver_message(failure: DBAPIError) -> str:
    original = failure.orig
    return str(getattr(original, "args", (original,))[-1]).partition("\n")[0]


def build_grant(message: str) -> str:
    """Return the statement that grants a missing privilege, or "".

    ``message`` is the first line of the error of the database. ``USER`` stands for the user
    of the connection, which PostgreSQL does not name.
    """
    if match := _DENIED_BY_MYSQL.search(message):
        names = (match["owner"] or match["database"], match["table"])
        quoted = [f"`{name}`" for name in names if name]
        place = ".".join(quoted if match["table"] else [*quoted, "*"])
        privilege = match["privilege"] or "ALL PRIVILEGES"
        return f"GRANT {privilege} ON {place} TO '{match['user']}'@'%'"
    if "no schema" in message:
        return "GRANT USAGE, CREATE ON SCHEMA public TO USER"
    if match := _DENIED_BY_POSTGRESQL.search(message):
        kind, name = match["kind"], match["name"]
        if match["owner"]:
            return f"ALTER {'TABLE' if kind == 'relation' else kind.upper()} {name} OWNER TO USER"
        return f"GRANT {_PRIVILEGES.get(kind, 'ALL')} ON {kind.upper()} {name} TO USER"
    return ""


def _is_read_only(code: object) -> bool:
    return code in _READ_ONLY or "readonly database" in str(code)


def _is_too_large(failure: DBAPIError) -> bool:
    code, text = _get_code(failure), str(failure.orig).lower()
    return (
        code in _TOO_LARGE
        # PostgreSQL's class of codes for an exceeded program limit.
        or (isinstance(code, str) and len(code) == 5 and code.startswith("54"))
        or any(words in text for words in _TOO_LARGE_WORDS)
    )


def _check_characters(failure: DBAPIError) -> None:
    """Raise :class:`Invalid` for a character that cannot be stored."""
    code = _get_code(failure)
    if isinstance(failure, DataError) and "cannot contain NUL" in str(failure.orig):
        raise Invalid("a text has a NUL character, which PostgreSQL cannot store") from failure
    if code == "22P05":  # untranslatable character
        raise Invalid("a text has a character that the database's character set lacks") from failure
    # The error does not name the character. Character sets lack the highest characters first.
    letter = max((letter for text in _iterate_texts(failure.params) for letter in text), default="")
    if letter > _LAST_OF_ASCII and _is_about_characters(code, _get_driver_message(failure)):
        is_beyond = letter > _LAST_OF_UTF8MB3
        reason = "its character set is not utf8mb4" if is_beyond else "its character set lacks it"
        raise Invalid(_describe_unstorable(letter, reason)) from failure


def _is_about_characters(code: object, text: str) -> bool:
    """Return whether MariaDB or MySQL reports an unstorable character."""
    if code in _MIXED:
        # Parameters are COERCIBLE. A mix of two columns is a bug of this service.
        sets = _COLLATION.findall(text)
        return len({name for name, _ in sets}) > 1 and ("COERCIBLE" in {kind for _, kind in sets})
    is_text = code == _BAD_VALUE and "string value" in text
    return is_text or code in _NOT_CONVERTED or code == _MIXED_MORE


def _describe_unstorable(letter: str, reason: str) -> str:
    return f"the database cannot store the character {letter} (U+{ord(letter):X}): {reason}"


def _iterate_texts(params: object) -> Iterator[str]:
    if isinstance(params, str):
        yield params
    elif isinstance(params, Mapping):
        yield from _iterate_texts(list(params.values()))
    elif isinstance(params, Iterable) and not isinstance(params, bytes):
        for item in params:
            yield from _iterate_texts(item)
