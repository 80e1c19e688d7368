"""Creates and upgrades the schema with alembic, under a version table of our own name."""

import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from oslo_log import log
from pymysql.constants import ER
from sqlalchemy import Connection, MetaData, String, column, inspect, select, table, text, update
from sqlalchemy.exc import OperationalError, ProgrammingError

from placement_sched.db.collations import collation_for_own_tables
from placement_sched.db.engine import answering
from placement_sched.db.errors import LOCK_TIMEOUT, conflict_of
from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES, consumer_types, consumers
from placement_sched.db.transaction import Database
from placement_sched.db.triggers import (
    has_triggers,
    make_triggers,
    missing_triggers,
    remove_triggers,
    why_unsupported,
)
from placement_sched.errors import NewerSchema, Unavailable
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
_SCHEMA_TURN_PAUSE = 0.2
#: How often a statement is done that others end. A turn that is not given back keeps all others
#: waiting for ``LONGEST``.
_SCHEMA_TURN_ATTEMPTS = 50
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
        time.sleep(_SCHEMA_TURN_PAUSE)
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
        _SCHEMA_TURN_ATTEMPTS,
        on=OperationalError,
        when=_is_ended,
        between=lambda _number: time.sleep(_SCHEMA_TURN_PAUSE),
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


#: OpenStack placement keeps its revision in ``alembic_version``; ours must not be mistaken for it.
VERSION_TABLE = "placement_sched_alembic_version"

#: Seconds that a statement about triggers waits for transactions on MariaDB, seconds until it is
#: tried again, and how often it is tried.
_WAIT, _PAUSE, _ATTEMPTS = 2, 1.0, 60

_KNOWN = frozenset(table.name for table in (*OWN_TABLES, *PLACEMENT_TABLES))


@dataclass(frozen=True, slots=True)
class SchemaContents:
    """The names of all tables, and the columns and indexes of the known ones, by table and name."""

    tables: frozenset[str]
    columns: frozenset[tuple[str, str]]
    indexes: frozenset[tuple[str, str]]

    def columns_since(self, before: "SchemaContents") -> tuple[str, ...]:
        """Return as ``table.column`` the columns added to the tables that were there before."""
        new = sorted(self.columns - before.columns)
        return tuple(f"{table}.{name}" for table, name in new if table in before.tables)

    def indexes_since(self, before: "SchemaContents") -> tuple[str, ...]:
        """Return the indexes added to the tables that were there before."""
        new = sorted(self.indexes - before.indexes)
        return tuple(name for table, name in new if table in before.tables)


def schema_contents(connection: Connection) -> SchemaContents:
    """Return the tables, columns and indexes that the database has."""
    inspector = inspect(connection)
    tables = frozenset(inspector.get_table_names())
    if not (known := sorted(tables & _KNOWN)):
        return SchemaContents(tables, frozenset(), frozenset())

    def named(found: Mapping[Any, Iterable[Mapping[str, Any]]]) -> frozenset[tuple[str, str]]:
        return frozenset(
            (table, str(one["name"])) for (_, table), some in found.items() for one in some
        )

    columns = inspector.get_multi_columns(filter_names=known)
    return SchemaContents(
        tables, named(columns), named(inspector.get_multi_indexes(filter_names=known))
    )


def sync_schema(database: Database) -> None:
    """Bring the schema to the newest revision; safe when several workers start at once.

    The triggers of the log of changes are made, those that were lost as well, where the database
    is to have it and its server lets it be exact. Raises as :func:`refuse_unknown_revision`.
    """

    def upgrade(connection: Connection) -> None:
        with one_at_a_time(connection):
            configuration = _configuration()
            configuration.attributes["connection"] = connection
            command.upgrade(configuration, "head")

    found = current_revision(database)
    if found != newest_revision():
        refuse_unknown_revision(found)
        database.write(upgrade)
    if database.logs_changes:
        _log_changes(database)


