# SPDX-License-Identifier: Apache-2.0
"""Applications made from a configuration file, as operators write it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf


@pytest.fixture
def configured(tmp_path: Path, sqlite_url: str) -> Callable[[str], Settings]:
    """Give a function that reads a configuration file of this text, on an SQLite database."""

    def configured(text: str) -> Settings:
        file = tmp_path / "placement.conf"
        file.write_text(f"{text}\n[placement_database]\nconnection = {sqlite_url}\n")
        return Settings.from_conf(read_files(make_full_conf(), [str(file)]))

    return configured


@pytest.fixture
def configured_app(configured: Callable[[str], Settings]) -> Iterator[Callable[[str], TestApp]]:
    """Give a function that makes a client of an application configured by this text."""
    made = []

    def make(text: str) -> TestApp:
        made.append(create_app(configured(text)))
        return TestApp(made[-1])

    yield make
    for application in made:
        application.close()
