# SPDX-License-Identifier: Apache-2.0
"""Completion of commands, options, values and files in shells."""

import os
import re
import shlex
import socket
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from placement_sched.cli import completion
from placement_sched.cli.completion import SHELLS, find_names, iterate_commands
from placement_sched.cli.main import GROUPS, main, make_parser
from tests.deploy import find_program
from tests.support.commands import run_captured
from tests.support.loopback import serve_application
from tests.support.repository import ROOT
from tests.support.scheduling import make_report
from tests.support.servers import PROGRAM, build_environment

pytestmark = pytest.mark.slow

#: Defines ``complete_words WORD...``, which prints the completions of the last word.
BASH_COMPLETION_FUNCTION = """
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=()
    words=$(complete -p placement-sched); words=${words##*-F }; ${words%% *} "$1" "${!#}" ""
    printf '%s\\n' "${COMPREPLY[@]}"
}
"""


@pytest.fixture(autouse=True)
def extend_name_completion_timeout(monkeypatch):
    """Raise the timeout for names from two seconds to ten minutes."""
    monkeypatch.setattr(completion, "PATIENCE", 600)


def write_completion_script(shell: str, folder: Path) -> Path:
    """Write the completion script of a shell with the name of its installation."""
    script = folder / SHELLS[shell].rpartition("/")[2]
    with script.open("w") as file, redirect_stdout(file):
        assert main(["completion", shell]) == 0
    return script


#: Stands for the program in shells: prints names of a kind, and notes the kind and the line.
NAME_PRINTING_PROGRAM_TEXT = """#!/bin/sh
printf '%s: %s\\n' "$3" "$4" > "$0.asked"
case $3 in flavors) printf 'm1.small\\nm1.large\\n' ;; *) printf 'cn1\\ncn2\\n' ;; esac
"""
FLAVOR_NAMES, HOST_NAMES = {"m1.small", "m1.large"}, {"cn1", "cn2"}


@pytest.fixture(scope="module")
def name_printing_program(tmp_path_factory) -> Path:
    """The program that shells call for names."""
    completing_program = tmp_path_factory.mktemp("bin") / "placement-sched"
    completing_program.write_text(NAME_PRINTING_PROGRAM_TEXT)
    completing_program.chmod(0o755)
    return completing_program


def read_completed_line_passed_to_program(program: Path) -> str:
    """Return the kind and the line that a shell passed to the program."""
    return program.with_name("placement-sched.asked").read_text().strip()


def run_shell_command(
    *command: str, program: Path | None = None, folder: Path | None = None
) -> str:
    """Run a shell, which finds ``program`` on its path, and return its output."""
    folders = [str(program.parent)] if program else []
    done = run_captured(
        command,
        check=True,
        timeout=60,
        cwd=folder,
        env=build_environment(PATH=os.pathsep.join([*folders, os.environ["PATH"]])),
    )
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def complete_in_bash(name_printing_program, tmp_path_factory):
    """Return a function that returns the completions that bash offers for the last word."""
    script = write_completion_script("bash", tmp_path_factory.mktemp("bash"))

    def complete_last_word(*words: str) -> set[str]:
        line = shlex.join(["complete_words", "placement-sched", *words])
        code = f". {script}\n{BASH_COMPLETION_FUNCTION}\n{line}"
        return set(
            run_shell_command("bash", "--norc", "-c", code, program=name_printing_program).split()
        )

    return complete_last_word


def complete_in_fish(line: str, folder: Path, program: Path) -> set[str]:
    """Return the completions that fish offers for a line."""
    code = f"source {write_completion_script('fish', folder)}; complete -C '{line}'"
    output = run_shell_command(find_program("fish"), "--no-config", "-c", code, program=program)
    return {line.split()[0] for line in output.splitlines()}


@pytest.fixture
def server_url(sqlite_app):
    """The URL of a server with two flavors and two hosts."""
    sqlite_app.post_json(
        "/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2"), make_report("gpu1")]
    )
    headers = {"OpenStack-API-Version": "compute 2.96"}
    for name in ("m1.small", "m1.large", "g1"):
        body = {"flavor": {"name": name, "vcpus": 1, "ram": 512, "disk": 1}}
        sqlite_app.post_json("/compute/v2.1/flavors", body, headers=headers)
    with serve_application(sqlite_app.app) as server_url:
        yield server_url


def test_completed_names_are_read_from_the_server_of_the_url_option(server_url):
    server = f"--url {server_url} --token admin"
    for kind, words, names in (
        ("flavors", f"explain {server} m1.", ["m1.large", "m1.small"]),
        ("flavors", f"explain {server} --flavor ", ["g1", "m1.large", "m1.small"]),
        ("hosts", f"host show {server} cn", ["cn1", "cn2"]),
        ("hosts", f"explain m1.small {server} --host gp", ["gpu1"]),
        ("hosts", f"host show {server} x", []),
    ):
        assert find_names(kind, f"placement-sched {words}") == names


#: Words of a line, and the kind and the names that complete it.
COMPLETED_COMMAND_LINES = [
    (("explain", "--url", "http://127.0.0.1:1", "m1."), "flavors", FLAVOR_NAMES),
    (("explain", "--flavor", ""), "flavors", FLAVOR_NAMES),
    (("host", "show", "cn"), "hosts", HOST_NAMES),
    (("explain", "m1.small", "--host", "cn"), "hosts", HOST_NAMES),
]