def _log_changes(database: Database) -> None:
    with database.read() as connection:
        unsupported = why_unsupported(connection)
        complete = not missing_triggers(connection)
    if unsupported is not None:
        LOG.warning(
            "[placement] providers_in_memory has no effect, for changes cannot be logged: %s; set "
            "it to false",
            unsupported,
        )
    elif not complete:
        _with_triggers(database, make_triggers)


def stop_logging(database: Database) -> bool:
    """Remove the triggers of the log of changes where the database is not to have it.

    Also where its server does not let it be exact. Return whether there were any.
    """
    with database.read() as connection:
        wanted = database.logs_changes and why_unsupported(connection) is None
        if wanted or not has_triggers(connection):
            return False
    _with_triggers(database, remove_triggers)
    return True


def _with_triggers(database: Database, change: Callable[[Connection], None]) -> None:
    """Create or remove triggers; wait briefly for transactions that use the tables, then retry.

    MariaDB keeps everything waiting that wants a table after a statement that changes it. Two
    transactions of one client could so wait for each other.
    """

    def work(connection: Connection) -> None:
        with one_at_a_time(connection), _brief_waits(connection):
            change(connection)

    retrying(
        lambda: database.write(work),
        _ATTEMPTS,
        on=Unavailable,
        when=lambda failure: conflict_of(failure) == LOCK_TIMEOUT,
        between=lambda _number: time.sleep(_PAUSE),
    )


@contextmanager
def _brief_waits(connection: Connection) -> Iterator[None]:
    if connection.dialect.name not in {"mysql", "mariadb"}:
        yield
        return
    connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {_WAIT}")
    try:
        yield
    finally:
        connection.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")


def current_revision(database: Database) -> str | None:
    """Return the revision of the database, or None where our schema is not there."""
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return context.get_current_revision()


@cache
def newest_revision() -> str:
    """Return the revision that this release needs."""
    head = ScriptDirectory.from_config(_configuration()).get_current_head()
    if head is None:  # pragma: no cover - the package always ships migrations
        raise Unavailable("this installation ships no migrations")
    return head


def refuse_unknown_revision(found: str | None) -> None:
    """Raise for a revision that this release does not have.

    :class:`NewerSchema` for one of a newer release, :class:`Unavailable` for one of a development
    version before the first release.
    """
    known = {one.revision for one in ScriptDirectory.from_config(_configuration()).walk_revisions()}
    if found is None or found in known:
        return
    if found < min(known):
        raise Unavailable(
            f"the database schema is at revision {found}, of a development version: this release "
            f"upgrades from revision {min(known)} on; see the release notes"
        )
    raise NewerSchema(
        f"the database schema is at revision {found}, of a newer release: this one has "
        f"revisions up to {newest_revision()}; start the newer release, or restore a backup of "
        "before its upgrade"
    )


def _configuration() -> Config:
    # The migrations are beside the package in a checkout, in it in a wheel.
    package = Path(__file__).resolve().parent.parent
    beside = package.parent / "alembic"
    scripts = beside if (beside / "env.py").exists() else package / "_migrations"
    configuration = Config()
    configuration.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return configuration


#: Where OpenStack placement keeps its revision.
OPENSTACK_SCHEMA_VERSION_TABLE = "alembic_version"

#: The newest revision without consumer types, and the one that brings them.
TRAIN, XENA = "b5c396305c25", "422ece571366"

#: The revisions that can be taken over, oldest first, and the releases that end on each, as the
#: ``placement-manage db version`` of each release on PyPI says after its ``db sync``.
REVISIONS: Mapping[str, str] = {
    TRAIN: "Train to Wallaby (2.0 to 5.0)",
    XENA: "Xena to 2023.1 (6.0 to 9.0)",
    "a082b8bb98d0": "2023.2 to 2026.1 (10.0 to 16.0)",
}
#: Any of these shows that this service has worked on a database. Alembic makes the first of them
#: before anything else, so a schema of ours that was left half made is known by it as well.
_OWN_NAMES = frozenset({VERSION_TABLE, *(table.name for table in OWN_TABLES)})
#: Revisions of Stein, and those that a ``db sync`` to Train passes on its way.
TOO_OLD = frozenset({"b4ed3a175331", "611cd6dffd7b"})

