"""The configured database, for commands that work on it directly."""

from collections.abc import Iterator
from contextlib import contextmanager

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database


@contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """Give the configured database, its connections closed at the end."""
    database = Database(settings)
    try:
        yield database
    finally:
        database.dispose()


def shown(database: Database) -> str:
    """Return the database's URL as it may be shown: without its password."""
    return database.url.render_as_string(hide_password=True)
