# SPDX-License-Identifier: Apache-2.0
"""Schema migrations with alembic, separate from OpenStack placement's."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from oslo_log import log
from sqlalchemy import (
    Connection,
    MetaData,
    String,
    Table,
    column,
    inspect,
    select,
    table,
    text,
    update,
)
from sqlalchemy.schema import CreateTable

from placement_sched.db.collations import find_own_collation
from placement_sched.db.engine import limit_connection_silence
from placement_sched.db.errors import LOCK_TIMEOUT, find_conflict_kind
from placement_sched.db.leases import Lease
from placement_sched.db.tables import (
    OWN_TABLES,
    PLACEMENT_TABLES,
    consumer_types,
    consumers,
    leases,
)
from placement_sched.db.transaction import Database
from placement_sched.db.triggers import (
    find_missing_triggers,
    find_unsupported_reason,
    has_triggers,
    list_removal_statements,
    make_triggers,
    remove_triggers,
)
from placement_sched.errors import NewerSchema, Unavailable
from placement_sched.model.retry import call_with_retries

LOG = log.getLogger(__name__)

#: Seconds of the lease that is the migration lock of a Galera cluster. After that time another
#: process may take the lease. A longer migration on a cluster is not protected: the guide says to
#: start a single process.
MAX_LOCK_AGE = 600
_LOCK_NAME = "placement_sched_schema"
_LOCK_NUMBER = 7305212
#: Seconds to wait for MariaDB's lock before a warning is logged.
_LOCK_WAIT = 60
#: Seconds between two attempts to take the lease.
_LEASE_PAUSE = 0.2

#: Differs from ``alembic_version``, the table of OpenStack placement's revision.
VERSION_TABLE = "placement_sched_alembic_version"

#: MariaDB's metadata lock timeout for trigger statements in seconds, the seconds between two
#: attempts, and the maximum number of attempts.
_TRIGGER_LOCK_WAIT, _TRIGGER_PAUSE, _MAX_TRIGGER_ATTEMPTS = 2, 1.0, 60

#: The table of OpenStack placement's revision.
OPENSTACK_SCHEMA_VERSION_TABLE = "alembic_version"

#: The newest revision without consumer types, and the revision that adds them.
TRAIN, XENA = "b5c396305c25", "422ece571366"

#: The revisions that can be adopted, oldest first, with the releases that end on each. Source: the
#: output of ``placement-manage db version`` of each release on PyPI after its ``db sync``.
REVISIONS: Mapping[str, str] = {
    TRAIN: "Train to Wallaby (2.0 to 5.0)",
    XENA: "Xena to 2023.1 (6.0 to 9.0)",
    "a082b8bb98d0": "2023.2 to 2026.2 (10.0 to 16.0)",
}
#: The tables that show that this service has used a database. Alembic creates the first before the
#: others, so that an incomplete schema of ours is recognised.
OWN_NAMES = frozenset({VERSION_TABLE, *(table.name for table in OWN_TABLES)})
#: Revisions of Stein, and the intermediate revisions of a ``db sync`` to Train.
TOO_OLD = frozenset({"b4ed3a175331", "611cd6dffd7b"})

_version = table(OPENSTACK_SCHEMA_VERSION_TABLE, column("version_num", String(32)))

_ADD_TYPE = "ALTER TABLE consumers ADD COLUMN consumer_type_id INTEGER"
_KEY = "CONSTRAINT consumers_consumer_type_id_fkey"


@contextmanager
def hold_migration_lock(database: Database, connection: Connection) -> Iterator[None]:
    """Hold the migration lock, so that workers migrate in sequence.

    Statements have no time limit, since a change of a large table may take hours. On SQLite the
    write transaction is the lock. MariaDB commits after each table, so that its lock belongs to the
    session or, on a Galera cluster, is a lease.
    """
    dialect = connection.dialect.name
    with limit_connection_silence(connection, None):
        if dialect == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})"))
        if dialect in {"postgresql", "sqlite"}:
            yield
            return
        if _is_galera(connection):
            lease = _take_lease(database, connection)
            try:
                yield
            finally:
                lease.release()
            return
        while connection.scalar(text(f"SELECT GET_LOCK('{_LOCK_NAME}', {_LOCK_WAIT})")) != 1:
            LOG.warning("waiting for another process that changes the schema")
        try:
            yield
        finally:
            connection.execute(text(f"SELECT RELEASE_LOCK('{_LOCK_NAME}')"))


def _is_galera(connection: Connection) -> bool:
    row = connection.execute(text("SHOW VARIABLES LIKE 'wsrep_on'")).first()
    return row is not None and row[1] == "ON"


def _take_lease(database: Database, connection: Connection) -> Lease:
    # An empty database has no leases. Galera executes CREATE TABLE in the same order on all nodes.
    table = _copy_in_own_collation(connection, leases)
    connection.execute(CreateTable(table, if_not_exists=True))
    lease, is_waiting = Lease(database, "schema", MAX_LOCK_AGE), False
    while not lease.is_held():
        if not is_waiting:
            LOG.warning("waiting for another process that changes the schema through another node")
        is_waiting = True
        time.sleep(_LEASE_PAUSE)
    return lease


def _copy_in_own_collation(connection: Connection, table: Table) -> Table:
    copy = table.to_metadata(MetaData())
    if collation := find_own_collation(connection):
        copy.kwargs["mysql_collate"] = collation
    return copy


def sync_schema(database: Database) -> None:
    """Upgrade the schema to the newest revision, under the migration lock.

    Also creates missing triggers of the change log if the log is enabled and the server supports
    it. Raises the errors of :func:`check_revision`.
    """

    def upgrade(connection: Connection) -> None:
        with hold_migration_lock(database, connection):
            configuration = _build_configuration()
            configuration.attributes["connection"] = connection
            command.upgrade(configuration, "head")

    revision = read_current_revision(database)
    if revision != get_newest_revision():
        check_revision(revision)
        database.write(upgrade)
    if not database.logs_changes:
        return
    with database.read() as connection:
        reason = find_unsupported_reason(connection)
        is_complete = not find_missing_triggers(connection)
    if reason is not None:
        LOG.warning(
            "[placement] providers_in_memory has no effect, because changes cannot be logged: %s. "
            "Set it to false",
            reason,
        )
    elif not is_complete:
        change_under_lock(database, make_triggers)


def stop_logging(database: Database) -> bool:
    """Remove unneeded triggers of the log, and return whether there were any."""
    with database.read() as connection:
        is_wanted = database.logs_changes and find_unsupported_reason(connection) is None
        if is_wanted or not has_triggers(connection):
            return False
    change_under_lock(database, remove_triggers)
    return True


def change_under_lock(database: Database, change: Callable[[Connection], None]) -> None:
    """Change triggers or drop tables with short lock waits and retries.

    On MariaDB all statements that use a table wait until a pending change of the table is done.
    With a long wait, two transactions of the same client could block each other.
    """

    def run_change(connection: Connection) -> None:
        with hold_migration_lock(database, connection), _shorten_lock_waits(connection):
            change(connection)

    call_with_retries(
        lambda: database.write(run_change),
        _MAX_TRIGGER_ATTEMPTS,
        on=Unavailable,
        when=lambda failure: find_conflict_kind(failure) == LOCK_TIMEOUT,
        between=lambda _number: time.sleep(_TRIGGER_PAUSE),
    )


@contextmanager
def _shorten_lock_waits(connection: Connection) -> Iterator[None]:
    if connection.dialect.name not in {"mysql", "mariadb"}:
        yield
        return
    connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {_TRIGGER_LOCK_WAIT}")
    try:
        yield
    finally:
        connection.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")


def list_leave_statements(connection: Connection) -> list[str]:
    """Return the SQL that removes this service from placement's database.

    The triggers come first, because without their tables no write succeeds, and the table of the
    revision last, so that an interrupted removal can be repeated.
    """
    inspector = inspect(connection)
    existing = set(inspector.get_table_names())
    head, index = [], []
    if connection.dialect.name == "postgresql":
        schema = connection.exec_driver_sql("SELECT quote_ident(current_schema())").scalar_one()
        head.append(f"SET LOCAL search_path TO {schema}")
        index = [
            f"DROP INDEX IF EXISTS {name}"
            for item in inspector.get_indexes("allocations")
            if (name := str(item["name"])).startswith("sched_")
        ]
    names = [table.name for table in reversed(OWN_TABLES)]
    tables = [name for name in (*names, VERSION_TABLE) if name in existing]
    return [
        *head,
        *list_removal_statements(connection),
        *index,
        *(f"DROP TABLE IF EXISTS {name}" for name in tables),
    ]


def read_current_revision(database: Database) -> str | None:
    """Return the recorded revision of our schema, or None without a schema."""
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return context.get_current_revision()


@cache
def get_newest_revision() -> str:
    """Return the schema revision of this release."""
    return str(ScriptDirectory.from_config(_build_configuration()).get_current_head())


def check_revision(revision: str | None) -> None:
    """Raise NewerSchema or Unavailable for a revision of another release."""
    ids = {
        item.revision
        for item in ScriptDirectory.from_config(_build_configuration()).walk_revisions()
    }
    if revision is None or revision in ids:
        return
    if revision < min(ids):
        raise Unavailable(
            f"the database schema is at revision {revision} of a development version, but this "
            f"release upgrades from revision {min(ids)} on. CHANGELOG.md names the version that "
            "upgrades the database to it"
        )
    raise NewerSchema(
        f"the database schema is at revision {revision} of a newer release, but this release has "
        f"revisions up to {get_newest_revision()}. Start the newer release, or restore a backup "
        "from before the upgrade"
    )


def _build_configuration() -> Config:
    # The migrations are next to the package in a checkout, and inside it in a wheel.
    package = Path(__file__).resolve().parent.parent
    checkout = package.parent / "alembic"
    scripts = checkout if (checkout / "env.py").exists() else package / "_migrations"
    configuration = Config()
    configuration.set_main_option("script_location", str(scripts).replace("%", "%%"))
    return configuration


@dataclass(frozen=True, slots=True)
class PlacementSchema:
    """State of OpenStack placement's schema, with columns as ``table.column``."""

    #: The contents of its version table. Empty without such a table.
    revisions: tuple[str, ...]
    #: All tables of the database.
    existing: frozenset[str]
    tables: frozenset[str]
    missing_tables: tuple[str, ...]
    missing_columns: tuple[str, ...]
    #: Pairs of table and index.
    indexes: frozenset[tuple[str, str]]

    @property
    def ours(self) -> bool:
        """Whether the database has any table of this service."""
        return not OWN_NAMES.isdisjoint(self.existing)

    @property
    def foreign(self) -> bool:
        """Return whether placement's tables exist, but no table of this service."""
        return bool(self.tables) and not self.ours

    @property
    def adopted(self) -> bool:
        """Return whether this service has adopted placement's database."""
        return bool(self.revisions) and bool(self.tables) and self.ours

    @property
    def revision(self) -> str | None:
        """Return the only revision in placement's version table, or None."""
        return self.revisions[0] if len(self.revisions) == 1 else None

    @property
    def has_unknown_revision(self) -> bool:
        """Return whether a revision is not placement's, but nova's, for example."""
        return bool(self.revisions) and not {*self.revisions} <= {*REVISIONS, *TOO_OLD}

    @property
    def complete(self) -> bool:
        """Return whether no table or column of placement is missing."""
        return not self.missing_tables and not self.missing_columns