_version = table(OPENSTACK_SCHEMA_VERSION_TABLE, column("version_num", String(32)))

_ADD_TYPE = "ALTER TABLE consumers ADD COLUMN consumer_type_id INTEGER"
_KEY = "CONSTRAINT consumers_consumer_type_id_fkey"


@dataclass(frozen=True, slots=True)
class Found:
    """What of OpenStack placement's schema a database has; columns are ``table.column``."""

    #: What its version table says; empty where there is none, or nothing in it.
    revisions: tuple[str, ...]
    tables: frozenset[str]
    missing_tables: tuple[str, ...]
    missing_columns: tuple[str, ...]
    #: Whether any table of this service is there.
    ours: bool

    @property
    def foreign(self) -> bool:
        """Return whether placement's tables are there and this service has not made them."""
        return bool(self.tables) and not self.ours

    @property
    def adopted(self) -> bool:
        """Return whether OpenStack placement made the database and this service has adopted it."""
        return bool(self.revisions) and bool(self.tables) and self.ours

    @property
    def revision(self) -> str | None:
        """Return its revision, or None where that table says none or several."""
        return self.revisions[0] if len(self.revisions) == 1 else None

    @property
    def complete(self) -> bool:
        """Return whether everything that this service reads and writes of it is there."""
        return not self.missing_tables and not self.missing_columns


def look(connection: Connection) -> Found:
    """Return what of OpenStack placement's schema the database has."""
    inspector = inspect(connection)
    there = set(inspector.get_table_names())
    wanted = {one.name: one for one in PLACEMENT_TABLES}
    tables = there & set(wanted)
    columns = inspector.get_multi_columns(filter_names=sorted(tables)) if tables else {}
    has = {(table, one["name"]) for (_, table), some in columns.items() for one in some}
    needed = {(table, one.name) for table in tables for one in wanted[table].columns}
    return Found(
        revisions=_revisions(connection) if OPENSTACK_SCHEMA_VERSION_TABLE in there else (),
        tables=frozenset(tables),
        missing_tables=tuple(sorted(set(wanted) - tables)),
        missing_columns=tuple(f"{table}.{name}" for table, name in sorted(needed - has)),
        ours=not _OWN_NAMES.isdisjoint(there),
    )


def is_recorded(connection: Connection) -> bool:
    """Return whether a revision of OpenStack placement is written down in the database.

    It stays there for good once that service has made the database, adopted or not.
    """
    return inspect(connection).has_table(OPENSTACK_SCHEMA_VERSION_TABLE) and bool(
        _revisions(connection)
    )


def _revisions(connection: Connection) -> tuple[str, ...]:
    return tuple(sorted(str(one) for one in connection.scalars(select(_version.c.version_num))))


def add_consumer_types(connection: Connection) -> None:
    """Make the step from Train's revision to Xena's, as Xena's ``placement-manage db sync`` does.

    A table, a column that may be empty and an index are added, and the revision is written down:
    later releases' ``db sync`` go on from there, and a service of an earlier release that runs on
    the database meanwhile does not notice. A step that died half way (MariaDB commits each
    statement by itself) is finished.
    """
    with one_at_a_time(connection):
        found = look(connection)
        if found.revision != TRAIN:
            return
        types = consumer_types.to_metadata(MetaData())
        if collation := collation_for_own_tables(connection):
            types.kwargs["mysql_collate"] = collation
        types.create(connection, checkfirst=True)
        if "consumers.consumer_type_id" in found.missing_columns:
            # One statement for both: MariaDB commits each, and a column without its key would stay.
            on_sqlite = connection.dialect.name == "sqlite"
            key = _KEY if on_sqlite else f", ADD {_KEY} FOREIGN KEY (consumer_type_id)"
            connection.execute(text(f"{_ADD_TYPE} {key} REFERENCES consumer_types (id)"))
        for index in consumers.indexes:
            if index.name == "consumers_consumer_type_id_idx":
                index.create(connection, checkfirst=True)
        connection.execute(
            update(_version).where(_version.c.version_num == TRAIN).values(version_num=XENA)
        )
