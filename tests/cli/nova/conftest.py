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
    """A nova of two cells, whose nova.conf names a database of ours that is yet to be made."""
    cloud = sqlite_nova(tmp_path, "one", "two")
    (tmp_path / "nova.conf").write_text(f"[api_database]\nconnection = {cloud.api.url}\n")
    ours = f"[placement_database]\nconnection = sqlite:///{tmp_path / 'ours.db'}\n"
    (tmp_path / "own.conf").write_text(ours)
    yield cloud
    cloud.close()


class CommandResult:
    """What a command printed, and its exit status."""

    def __init__(self, status: int, out: str, err: str) -> None:
        self.status, self.out, self.err = status, out, err

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(tmp_path: Path, nova: NovaCloud, capsys) -> Callable[..., CommandResult]:
    """Run a command with both configuration files."""
    files = [part for name in ("nova", "own") for part in ("--config-file", f"{name}.conf")]

    def run(*arguments: str) -> CommandResult:
        given = [str(tmp_path / one) if one.endswith(".conf") else one for one in files]
        status = main([*arguments, *given])
        return CommandResult(status, *capsys.readouterr())

    return run