def inspect_schema(connection: Connection) -> PlacementSchema:
    """Inspect OpenStack placement's schema in the database."""
    inspector = inspect(connection)
    existing = frozenset(inspector.get_table_names())
    expected = {table.name: table for table in PLACEMENT_TABLES}
    tables = existing & expected.keys()

    def collect_names(
        by_table: Mapping[Any, Iterable[Mapping[str, Any]]],
    ) -> frozenset[tuple[str, str]]:
        return frozenset(
            (table, str(item["name"])) for (_, table), items in by_table.items() for item in items
        )

    names = sorted(tables)
    columns = collect_names(inspector.get_multi_columns(filter_names=names) if names else {})
    needed = {(table, item.name) for table in tables for item in expected[table].columns}
    return PlacementSchema(
        revisions=_list_revisions(connection) if OPENSTACK_SCHEMA_VERSION_TABLE in existing else (),
        existing=existing,
        tables=tables,
        missing_tables=tuple(sorted(expected.keys() - tables)),
        missing_columns=tuple(f"{table}.{name}" for table, name in sorted(needed - columns)),
        indexes=collect_names(inspector.get_multi_indexes(filter_names=names) if names else {}),
    )


def is_recorded(connection: Connection) -> bool:
    """Return whether placement's revision is recorded, even after adoption."""
    return inspect(connection).has_table(OPENSTACK_SCHEMA_VERSION_TABLE) and bool(
        _list_revisions(connection)
    )


