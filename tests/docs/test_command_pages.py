# SPDX-License-Identifier: Apache-2.0
"""The page of commands has a section for each command, equal to the output of ``--help``."""

import itertools
import sys
from importlib import import_module

import pytest

from placement_sched.cli.completion import iterate_commands
from placement_sched.cli.main import main, make_parser
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def lines_of_command_help() -> list[str]:
    sys.path.insert(0, str(ROOT / "doc/source/_ext"))
    try:
        generated = import_module("generated")
    finally:
        sys.path.pop(0)
    return list(generated.CommandHelp.lines(None))


def test_every_command_has_a_section_on_the_commands_page(lines_of_command_help):
    names = [name for name, _ in iterate_commands(make_parser((), with_all_commands=True))]
    assert len(names) > 40
    titles = [
        title
        for title, line in itertools.pairwise(lines_of_command_help)
        if line and set(line) == {"-"}
    ]
    assert titles == names


@pytest.mark.parametrize("command", [["serve"], ["db", "sync"], ["placement"]], ids=" ".join)
def test_command_page_contains_the_help_text_of_the_command(
    lines_of_command_help, command, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "90")
    with pytest.raises(SystemExit):
        main([*command, "--help"])
    printed = capsys.readouterr().out
    shown = "\n".join(line.removeprefix("   ") for line in lines_of_command_help)
    assert printed.rstrip() in shown
