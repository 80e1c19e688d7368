"""The configured database, for commands that work on it directly."""

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


@contextmanager
def open_database(settings: Settings) -> Iterator[Database]:
    """Give the configured database, its connections closed at the end."""
    database = Database(settings)
    try:
        yield database
    finally:
        database.dispose()


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


def is_yet_to_be_made(database: Database) -> bool:
    """Return whether it is an SQLite file that is not there, and that who writes would make."""
    if not is_embedded(database):
        return False
    file = Path(str(database.url.database))
    return not file.exists() and file.parent.is_dir()


def is_embedded(database: Database) -> bool:
    """Return whether it is an SQLite file: whoever comes first prepares it, as a server does."""
    return database.url.get_backend_name() == "sqlite"


def refuse_absent_file(database: Database, instead: str = "") -> None:
    """Raise :class:`Unavailable` for an SQLite file that is not there: to ask would make it.

    ``instead`` tells what a command can ask in place of a database, where it can.
    """
    if not is_embedded(database):
        return
    file = Path(str(database.url.database))
    if not file.is_file():
        ways = f"{instead}, " if instead else ""
        raise Unavailable(
            f"there is no database {file} here; {ways}--config-file names another database, and "
            "placement-sched db sync makes it"
        )


def refuse_unadopted_database(settings: Settings) -> None:
    """Raise :class:`NotAdopted` where the configured database is OpenStack placement's alone.

    A database that does not answer is not judged: a server starts without it.
    """
    with open_database(settings) as database:
        if is_yet_to_be_made(database):
            return
        try:
            refuse_unadopted(database)
        except NotAdopted:
            raise
        except Unavailable:
            return


def shown(database: Database) -> str:
    """Return the database's URL as it may be shown: without its password."""
    return database.url.render_as_string(hide_password=True)
