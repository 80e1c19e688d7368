# SPDX-License-Identifier: Apache-2.0
"""Clouds that load and dump fleet files."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy import text

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Database
from placement_sched.operations.fleet.cloud import State, read_state
from placement_sched.operations.fleet.load import dump_file, load_file
from tests.conftest import make_settings
from tests.support.reports import NOW

INCOMPLETE_PROJECT_AND_USER = ("00000000-0000-0000-0000-000000000000",) * 2


class LoadableCloud:
    """A database that loads fleet files."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings

    def load(self, text: str, *, dry_run: bool = False) -> list[tuple[str, str, str]]:
        """Load a fleet file and return the changes."""
        changes = load_file(
            self.database, self.settings, lambda: NOW, text, "f.yaml", dry_run=dry_run
        )
        return [(change.action, change.kind, change.name) for change in changes]

    def dump(self) -> str:
        return dump_file(self.database, self.settings, lambda: NOW)

    @property
    def state(self) -> State:
        with self.database.read() as connection:
            return read_state(connection, INCOMPLETE_PROJECT_AND_USER)

    def considers_equal(self, name: str, other: str) -> bool:
        """Return whether the database compares two names as equal."""
        with self.database.read() as connection:
            return bool(connection.scalar(text(f"SELECT '{name}' = '{other}'")))


@pytest.fixture
def cloud(database, settings) -> LoadableCloud:
    """An empty cloud on each kind of database."""
    return LoadableCloud(database, settings)


@pytest.fixture(scope="session")
def empty_cloud(sqlite_template: Path, tmp_path_factory) -> Iterator[Callable[[], LoadableCloud]]:
    """Return a function that makes an empty cloud on SQLite."""
    folder = tmp_path_factory.mktemp("fleets")
    with ExitStack() as stack:

        def build_cloud() -> LoadableCloud:
            path = folder / f"{uuid4().hex}.db"
            shutil.copy(sqlite_template, path)
            settings = make_settings(f"sqlite:///{path}")
            database = Database(settings)
            stack.callback(database.dispose)
            return LoadableCloud(database, settings)

        yield build_cloud


@pytest.fixture
def sqlite_cloud(empty_cloud) -> LoadableCloud:
    return empty_cloud()
