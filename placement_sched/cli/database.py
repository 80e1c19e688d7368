# SPDX-License-Identifier: Apache-2.0
"""Access of commands to the configured database, without a server."""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from placement_sched.config.settings import Settings
from placement_sched.db.engine import build_database_url
from placement_sched.db.transaction import Database
from placement_sched.errors import NotAdopted, Unavailable
from placement_sched.model.extension import load_hooks
from placement_sched.operations.adopt import check_adopted
from placement_sched.scheduler.plugins import read_settings


def add_cloud_sources(parser: argparse.ArgumentParser, *, has_login: bool) -> None:
    """Add the options of extensions for other clouds than the database."""
    sources = load_hooks("cloud_source")
    for source in sources:
        source.add_arguments(parser, has_login=has_login)
    parser.set_defaults(cloud_sources=sources)


def find_cloud_source(arguments: argparse.Namespace) -> Any:
    """Return the module of the source that options select, or None."""
    sources = getattr(arguments, "cloud_sources", ())
    return next((source for source in sources if source.is_selected(arguments)), None)


def read_command_settings(arguments: argparse.Namespace) -> Settings:
    """Read settings. Raise :class:`Unavailable` for a disabled extension."""
    source = find_cloud_source(arguments)
    settings: Settings = (
        source.read_settings(arguments) if source else read_settings(arguments.config_file)
    )
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
