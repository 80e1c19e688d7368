# SPDX-License-Identifier: Apache-2.0
"""Installed packages with plugins, a second process, and applications on new databases."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from webtest import TestApp

from placement_sched.app import Application, create_app
from placement_sched.db.transaction import Database
from placement_sched.scheduler import plugins
from tests.conftest import AdminClient, default_settings, make_settings
from tests.support.conformance import CheckedApplication


@pytest.fixture
def install_package(tmp_path, monkeypatch):
    """Return a function that installs a package with entry points."""

    def install(text):
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        clear_caches()

    def clear_caches():
        plugins._list_entry_points.cache_clear()
        default_settings.cache_clear()

    yield install
    clear_caches()


@pytest.fixture
def database_of_another_process(settings):
    """Return the database as another process has it."""
    database = Database(settings)
    yield database
    database.dispose()


@pytest.fixture
def make_new_app(sqlite_template: Path, tmp_path: Path, make_app: Callable[..., TestApp]):
    """Return a function that makes an application on a new database."""

    def build_app(**values: Any) -> TestApp:
        path = tmp_path / f"{uuid4()}.db"
        shutil.copy(sqlite_template, path)
        return make_app(make_settings(f"sqlite:///{path}", **values))

    return build_app


@pytest.fixture(scope="module")
def make_shared_app(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., TestApp]]:
    """Return a function that makes an application for read-only tests."""
    applications: list[Application] = []

    def build_app(**options: Any) -> TestApp:
        path = tmp_path_factory.mktemp("shared") / "placement_sched.db"
        shutil.copy(sqlite_template, path)
        applications.append(create_app(make_settings(f"sqlite:///{path}", **options)))
        return AdminClient(CheckedApplication(applications[-1]))

    yield build_app
    for application in applications:
        application.close()
