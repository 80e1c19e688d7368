# SPDX-License-Identifier: Apache-2.0
"""Access of commands to the configured database, without a server."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from placement_sched.config.settings import Settings
from placement_sched.db.engine import build_database_url
from placement_sched.db.transaction import Database
from placement_sched.errors import NotAdopted, Unavailable
from placement_sched.model.extension import load_hooks
from placement_sched.operations.adopt import check_adopted
from placement_sched.scheduler.plugins import read_settings


def reads_file(arguments: argparse.Namespace) -> bool:
    """Return whether a command reads a fleet file instead of a database."""
    return any(getattr(arguments, name, None) for name in ("fleet", "look", "nova_conf"))


def read_command_settings(arguments: argparse.Namespace) -> Settings:
    """Read settings. Raise :class:`Unavailable` for a disabled extension."""
    if reads_file(arguments):
        (files,) = load_hooks("fleet_files")
        settings: Settings = files.read_settings(arguments)
    else:
        settings = read_settings(arguments.config_file)
    extension = getattr(arguments, "extension", "")
    if extension in settings.DEFAULT.disabled_extensions:
        raise Unavailable(f"the extension {extension} is disabled by [DEFAULT] disabled_extensions")
    return settings


@contextmanager
def read_configuration(
    arguments: argparse.Namespace, *, must_exist: bool = False
) -> Iterator[tuple[Settings, Database]]:
    """Yield the settings and the database, which perhaps ``must_exist``."""
    settings = read_command_settings(arguments)
    with Database(settings) as database:
        if must_exist:
            check_file_exists(database)
        yield settings, database


def find_file(database: Database) -> Path | None:
    """Return the file of an SQLite database, or None for a database server."""
    is_file = database.url.get_backend_name() == "sqlite"
    return Path(str(database.url.database)) if is_file else None


def is_missing(database: Database) -> bool:
    """Return whether the first write would create the SQLite file."""
    file = find_file(database)
    return file is not None and not file.exists() and file.parent.is_dir()


def check_file_exists(database: Database, instead: str = "") -> None:
    """Raise :class:`Unavailable` for a missing SQLite file."""
    file = find_file(database)
    if file is not None and not file.is_file():
        alternative = f"{instead}, " if instead else ""
        raise Unavailable(
            f"the database {file} does not exist: {alternative}name another with --config-file, "
            "or create it with placement-sched db sync"
        )


def check_database_adopted(settings: Settings) -> None:
    """Raise :class:`NotAdopted` for a reachable database of OpenStack's own."""
    with Database(settings) as database:
        try:
            if not is_missing(database):
                check_adopted(database)
        except NotAdopted:
            raise
        except Unavailable:
            return


def hide_password(database: Database) -> str:
    """Return the database's URL without the password."""
    return database.url.render_as_string(hide_password=True)


def describe_database(settings: Settings) -> str:
    """Return the URL of the configured database, without the password."""
    return build_database_url(settings).render_as_string(hide_password=True)
