# SPDX-License-Identifier: Apache-2.0
"""Fixtures that run ``placement-sched``, in this process or in another process."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from placement_sched.cli.main import main
from tests.support import program
from tests.support.servers import Server, environment, start_servers


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs a command to its end in an empty working directory."""

    def run(*arguments: str, stdin: str = "", **variables: str):
        return program.run(*arguments, stdin=stdin, cwd=tmp_path, env=environment(**variables))

    return run


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
        status = main(list(arguments))
        return status, *capsys.readouterr()

    return run_main
