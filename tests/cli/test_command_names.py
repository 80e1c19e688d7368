# SPDX-License-Identifier: Apache-2.0
"""Deprecated names of commands, ``help COMMAND``, and suggestions."""

import pytest

from placement_sched.cli.main import EARLIER, current_spelling, main, make_parser
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("earlier", "current"),
    [
        ("hosts list --zone az1", "host list --zone az1"),
        ("decisions show --request-id req-1", "decision show --request-id req-1"),
        ("adopt nova --config-file nova.conf", "nova adopt --config-file nova.conf"),
        ("nova shadow report --since 1d", "nova-shadow report --since 1d"),
        ("placement sync-aggregates --verbose", "placement sync_aggregates --verbose"),
        ("placement sync-traits", "placement sync_traits"),
        ("placement heal-allocations --dry-run", "placement heal_allocations --dry-run"),
        ("--debug hosts list", "--debug host list"),
        ("help hosts show", "host show --help"),
        ("help", "--help"),
    ],
)
def test_deprecated_command_runs_the_current_command(earlier, current):
    assert current_spelling(earlier.split()) == current.split()


@pytest.mark.parametrize("current", EARLIER.values(), ids=" ".join)
def test_replacement_of_a_deprecated_command_exists(current, capsys):
    with pytest.raises(SystemExit) as end:
        main([*current, "--help"])
    assert end.value.code == 0
    assert f"placement-sched {' '.join(current)} " in capsys.readouterr().out


def test_guide_lists_every_deprecated_command():
    page = (ROOT / "doc/source/commands.rst").read_text()
    assert [earlier for earlier in map(" ".join, EARLIER) if earlier not in page] == []


def test_deprecated_command_name_as_an_argument_is_unchanged():
    typed = ["explain", "--project", "hosts", "placement", "sync-traits"]
    assert current_spelling(typed) == typed
    assert current_spelling(["placement", "--dry-run"]) == ["placement", "--dry-run"]
    assert current_spelling(["placement", ""]) == ["placement", ""]


def test_help_option_prints_the_help_of_a_command(capsys):
    printed = []
    for typed in (["help", "host", "list"], ["host", "list", "--help"]):
        with pytest.raises(SystemExit) as end:
            main(typed)
        assert end.value.code == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert printed[0].startswith("usage: placement-sched host list ")


@pytest.mark.parametrize(
    "command", ["serve", "db sync", "db version", "select", "explain", "config validate"]
)
def test_commands_accept_configuration_files(command, capsys):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    assert "--config-file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("typed", "program", "error"),
    [
        ("explian --vcpus 1", "", "unknown command 'explian'; did you mean 'explain'?"),
        ("help hots list", "", "unknown command 'hots'; did you mean 'host'?"),
        ("zzzz", "", "unknown command 'zzzz'"),
        ("db snyc", " db", "unknown command 'snyc'; did you mean 'sync'?"),
        (
            "db sync --form json",
            " db sync",
            "unrecognized arguments: --form json; did you mean '--format'?",
        ),
        (
            "db sync --config-fil=x",
            " db sync",
            "unrecognized arguments: --config-fil=x; did you mean '--config-file'?",
        ),
        ("db sync --qwertz", " db sync", "unrecognized arguments: --qwertz"),
        ("db sync word", " db sync", "unrecognized arguments: word"),
        ("db", " db", "the following arguments are required: COMMAND"),
    ],
)
def test_invalid_usage_is_reported_with_a_suggestion(typed, program, error, capsys):
    with pytest.raises(SystemExit) as end:
        main(typed.split())
    name = f"placement-sched{program}"
    printed = capsys.readouterr().err
    assert (end.value.code, printed) == (2, f"{name}: {error} (see {name} --help)\n")


def test_invalid_option_of_placement_audit_exits_with_127(capsys):
    with pytest.raises(SystemExit) as end:
        main(["placement", "audit", "--delet"])
    assert end.value.code == 127
    assert "did you mean '--delete'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("typed", "files"),
    [
        ("nova-shadow --config-file a report", ["a"]),
        ("nova-shadow report --config-file b", ["b"]),
        ("nova-shadow report", []),
    ],
)
def test_config_file_option_may_stand_before_or_after_report(typed, files):
    arguments = make_parser(typed.split()).parse_args(typed.split())
    assert (arguments.config_file, arguments.run.__name__) == (files, "_run_report")
    assert arguments.since is None
