# SPDX-License-Identifier: Apache-2.0
"""Shells complete commands, options, values and files."""

import shlex
import subprocess
from contextlib import redirect_stdout

import pytest

from placement_sched.cli.completion import SHELLS, all_commands
from placement_sched.cli.main import GROUPS, main, make_parser
from tests.deploy import tool
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

#: Defines ``complete_words WORD...``: what is offered for the last one.
ASKING = """
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMPREPLY=()
    words=$(complete -p placement-sched); words=${words##*-F }; ${words%% *} "$1" "${!#}" ""
    printf '%s\\n' "${COMPREPLY[@]}"
}
"""


@pytest.fixture(scope="module")
def offered(tmp_path_factory):
    """What bash offers for a command line whose last word is not finished."""
    script = tmp_path_factory.mktemp("bash") / "completion"
    with script.open("w") as file, redirect_stdout(file):
        assert main(["completion", "bash"]) == 0

    def offered(*words: str) -> set[str]:
        line = shlex.join(["complete_words", "placement-sched", *words])
        done = subprocess.run(
            ["bash", "--norc", "-c", f". {script}\n{ASKING}\n{line}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        )
        return set(done.stdout.split())

    return offered


def test_commands_are_offered(offered):
    every = {name for summaries in GROUPS.values() for name in summaries}
    assert every <= offered("")
    assert offered("de") == {"demo", "decisions"}


def test_commands_of_a_group_options_and_values_are_offered(offered):
    assert {"sync", "version", "adopt"} <= offered("db", "")
    assert offered("db", "sync", "--fo") == {"--format"}
    assert offered("db", "sync", "--format", "") == {"text", "json"}
    assert offered("completion", "") == set(SHELLS)


def test_files_are_offered_where_one_is_named(offered, tmp_path):
    (tmp_path / "placement.conf").touch()
    found = offered("serve", "--config-file", f"{tmp_path}/pl")
    assert found == {f"{tmp_path}/placement.conf"}


@pytest.mark.parametrize("shell", SHELLS)
def test_script_names_every_command_and_option(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, parser in all_commands(make_parser((), whole=True)):
        assert name.rpartition(" ")[2] in script
        for action in parser._actions:
            for option in action.option_strings:
                shown = option if action.help != "==SUPPRESS==" else ""
                assert shown.lstrip("-") in script


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_read_their_script(shell, capsys, tmp_path):
    tool(shell)
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    subprocess.run([shell, "-n", script], check=True, timeout=60)


def test_zsh_takes_it_for_the_completion_of_the_command(capsys, tmp_path):
    zsh = tool("zsh")
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_placement-sched").write_text(capsys.readouterr().out)
    code = (
        "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[placement-sched]"
    )
    done = subprocess.run(
        [zsh, "-f", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert (done.stdout.strip(), done.stderr) == ("_placement-sched", "")


def test_fish_offers_the_commands(capsys, tmp_path):
    fish = tool("fish")
    assert main(["completion", "fish"]) == 0
    script = tmp_path / "placement-sched.fish"
    script.write_text(capsys.readouterr().out)
    done = subprocess.run(
        [fish, "--no-config", "-c", f"source {script}; complete -C 'placement-sched de'"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"demo", "decisions"}


def test_guide_has_how_each_script_is_put_into_effect():
    page = (ROOT / "doc/source/commands.rst").read_text()
    assert [line for line in SHELLS.values() if f"   # {line}\n" not in page] == []
