# SPDX-License-Identifier: Apache-2.0
"""Options of several commands, and errors of invalid usage with a suggestion."""

import pytest

from placement_sched.cli.main import main, make_parser

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "command", ["serve", "db sync", "db version", "select", "explain", "config validate"]
)
def test_help_of_a_command_has_the_config_file_option(command, capsys):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    assert "--config-file" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "reads_nova_conf"),
    [
        *(("nova-scheduler", True), ("nova-shadow", True), ("nova-shadow report", True)),
        *(("nova adopt", True), ("nova sync", True), ("serve", False), ("db adopt", False)),
    ],
)
def test_help_names_nova_conf_if_the_command_reads_it_by_default(command, reads_nova_conf, capsys):
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    words = " ".join(capsys.readouterr().out.split())
    nova = "/etc/nova/nova.conf " if reads_nova_conf else ""
    files = f"/etc/placement/placement.conf {nova}and /etc/placement_sched/placement_sched.conf"
    assert files in words.replace(",", "")


@pytest.mark.parametrize(
    ("command_line", "program", "error"),
    [
        ("explian --vcpus 1", "", "unknown command 'explian'. Did you mean 'explain'?"),
        ("help hots list", "", "unknown command 'hots'. Did you mean 'host'?"),
        ("zzzz", "", "unknown command 'zzzz'"),
        ("db snyc", " db", "unknown command 'snyc'. Did you mean 'sync'?"),
        (
            "db sync --form json",
            " db sync",
            "unrecognized arguments: --form json. Did you mean '--format'?",
        ),
        (
            "db sync --config-fil=x",
            " db sync",
            "unrecognized arguments: --config-fil=x. Did you mean '--config-file'?",
        ),
        ("db sync --qwertz", " db sync", "unrecognized arguments: --qwertz"),
        ("db sync word", " db sync", "unrecognized arguments: word"),
        ("db", " db", "the following arguments are required: COMMAND"),
    ],
)
def test_unknown_command_or_option_is_reported(command_line, program, error, capsys):
    with pytest.raises(SystemExit) as end:
        main(command_line.split())
    name = f"placement-sched{program}"
    printed = capsys.readouterr().err
    assert (end.value.code, printed) == (2, f"{name}: {error} (see {name} --help)\n")


def test_invalid_option_of_placement_audit_exits_with_127(capsys):
    with pytest.raises(SystemExit) as end:
        main(["placement", "audit", "--delet"])
    assert end.value.code == 127
    assert "Did you mean '--delete'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command_line", "files"),
    [
        ("nova-shadow --config-file a report", ["a"]),
        ("nova-shadow report --config-file b", ["b"]),
        ("nova-shadow report", []),
    ],
)
def test_config_file_option_may_stand_before_or_after_nova_shadow_report(command_line, files):
    arguments = make_parser(command_line.split()).parse_args(command_line.split())
    assert (arguments.config_file, arguments.run.__name__) == (files, "_run_report")
    assert arguments.since is None
