"""Creates and upgrades the schema with alembic, under a version table of our own name."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable

#: OpenStack placement keeps its revision in ``alembic_version``; ours must not be mistaken for it.
VERSION_TABLE = "placement_sched_alembic_version"

_LOCK_NAME = "placement_sched_schema"
_LOCK_NUMBER = 7305212


def sync_schema(database: Database) -> None:
    """Bring the schema to the newest revision; safe when several workers start at once."""

    def upgrade(connection: Connection) -> None:
        with one_at_a_time(connection):
            configuration = _configuration()
            configuration.attributes["connection"] = connection
            command.upgrade(configuration, "head")

    database.write(upgrade)


def current_revision(database: Database) -> str | None:
    """Return the revision the database stands at, or None where our schema is not there."""
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
        return context.get_current_revision()


def newest_revision() -> str:
    """Return the revision this release wants."""
    head = ScriptDirectory.from_config(_configuration()).get_current_head()
    if head is None:  # pragma: no cover - the package always ships migrations
        raise Unavailable("this installation ships no migrations")
    return head


def _configuration() -> Config:
    configuration = Config()
    configuration.set_main_option("script_location", str(_scripts()).replace("%", "%%"))
    return configuration


def _scripts() -> Path:
    """Return the folder of the migrations: beside the package in a checkout, in it in a wheel."""
    package = Path(__file__).resolve().parent.parent
    beside = package.parent / "alembic"
    return beside if (beside / "env.py").exists() else package / "_migrations"


@contextmanager
def one_at_a_time(connection: Connection) -> Iterator[None]:
    """Hold a lock, so that workers that start together migrate in turn.

    SQLite's write transaction is such a lock already; MariaDB commits at every table it makes,
    so its lock is the session's and must be given back.
    """
    dialect = connection.dialect.name
    if dialect == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_LOCK_NUMBER})"))
    elif dialect != "sqlite":
        connection.execute(text(f"SELECT GET_LOCK('{_LOCK_NAME}', 60)"))
    try:
        yield
    finally:
        if dialect not in {"postgresql", "sqlite"}:
            connection.execute(text(f"SELECT RELEASE_LOCK('{_LOCK_NAME}')"))
