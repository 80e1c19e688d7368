# SPDX-License-Identifier: Apache-2.0
"""The console sessions of the operator's guide print the documented output.

A test runs the parts of a page in a directory of its own with ``examples/small_cloud``, from top to
bottom. A code block with a
caption becomes the file of that name. A ``console`` block of the class ``played`` is a session:
a shell runs the lines after ``$``, and the lines below are the expected output, with ``...`` for
text that differs. The class ``status-1`` gives the exit status of the commands.
``placement-sched serve`` runs until the page ends or starts another server, and exported variables
stay set until the page ends.

The environment has only ``PATH``, ``HOME`` and ``COLUMNS``. The reports of hosts are an hour older
after each ``curl``, as for a slow reader.
"""

import doctest
import os
import re
import shutil
import sqlite3
import subprocess
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from tests.docs.pages import PageCommand, PageFile, parse_files_and_commands
from tests.support.repository import ROOT
from tests.support.servers import PROGRAM, PROGRAMS_FOLDER, start_server

pytestmark = pytest.mark.exhaustive

GUIDE_FOLDER = Path(__file__).parents[2] / "doc" / "source"
#: The address of the server on all pages.
SERVER_URL = "http://127.0.0.1:8778"


#: The tables with the time of the last report, and a statement that makes it an hour older.
_SELECT_REPORT_TABLES = (
    "SELECT name FROM sqlite_master WHERE name IN ('sched_compute_nodes', 'sched_services')"
)
_SET_REPORTS_ONE_HOUR_BACK = (
    "UPDATE {} SET last_seen_up = strftime('%Y-%m-%d %H:%M:%f000', last_seen_up, '-1 hour')"
)


_FILES_AND_COMMANDS_BY_PAGE = {
    path.stem: list(parse_files_and_commands(path.read_text()))
    for path in sorted(GUIDE_FOLDER.glob("*.rst"))
}
PAGES_WITH_COMMANDS = {
    page: parts
    for page, parts in _FILES_AND_COMMANDS_BY_PAGE.items()
    if any(isinstance(part, PageCommand) for part in parts)
}


class PageShell:
    """A shell in a directory of its own, and the last server that it started."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._address = SERVER_URL
        self._files: list[PageFile] = []
        self._environment = {
            "PATH": os.pathsep.join([str(PROGRAMS_FOLDER), "/usr/bin", "/bin"]),
            "HOME": str(folder),
            "COLUMNS": "80",
        }

    def write_file(self, file: PageFile) -> None:
        self._files.append(file)
        path = self._folder / file.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self._replace_page_url(file.content))

    def run_command(self, command: PageCommand) -> None:
        if exported := re.fullmatch(r"export (\w+)=(\S+)", command.line):
            self._environment[exported[1]] = self._replace_page_url(exported[2])
            return
        if command.line.startswith("placement-sched serve") and not command.status:
            printed = self._start_server(command.line)
        else:
            printed = self._run_in_bash(command)
        if command.line.startswith("curl "):
            self._set_reports_one_hour_old()
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        if command.output:
            checker = doctest.OutputChecker()
            assert checker.check_output(command.output, self._restore_page_url(printed), flags), (
                f"$ {command.line}\n{self._restore_page_url(printed)}"
            )

    def _set_reports_one_hour_old(self) -> None:
        for path in self._folder.rglob("*.db"):
            with closing(sqlite3.connect(path, timeout=30)) as database, database:
                for (table,) in database.execute(_SELECT_REPORT_TABLES).fetchall():
                    database.execute(_SET_REPORTS_ONE_HOUR_BACK.format(table))

    def _run_in_bash(self, command: PageCommand) -> str:
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self._replace_page_url(command.line)],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )
        assert result.returncode == command.status, f"$ {command.line}\n{result.stdout}"
        return result.stdout

    def _start_server(self, line: str) -> str:
        self._stack.close()  # end the previous server
        server = self._stack.enter_context(
            start_server(
                *line.split()[2:], folder=self._folder, variables=self._environment, program=PROGRAM
            )
        )
        self._address = server.url
        for file in self._files:
            (self._folder / file.name).write_text(self._replace_page_url(file.content))
        return server.log.read_text()

    def _replace_page_url(self, text: str) -> str:
        return text.replace(SERVER_URL, self._address)

    def _restore_page_url(self, text: str) -> str:
        return text.replace(self._address, SERVER_URL)


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS)
def test_guide_commands_print_the_documented_output(page: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples/small_cloud", tmp_path / "examples/small_cloud")
    with ExitStack() as stack:
        console = PageShell(tmp_path, stack)
        for part in PAGES_WITH_COMMANDS[page]:
            if isinstance(part, PageFile):
                console.write_file(part)
            else:
                console.run_command(part)


def test_every_page_with_played_commands_is_tested() -> None:
    sessions = {
        path.stem for path in GUIDE_FOLDER.glob("*.rst") if ":class: played" in path.read_text()
    }
    assert sessions == set(PAGES_WITH_COMMANDS)


def test_reference_of_the_adoption_runs_placement_audit_after_db_adopt() -> None:
    parts = PAGES_WITH_COMMANDS["adopt_reference"]
    lines = [part.line for part in parts if isinstance(part, PageCommand)]
    commands = [" ".join(line.split()[:3]) for line in lines]
    adopting = commands.index("placement-sched db adopt")
    assert "placement-sched placement audit" in commands[adopting:]
