# SPDX-License-Identifier: Apache-2.0
"""Arguments of every command, and invalid usage."""

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "command", ["serve", "db sync", "db version", "select", "explain", "config validate"]
)
def test_every_command_takes_configuration_files(run, command):
    done = run(*command.split(), "--help")
    assert done.returncode == 0
    assert "--config-file" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], "unknown command 'nonsense'"),
        (["db"], "placement-sched db: the following arguments are required"),
        (["db", "version", "--form", "json"], "--form"),
        (["db", "version", "--format", "csv"], "invalid choice: 'csv'"),
    ],
)
def test_invalid_usage_prints_one_line_and_exits_with_2(run, arguments, words):
    refused = run(*arguments)
    assert refused.returncode == 2
    assert words in refused.stderr
    assert refused.stderr.count("\n") == 1
