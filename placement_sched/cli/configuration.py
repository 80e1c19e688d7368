"""Reading the configuration for commands that work on the database directly."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from placement_sched.config.process import CONF, read_files
from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.scheduler.loading import register_options


def read_settings(files: Sequence[str]) -> Settings:
    """Return the settings of ``files`` and the environment.

    Raises :class:`ConfigurationError` with the file or option that is wrong.
    """
    register_options(CONF)
    return Settings.from_conf(read_files(CONF, files))


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