def _list_revisions(connection: Connection) -> tuple[str, ...]:
    return tuple(sorted(str(name) for name in connection.scalars(select(_version.c.version_num))))


def add_consumer_types(database: Database) -> None:
    """Upgrade Train's schema to Xena's, like ``placement-manage db sync``.

    Adds a table, a nullable column and an index, and sets the revision, so that ``db sync`` of
    later releases continues from there. Running services of earlier releases are not affected. An
    interrupted upgrade (MariaDB commits each statement) is completed.
    """

    def upgrade(connection: Connection) -> None:
        with hold_migration_lock(database, connection):
            schema = inspect_schema(connection)
            if schema.revision != TRAIN:
                return
            _copy_in_own_collation(connection, consumer_types).create(connection, checkfirst=True)
            if "consumers.consumer_type_id" in schema.missing_columns:
                # A single statement: MariaDB would commit a column without its foreign key.
                on_sqlite = connection.dialect.name == "sqlite"
                key = _KEY if on_sqlite else f", ADD {_KEY} FOREIGN KEY (consumer_type_id)"
                connection.execute(text(f"{_ADD_TYPE} {key} REFERENCES consumer_types (id)"))
            for index in consumers.indexes:
                if index.name == "consumers_consumer_type_id_idx":
                    index.create(connection, checkfirst=True)
            is_train = _version.c.version_num == TRAIN
            connection.execute(update(_version).where(is_train).values(version_num=XENA))

    database.write(upgrade)
