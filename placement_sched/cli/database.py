"""The configured database, for commands that work on it directly."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.errors import NotAdopted, Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.operations.adopt import refuse_unadopted
from placement_sched.operations.prepare import sync
from placement_sched.scheduler.plugins import read_settings


@contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """Give the configured database, its connections closed at the end."""
    database = Database(settings)
    try:
        yield database
    finally:
        database.dispose()


@contextmanager
def configured(
    arguments: argparse.Namespace, *, there: bool = False
) -> Iterator[tuple[Settings, Database]]:
    """Give settings and database; :class:`Unavailable` if it must be ``there`` and is not."""
    settings = read_settings(arguments.config_file)
    with open_database(settings) as database:
        if there:
            refuse_absent_file(database)
        yield settings, database


@contextmanager
def empty_database(settings: Settings) -> Iterator[Database]:
    """Give an empty SQLite database in place of the configured one; nothing of it is left."""
    with TemporaryDirectory(prefix="placement_sched-") as folder:
        instead = {
            "placement_database.connection": f"sqlite:///{folder}/empty.db",
            "placement_database.connection_parameters": "",
        }
        with open_database(settings.overridden(instead)) as database:
            sync(database, utcnow)
            yield database


def file_of(database: Database) -> Path | None:
    """Return the file of an SQLite database, which the first command or server prepares."""
    is_file = database.url.get_backend_name() == "sqlite"
    return Path(str(database.url.database)) if is_file else None


def is_yet_to_be_made(database: Database) -> bool:
    """Return whether it is an SQLite file that does not exist yet and that a write would create."""
    file = file_of(database)
    return file is not None and not file.exists() and file.parent.is_dir()


def refuse_absent_file(database: Database, instead: str = "") -> None:
    """Raise :class:`Unavailable` for an SQLite file that does not exist: opening would create it.

    ``instead`` names the alternative to a database, where the command has one.
    """
    file = file_of(database)
    if file is not None and not file.is_file():
        ways = f"{instead}, " if instead else ""
        raise Unavailable(
            f"there is no database {file}; {ways}--config-file names another database, and "
            "placement-sched db sync creates it"
        )


def refuse_unadopted_database(settings: Settings) -> None:
    """Raise :class:`NotAdopted` where the configured database is OpenStack placement's alone.

    A database that does not answer is not judged: a server starts without it.
    """
    with open_database(settings) as database:
        try:
            if not is_yet_to_be_made(database):
                refuse_unadopted(database)
        except NotAdopted:
            raise
        except Unavailable:
            return


def shown(database: Database) -> str:
    """Return the database's URL as it may be shown: without its password."""
    return database.url.render_as_string(hide_password=True)
