"""Creates and upgrades the schema with alembic, under a version table of our own name."""

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
from sqlalchemy import Connection, inspect

from placement_sched.db.change_triggers import (
    has_triggers,
    make_triggers,
    missing_triggers,
    remove_triggers,
    why_unsupported,
)
from placement_sched.db.failures import LOCK_TIMEOUT, conflict_of
from placement_sched.db.schema_turn import one_at_a_time
from placement_sched.db.tables import OWN_TABLES, PLACEMENT_TABLES
from placement_sched.db.transaction import Database
from placement_sched.errors import NewerSchema, Unavailable
from placement_sched.model.retry import retrying

LOG = log.getLogger(__name__)

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
