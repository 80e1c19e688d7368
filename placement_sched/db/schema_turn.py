"""Whose turn it is to change the schema: one process's of all servers, on every database.

The locks of MariaDB (``GET_LOCK``) are a node's own: on a Galera cluster two processes could each
hold one. There a table is the lock, for all nodes make tables in the same order, and of two that
make the same one the second is refused.
"""

import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from oslo_log import log
from pymysql.constants import ER
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from placement_sched.db.drivers import answering
from placement_sched.model.retry import retrying

LOG = log.getLogger(__name__)

T = TypeVar("T")

#: On a Galera cluster, the table that is there while one changes the schema.
TURN = "placement_sched_schema_turn"
#: Seconds after which the process that made it is taken for dead, and another one goes on. On a
#: cluster a change that takes longer is not protected from others: the guide says to start one.
LONGEST = 600
_LOCK_NAME = "placement_sched_schema"
_LOCK_NUMBER = 7305212
#: Seconds for which MariaDB is asked for its lock, before the log says that it is waited for.
_ASKED_FOR = 60
_PAUSE = 0.2
#: How often a statement is done that others end. A turn that is not given back keeps all others
#: waiting for ``LONGEST``.
_ATTEMPTS = 50
#: The comment of the table: when it was made, by the clock of a database, and by which process.
_TAKE = f"CREATE TABLE {TURN} (node INT) ENGINE=InnoDB COMMENT="
# A time that is far ahead is of a clock that was wrong.
_TAKEN = (
    "SELECT table_comment, CAST(LEFT(table_comment, 19) AS DATETIME) NOT BETWEEN "
    "UTC_TIMESTAMP() - INTERVAL :longest SECOND AND UTC_TIMESTAMP() + INTERVAL :longest SECOND "
    "FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = :name"
)
#: The random part of a comment, which those of older releases lack.
_RANDOM = re.compile(r"/([0-9a-f]{16})$")
_LIKE = (
    "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_name LIKE :pattern"
)
#: What says that another process was quicker: the new name is there, or the table is not.
_ANOTHERS = {ER.TABLE_EXISTS_ERROR, ER.NO_SUCH_TABLE}


@contextmanager
def one_at_a_time(connection: Connection) -> Iterator[None]:
    """Hold a lock, so that workers that start together migrate in turn.

    A change of a large table may take hours, so answers are waited for without an end.

    SQLite's write transaction is such a lock already; MariaDB commits at every table it makes,
    so its lock is the session's, or the cluster's, and must be given back.
    """
    with answering(connection, None), _held(connection):
        yield


@contextmanager
def _held(connection: Connection) -> Iterator[None]:
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})"))
    if dialect in {"postgresql", "sqlite"}:
        yield
    elif _is_of_a_cluster(connection):
        with _turn(connection):
            yield
    else:
        while connection.scalar(text(f"SELECT GET_LOCK('{_LOCK_NAME}', {_ASKED_FOR})")) != 1:
            LOG.warning("another process changes the schema, which this one waits for")
        try:
            yield
        finally:
            connection.execute(text(f"SELECT RELEASE_LOCK('{_LOCK_NAME}')"))


def _is_of_a_cluster(connection: Connection) -> bool:
    found = connection.execute(text("SHOW VARIABLES LIKE 'wsrep_on'")).first()
    return found is not None and found[1] == "ON"


@contextmanager
def _turn(connection: Connection) -> Iterator[None]:
    # Containers may have the same host name, and their processes the same number.
    host = socket.gethostname()[:200]
    mine, other = f"{host}/{os.getpid()}/{secrets.token_hex(8)}", _Other()
    waits = False
    while not _taken(connection, mine, other):
        if not waits:
            LOG.warning(
                "another process changes the schema through another node, which this one waits "
                "for; if it was killed, drop the table %s",
                TURN,
            )
        waits = True
        time.sleep(_PAUSE)
    try:
        yield
    finally:
        _give_back(connection, mine)


class _Other:
    """The process whose turn it is, and for how long this one has seen that."""

    def __init__(self) -> None:
        self._comment, self._since = "", 0.0

    def is_dead(self, comment: str) -> bool:
        """Return whether it has had its turn for too long, whatever the clocks of nodes say."""
        if comment != self._comment:
            self._comment, self._since = comment, time.monotonic()
        return time.monotonic() - self._since > LONGEST


def _give_back(connection: Connection, mine: str) -> None:
    found = _answered(partial(_found, connection))
    if found is None or not found[0].endswith(f" {mine}"):
        # The graves are then of this turn, by which others see that it was put away.
        LOG.warning(
            "changing the schema took longer than %s seconds, and another process was let in",
            LONGEST,
        )
        return
    for name in [*_answered(partial(_graves, connection)), TURN]:
        _answered(partial(connection.execute, text(f"DROP TABLE IF EXISTS {name}")))


def _found(connection: Connection) -> tuple[str, bool] | None:
    """Return the comment of the table, and whether its time says that its process is dead."""
    found = connection.execute(text(_TAKEN), {"longest": LONGEST, "name": TURN}).first()
    return None if found is None else (found[0], bool(found[1]))


def _graves(connection: Connection) -> list[str]:
    pattern = TURN.replace("_", r"\_") + r"\_%"
    return list(connection.scalars(text(_LIKE), {"pattern": pattern}))


def _taken(connection: Connection, mine: str, other: _Other) -> bool:
    """Return whether it is this process's turn."""
    try:
        return _is_taken(connection, mine, other)
    except OperationalError as failure:
        if not _is_ended(failure):
            raise
        return False


def _is_ended(failure: Exception) -> bool:
    """Return whether a change of tables through another node ended a statement, as a deadlock."""
    said = failure.orig if isinstance(failure, OperationalError) else None
    return said is not None and said.args[0] == ER.LOCK_DEADLOCK


def _answered(statement: Callable[[], T]) -> T:
    """Return what a statement returns, done again where a change through another node ended it."""
    return retrying(
        statement,
        _ATTEMPTS,
        on=OperationalError,
        when=_is_ended,
        between=lambda _number: time.sleep(_PAUSE),
    )


def _is_taken(connection: Connection, mine: str, other: _Other) -> bool:
    now = connection.scalar(text("SELECT CAST(UTC_TIMESTAMP() AS CHAR)"))
    try:
        connection.execute(text(f"{_TAKE}'{now} {mine}'"))
    except OperationalError as failure:
        if failure.orig is None or failure.orig.args[0] != ER.TABLE_EXISTS_ERROR:
            raise
        if (found := _found(connection)) is None:  # gone meanwhile
            return False
        comment, is_dead = found
        # It was made by an attempt that was ended as it was answered.
        if comment.endswith(f" {mine}"):
            return True
        if other.is_dead(comment) or is_dead:
            _put_away(connection, _grave(comment))
        return False
    return True


def _grave(comment: str) -> str:
    """Return the name for the table of a process that was killed, which that of no other gets."""
    name = f"{TURN}_{re.sub(r'[^0-9]', '', comment[:19])}"
    found = _RANDOM.search(comment)
    return name if found is None else f"{name}_{found[1]}"


def _put_away(connection: Connection, grave: str) -> None:
    """Rename the table of a process that was killed; not one that was made meanwhile.

    Of several that find it, one does: for the others the new name is taken. So it is there until
    the next turn is over.
    """
    try:
        connection.execute(text(f"RENAME TABLE {TURN} TO {grave}"))
    except (OperationalError, ProgrammingError) as failure:
        if failure.orig is None or failure.orig.args[0] not in _ANOTHERS:
            raise