@pytest.mark.parametrize(("words", "kind", "names"), COMPLETED_COMMAND_LINES)
def test_bash_completes_flavor_and_host_names(
    complete_in_bash, name_printing_program, words, kind, names
):
    assert complete_in_bash(*words) == names
    assert (
        read_completed_line_passed_to_program(name_printing_program)
        == f"{kind}: {' '.join(('placement-sched', *words))}".strip()
    )


def test_fish_completes_flavor_names(name_printing_program, tmp_path):
    line = "placement-sched explain --flavor m1."
    assert complete_in_fish(line, tmp_path, name_printing_program) == FLAVOR_NAMES
    assert read_completed_line_passed_to_program(name_printing_program) == f"flavors: {line}"


def test_zsh_completes_host_names(name_printing_program, tmp_path):
    zsh = find_program("zsh")
    pattern = r"^_placement_sched_hosts\(\) {.*?^}"
    text = write_completion_script("zsh", tmp_path).read_text()
    function = re.search(pattern, text, re.MULTILINE | re.DOTALL)
    line = "placement-sched host show cn"
    calls = f"compadd() {{ print -l -- $@ }}\nLBUFFER='{line}'\n_placement_sched_hosts"
    code = f"{function[0]}\n{calls}"
    assert run_shell_command(zsh, "-f", "-c", code, program=name_printing_program).split() == [
        "--",
        "cn1",
        "cn2",
    ]
    assert read_completed_line_passed_to_program(name_printing_program) == f"hosts: {line}"


@pytest.mark.exhaustive
def test_completion_offers_no_names_if_the_server_does_not_respond():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server_url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        line = f"placement-sched host show --url {server_url} --token admin cn"
        assert run_shell_command(str(PROGRAM), "completion", "--names", "hosts", line) == ""


@pytest.mark.parametrize(
    "line",
    [
        "placement-sched explain 'm1",
        "placement-sched explian m1",
        "placement-sched host show --url http://127.0.0.1:1 --token admin cn",
        "placement-sched host show --url nonsense cn",
        "ls cn",
        "",
    ],
)
def test_completion_of_an_unparsable_line_offers_nothing(line, capsys):
    with pytest.raises(SystemExit) as end:
        main(["completion", "--names", "hosts", line])
    assert (end.value.code, *capsys.readouterr()) == (0, "", "")


def test_completed_names_are_read_from_the_configured_database(sqlite_app, sqlite_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("gpu1")])
    assert find_names("hosts", "sudo placement-sched --debug hosts show ") == ["cn1", "gpu1"]
    assert find_names("hosts", "x; placement-sched explain --host g") == ["gpu1"]
    assert find_names("flavors", "placement-sched explain ") == []


def test_bash_completes_commands_options_and_option_values(complete_in_bash):
    every = {name for summaries in GROUPS.values() for name in summaries}
    assert every <= complete_in_bash("")
    assert complete_in_bash("de") == {"demo", "decision"}
    assert {"sync", "version", "adopt"} <= complete_in_bash("db", "")
    assert complete_in_bash("db", "sync", "--fo") == {"--format"}
    assert complete_in_bash("host", "list", "-f", "") == {"table", "json", "yaml", "csv", "value"}
    # A command that has subcommands and options.
    assert "report" in complete_in_bash("nova-shadow", "")
    assert complete_in_bash("nova-shadow", "--conf") == {"--config-file", "--config-dir"}
    assert complete_in_bash("nova-shadow", "report", "--si") == {"--since"}
    assert "report" not in complete_in_bash("nova", "")


def test_bash_completes_file_names_for_options_that_take_files(complete_in_bash, tmp_path):
    (tmp_path / "placement.conf").touch()
    completions = complete_in_bash("serve", "--config-file", f"{tmp_path}/pl")
    assert completions == {f"{tmp_path}/placement.conf"}


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_script_contains_every_command_and_option(shell, capsys):
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for name, parser in iterate_commands(make_parser((), with_all_commands=True)):
        assert name.rpartition(" ")[2] in script
        for action in parser._actions:
            for option in action.option_strings:
                shown = option if action.help != "==SUPPRESS==" else ""
                assert shown.lstrip("-") in script


def test_completion_script_is_valid_in_zsh(tmp_path):
    run_shell_command(find_program("zsh"), "-n", str(write_completion_script("zsh", tmp_path)))


def test_completion_script_is_registered_in_zsh(tmp_path):
    write_completion_script("zsh", tmp_path)
    code = (
        "fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D; print $_comps[placement-sched]"
    )
    output = run_shell_command(find_program("zsh"), "-f", "-c", code, folder=tmp_path)
    assert output.strip() == "_placement-sched"


def test_fish_completes_commands(name_printing_program, tmp_path):
    assert complete_in_fish("placement-sched de", tmp_path, name_printing_program) == {
        "demo",
        "decision",
    }


def test_guide_shows_the_installation_of_each_completion_script():
    page = (ROOT / "doc/source/commands.rst").read_text()
    assert [line for line in SHELLS.values() if f"   # {line}\n" not in page] == []
