# SPDX-License-Identifier: Apache-2.0
"""Applications with a configuration file."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.config.conf import read_files
from placement_sched.config.settings import Settings
from placement_sched.scheduler.plugins import make_full_conf


@pytest.fixture
def make_configured_settings(tmp_path: Path, sqlite_url: str) -> Callable[[str], Settings]:
    """Return a function that makes settings for SQLite from the text of a file."""

    def make_configured_settings(text: str) -> Settings:
        file = tmp_path / "placement.conf"
        file.write_text(f"{text}\n[placement_database]\nconnection = {sqlite_url}\n")
        return Settings.from_conf(read_files(make_full_conf(), [str(file)]))

    return make_configured_settings


@pytest.fixture
def make_configured_app(
    make_configured_settings: Callable[[str], Settings],
) -> Iterator[Callable[[str], TestApp]]:
    """Return a function that makes a client of an application with this configuration file."""
    applications = []

    def build_app(text: str) -> TestApp:
        applications.append(create_app(make_configured_settings(text)))
        return TestApp(applications[-1])

    yield build_app
    for application in applications:
        application.close()


@pytest.fixture
def make_app_with_policy_rules(
    make_configured_app: Callable[[str], TestApp], tmp_path: Path
) -> Callable[[dict[str, str]], TestApp]:
    """Return a function that makes a client of an application with policy rules."""

    def build_app(rules: dict[str, str]) -> TestApp:
        file = tmp_path / "rules.yaml"
        file.write_text("".join(f'"{rule}": "{check}"\n' for rule, check in rules.items()))
        return make_configured_app(f"[oslo_policy]\npolicy_file = {file}\n")

    return build_app
