# SPDX-License-Identifier: Apache-2.0
"""Browsers of the console: of a cloud of its own, and of clouds that tests share."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from webtest import TestApp

from placement_sched.app import Application, create_app
from placement_sched.config.settings import Settings
from tests.conftest import AdminClient, make_settings


@pytest.fixture
def browser(sqlite_app: TestApp) -> TestApp:
    """Return a client without a token on the application of ``sqlite_app``."""
    return TestApp(sqlite_app.app)


@pytest.fixture(scope="session")
def build_shared_app(
    sqlite_template: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], AdminClient]]:
    """Give a function that creates an application for tests that write nothing.

    ``build_settings`` gets the URL of its database and a folder.
    """
    applications: list[Application] = []

    def build_app(
        build_settings: Callable[[str, Path], Settings] = lambda url, _folder: make_settings(url),
    ) -> AdminClient:
        folder = tmp_path_factory.mktemp("console")
        shutil.copy(sqlite_template, folder / "shared.db")
        settings = build_settings(f"sqlite:///{folder}/shared.db", folder)
        applications.append(create_app(settings))
        return AdminClient(applications[-1])

    yield build_app
    for application in applications:
        application.close()


@pytest.fixture(scope="session")
def app_without_hosts(build_shared_app: Callable[[], AdminClient]) -> Application:
    """Return the application of a cloud without hosts, for tests that write nothing."""
    return build_shared_app().app
