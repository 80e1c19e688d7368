# SPDX-License-Identifier: Apache-2.0
"""Completion of commands, options, values and files in shells."""

import os
import re
import shlex
import socket
import subprocess
from contextlib import redirect_stdout

import pytest

from placement_sched.cli import completion
from placement_sched.cli.completion import SHELLS, all_commands, find_names
from placement_sched.cli.main import GROUPS, main, make_parser
from tests.deploy import find_program
from tests.support.loopback import serve_application
from tests.support.repository import ROOT
from tests.support.scheduling import report
from tests.support.servers import BIN, environment, wait_until

pytestmark = pytest.mark.slow

#: Defines ``complete_words WORD...``, which prints the completions of the last word.
COMPLETE_WORDS = """
complete_words() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMPREPLY=()
    words=$(complete -p placement-sched); words=${words##*-F }; ${words%% *} "$1" "${!#}" ""
    printf '%s\\n' "${COMPREPLY[@]}"
}
"""


@pytest.fixture(autouse=True)
def extend_completion_timeout(monkeypatch):
    """Raise the timeout for names from two seconds to ten minutes."""
    monkeypatch.setattr(completion, "PATIENCE", 600)


@pytest.fixture(scope="module")
def complete_in_bash(tmp_path_factory):
    """Return a function that returns the completions that bash offers for the last word."""
    script = tmp_path_factory.mktemp("bash") / "completion"
    with script.open("w") as file, redirect_stdout(file):
        assert main(["completion", "bash"]) == 0

    def complete(*words: str) -> set[str]:
        line = shlex.join(["complete_words", "placement-sched", *words])
        done = subprocess.run(
            ["bash", "--norc", "-c", f". {script}\n{COMPLETE_WORDS}\n{line}"],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env=program_environment(),
        )
        assert done.stderr == ""
        return set(done.stdout.split())

    return complete


def program_environment() -> dict[str, str]:
    return environment(PATH=os.pathsep.join([str(BIN), os.environ["PATH"]]))


@pytest.fixture
def url(sqlite_app):
    """The URL of a server with two flavors and two hosts."""
    sqlite_app.post_json(
        "/scheduler/v1/compute_nodes", [report("cn1"), report("cn2"), report("gpu1")]
    )
    headers = {"OpenStack-API-Version": "compute 2.96"}
    for name in ("m1.small", "m1.large", "g1"):
        body = {"flavor": {"name": name, "vcpus": 1, "ram": 512, "disk": 1}}
        sqlite_app.post_json("/compute/v2.1/flavors", body, headers=headers)
    with serve_application(sqlite_app.app) as url:
        yield url


def test_names_are_read_from_the_server(complete_in_bash, url):
    server = ("--url", url, "--token", "admin")
    for words, names in {
        ("explain", *server, "m1."): {"m1.small", "m1.large"},
        ("capacity", *server, "--flavor", ""): {"m1.small", "m1.large", "g1"},
        ("host", "show", *server, "cn"): {"cn1", "cn2"},
        ("explain", "m1.small", *server, "--host", "gp"): {"gpu1"},
    }.items():
        # On a busy machine, names may take more than two seconds. Try again.
        assert wait_until(lambda: complete_in_bash(*words) == names), words  # noqa: B023 - called here
    assert complete_in_bash("host", "show", *server, "x") == set()


def test_fish_offers_names(url, capsys, tmp_path):
    fish = find_program("fish")
    assert main(["completion", "fish"]) == 0
    script = tmp_path / "placement-sched.fish"
    script.write_text(capsys.readouterr().out)
    line = f"placement-sched explain --url {url} --token admin --flavor m1."
    command = [fish, "--no-config", "-c", f"source {script}; complete -C '{line}'"]
    names = {"m1.small", "m1.large"}
    assert wait_until(lambda: {row.split()[0] for row in output_of(command).splitlines()} == names)


def output_of(command: list[str]) -> str:
    """Run a shell with the program on its path and return its output."""
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=60, env=program_environment()
    )
    assert done.stderr == ""
    return done.stdout


def test_zsh_adds_names(url, capsys, tmp_path):
    zsh = find_program("zsh")
    assert main(["completion", "zsh"]) == 0
    pattern = r"^_placement_sched_hosts\(\) {.*?^}"
    function = re.search(pattern, capsys.readouterr().out, re.MULTILINE | re.DOTALL)
    line = f"placement-sched host show --url {url} --token admin cn"
    calls = f"compadd() {{ print -l -- $@ }}\nLBUFFER='{line}'\n_placement_sched_hosts"
    code = f"{function[0]}\n{calls}"
    command = [zsh, "-f", "-c", code]
    assert wait_until(lambda: output_of(command).split() == ["--", "cn1", "cn2"])


def test_unavailable_server_completes_nothing(complete_in_bash):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert complete_in_bash("host", "show", "--url", url, "--token", "admin", "cn") == set()


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
def test_unparsable_line_completes_nothing(line, capsys):
    with pytest.raises(SystemExit) as end:
        main(["completion", "--names", "hosts", line])
    assert (end.value.code, *capsys.readouterr()) == (0, "", "")


def test_names_are_read_from_the_configured_database(sqlite_app, sqlite_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("cn1"), report("gpu1")])
    assert find_names("hosts", "sudo placement-sched --debug hosts show ") == ["cn1", "gpu1"]
    assert find_names("hosts", "x; placement-sched explain --host g") == ["gpu1"]
    assert find_names("flavors", "placement-sched explain ") == []


def test_commands_of_nova_shadow_are_offered(complete_in_bash):
    assert "report" in complete_in_bash("nova-shadow", "")
    assert complete_in_bash("nova-shadow", "--conf") == {"--config-file", "--config-dir"}
    assert complete_in_bash("nova-shadow", "report", "--si") == {"--since"}
    assert complete_in_bash("nova", "") >= {"adopt", "sync"}
    assert "report" not in complete_in_bash("nova", "")


def test_commands_are_offered(complete_in_bash):
    every = {name for summaries in GROUPS.values() for name in summaries}
    assert every <= complete_in_bash("")
    assert complete_in_bash("de") == {"demo", "decision"}


def test_commands_of_a_group_options_and_values_are_offered(complete_in_bash):
    assert {"sync", "version", "adopt"} <= complete_in_bash("db", "")
    assert complete_in_bash("db", "sync", "--fo") == {"--format"}
    assert complete_in_bash("db", "sync", "--format", "") == {"text", "json", "yaml"}
    assert complete_in_bash("host", "list", "-f", "") == {"table", "json", "yaml", "csv", "value"}
    assert complete_in_bash("completion", "") == set(SHELLS)


def test_files_are_offered_for_file_arguments(complete_in_bash, tmp_path):
    (tmp_path / "placement.conf").touch()
    completions = complete_in_bash("serve", "--config-file", f"{tmp_path}/pl")
    assert completions == {f"{tmp_path}/placement.conf"}


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
def test_other_shells_accept_their_script(shell, capsys, tmp_path):
    find_program(shell)
    assert main(["completion", shell]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    subprocess.run([shell, "-n", script], check=True, timeout=60)


def test_zsh_registers_the_completion(capsys, tmp_path):
    zsh = find_program("zsh")
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
    fish = find_program("fish")
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
    assert {line.split()[0] for line in done.stdout.splitlines()} == {"demo", "decision"}


def test_guide_shows_the_installation_of_each_script():
    page = (ROOT / "doc/source/commands.rst").read_text()
    assert [line for line in SHELLS.values() if f"   # {line}\n" not in page] == []
