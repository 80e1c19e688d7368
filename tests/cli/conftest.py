# SPDX-License-Identifier: Apache-2.0
"""Fixtures that run ``placement-sched``, in this process or in another process."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from placement_sched.app import create_app
from placement_sched.cli.main import main
from placement_sched.scheduler.plugins import make_full_conf, read_settings
from tests.conftest import AdminClient, make_settings
from tests.support import program
from tests.support.servers import Server, build_environment, start_servers


@pytest.fixture
def run_command(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a command to its end in an empty working directory."""

    def run_command(*arguments: str, stdin: str = "", **variables: str):
        return program.run_program(
            *arguments, stdin=stdin, cwd=tmp_path, env=build_environment(**variables)
        )

    return run_command


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Return a function that starts a server on a free port. The server stops at the end."""
    with start_servers(tmp_path) as serve:
        yield serve


@pytest.fixture
def run_main(capsys) -> Callable[..., tuple[int, str, str]]:
    """Return a function that runs a command in this process: status, stdout and stderr."""

    def run_main(*arguments: str) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = main(list(arguments))
        except SystemExit as end:  # of invalid arguments
            status = int(end.code or 0)
        return status, *capsys.readouterr()

    return run_main


@pytest.fixture
def run_cli(sqlite_url: str, monkeypatch, run_main) -> Callable[..., tuple[int, str, str]]:
    """Return a function as ``run_main``, for commands on the database of ``sqlite_url``."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    # As in the applications of tests: a host stays up however slow the tests are.
    monkeypatch.setenv("OS_DEFAULT__SERVICE_DOWN_TIME", "86400")
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__SQLITE_SYNCHRONOUS", "false")
    return run_main


def copy_filled_database(
    template: Path, folder: Path, fill: Callable[[AdminClient], object], *files: str
) -> Path:
    """Return a copy of a database that ``fill`` filled by requests, with configuration files.

    As the ``sqlite_template`` of a module, it is filled only once for all tests of the module.
    """
    path = folder / "filled.db"
    shutil.copy(template, path)
    url = f"sqlite:///{path}"
    settings = make_settings(url)
    if files:
        options = {"placement_database.connection": url}
        settings = read_settings(files, make_full_conf()).with_overrides(options)
    application = create_app(settings)
    fill(AdminClient(application))
    application.close()
    return path
