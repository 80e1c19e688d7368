# SPDX-License-Identifier: Apache-2.0
"""A nova in SQLite files, and the command line in this process."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from placement_sched.cli.main import main
from tests.support.nova_clouds import NovaCloud, sqlite_nova


@pytest.fixture
def nova(tmp_path: Path) -> Iterator[NovaCloud]:
    """Two nova cells. own.conf names a database that does not exist yet."""
    cloud = sqlite_nova(tmp_path, "one", "two")
    (tmp_path / "nova.conf").write_text(f"[api_database]\nconnection = {cloud.api.url}\n")
    ours = f"[placement_database]\nconnection = sqlite:///{tmp_path / 'ours.db'}\n"
    (tmp_path / "own.conf").write_text(ours)
    yield cloud
    cloud.close()


class CommandResult:
    """Output and exit status of a command."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run_command(tmp_path: Path, nova: NovaCloud, capsys) -> Callable[..., CommandResult]:
    """Return a function that runs a command with both configuration files."""
    files = [part for name in ("nova", "own") for part in ("--config-file", f"{name}.conf")]

    def run_command(*arguments: str) -> CommandResult:
        options = [str(tmp_path / part) if part.endswith(".conf") else part for part in files]
        status = main([*arguments, *options])
        return CommandResult(status, *capsys.readouterr())

    return run_command
