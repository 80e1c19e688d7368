# SPDX-License-Identifier: Apache-2.0
"""Options of several commands, and errors of invalid usage with a suggestion."""

import pytest

from placement_sched.cli.main import main, make_parser

pytestmark = pytest.mark.slow


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
