"""The configured database, for commands that work on it directly."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable


@contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """Give the configured database, its connections closed at the end."""
    database = Database(settings)
    try:
        yield database
    finally:
        database.dispose()


def refuse_absent_file(database: Database) -> None:
    """Raise :class:`Unavailable` for an SQLite file that is not there: to ask would make it."""
    if database.url.get_backend_name() != "sqlite":
        return
    file = Path(str(database.url.database))
    if not file.is_file():
        raise Unavailable(
            f"there is no database {file} here; --url asks a server, --config-file names another "
            "database, and placement-sched db sync makes it"
        )


def shown(database: Database) -> str:
    """Return the database's URL as it may be shown: without its password."""
    return database.url.render_as_string(hide_password=True)
