"""Whose turn it is to change the schema: one process's of all servers, on every database.

The locks of MariaDB (``GET_LOCK``) are a node's own: on a Galera cluster two processes could each
hold one. There a table is the lock, for all nodes make tables in the same order, and of two that
make the same one the second is refused.
"""

import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from oslo_log import log
from pymysql.constants import ER
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError, ProgrammingError

LOG = log.getLogger(__name__)

#: On a Galera cluster, the table that is there while one changes the schema.
TURN = "placement_sched_schema_turn"
#: Seconds after which the process that made it is taken for dead: no change takes as long.
LONGEST = 600
_LOCK_NAME = "placement_sched_schema"
_LOCK_NUMBER = 7305212
_PAUSE = 0.2
#: The comment of the table: when it was made, by the clock of a database, and by which process.
_TAKE = f"CREATE TABLE {TURN} (node INT) ENGINE=InnoDB COMMENT="
_TAKEN = (
    "SELECT table_comment, table_comment < UTC_TIMESTAMP() - INTERVAL :longest SECOND "
    "FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name = :name"
)
_LIKE = (
    "SELECT table_name FROM information_schema.tables "
    "WHERE table_schema = DATABASE() AND table_name LIKE :pattern"
)
#: What says that another process was quicker: the new name is there, or the table is not.
_ANOTHERS = {ER.TABLE_EXISTS_ERROR, ER.NO_SUCH_TABLE}


@contextmanager
def one_at_a_time(connection: Connection) -> Iterator[None]:
    """Hold a lock, so that workers that start together migrate in turn.

    SQLite's write transaction is such a lock already; MariaDB commits at every table it makes,
    so its lock is the session's, or the cluster's, and must be given back.
    """
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})"))
    if dialect in {"postgresql", "sqlite"}:
        yield
    elif _is_of_a_cluster(connection):
        with _turn(connection):
            yield
    else:
        connection.execute(text(f"SELECT GET_LOCK('{_LOCK_NAME}', 60)"))
        try:
            yield
        finally:
            connection.execute(text(f"SELECT RELEASE_LOCK('{_LOCK_NAME}')"))


def _is_of_a_cluster(connection: Connection) -> bool:
    found = connection.execute(text("SHOW VARIABLES LIKE 'wsrep_on'")).first()
    return found is not None and found[1] == "ON"


@contextmanager
def _turn(connection: Connection) -> Iterator[None]:
    # One that was killed, and is started again in the same place, goes on with its own turn.
    mine = f"{socket.gethostname()[:200]}/{os.getpid()}"
    waits = False
    while not _taken(connection, mine):
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
        for name in [*_graves(connection), TURN]:
            connection.execute(text(f"DROP TABLE IF EXISTS {name}"))


def _graves(connection: Connection) -> list[str]:
    pattern = TURN.replace("_", r"\_") + r"\_%"
    return list(connection.scalars(text(_LIKE), {"pattern": pattern}))


def _taken(connection: Connection, mine: str) -> bool:
    """Return whether it is this process's turn."""
    try:
        return _is_taken(connection, mine)
    except OperationalError as failure:
        # A change of tables through another node ends what reads them here, as a deadlock.
        if failure.orig is None or failure.orig.args[0] != ER.LOCK_DEADLOCK:
            raise
        return False


def _is_taken(connection: Connection, mine: str) -> bool:
    now = connection.scalar(text("SELECT CAST(UTC_TIMESTAMP() AS CHAR)"))
    try:
        connection.execute(text(f"{_TAKE}'{now} {mine}'"))
    except OperationalError as failure:
        if failure.orig is None or failure.orig.args[0] != ER.TABLE_EXISTS_ERROR:
            raise
        found = connection.execute(text(_TAKEN), {"longest": LONGEST, "name": TURN}).first()
        if found is None:  # gone meanwhile
            return False
        if found[0].endswith(f" {mine}"):
            return True
        if found[1]:
            _put_away(connection, _grave(found[0]))
        return False
    return True


def _grave(comment: str) -> str:
    """Return the name for the table of a process that was killed, from when it was made."""
    return f"{TURN}_{re.sub(r'[^0-9]', '', comment[:19])}"


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
