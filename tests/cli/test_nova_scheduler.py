# SPDX-License-Identifier: Apache-2.0
"""``nova-scheduler`` with invalid configurations."""

import os
from pathlib import Path

import pytest

from tests.support import program
from tests.support.servers import build_environment, wait_until

pytestmark = pytest.mark.slow

NOVA_CONF = """
[DEFAULT]
transport_url = rabbit://nova:secret@127.0.0.1:1/
[api_database]
connection = mysql+pymysql://nova:secret@127.0.0.1:1/nova_api
"""
SQLITE_CONF = "[placement_database]\nconnection = sqlite:///ours.db\n"


def get_nova_scheduler_error(run_command, tmp_path, text, *arguments):
    file = tmp_path / "nova.conf"
    file.write_text(text)
    done = run_command("nova-scheduler", "--config-file", str(file), *arguments)
    assert done.returncode
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "secret" not in line
    return line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            SQLITE_CONF + NOVA_CONF.replace("[api_database]", "[other]"),
            "[api_database] connection is not set",
        ),
        (NOVA_CONF, "[placement_database] connection is not set: name this service's database"),
        (
            SQLITE_CONF + NOVA_CONF.replace("transport_url", "#"),
            "[DEFAULT] transport_url is not set",
        ),
        (
            SQLITE_CONF + NOVA_CONF.replace("rabbit:", "rabit:"),
            "[DEFAULT] transport_url: Failed to load",
        ),
        (SQLITE_CONF + NOVA_CONF + "[filter_scheduler]\nenabled_filters = NoFilter\n", "NoFilter"),
        (SQLITE_CONF + NOVA_CONF + "[scheduler]\nworkers = none\n", "[scheduler] workers"),
    ],
)
def test_missing_setting_of_nova_scheduler_is_reported_in_one_line(
    run_command, tmp_path, text, message
):
    assert message in get_nova_scheduler_error(run_command, tmp_path, text)


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_workers_option_of_nova_scheduler_must_be_positive(run_command, tmp_path, number):
    line = get_nova_scheduler_error(
        run_command, tmp_path, SQLITE_CONF + NOVA_CONF, "--workers", number
    )
    assert f"expected a number of 1 or more, not '{number}'" in line


@pytest.mark.parametrize("command", ["nova-scheduler", "nova-shadow"])
def test_service_that_waits_for_a_database_names_its_log_file_and_logs_warnings(tmp_path, command):
    file, output = tmp_path / "nova.conf", tmp_path / "output"
    conf = f"{SQLITE_CONF}slave_connection = sqlite:///other.db\n{NOVA_CONF}"
    file.write_text(conf.replace("[DEFAULT]", "[DEFAULT]\nlog_dir = logs"))
    (tmp_path / "logs").mkdir()
    with output.open("w") as stream, Path(os.devnull).open() as nothing:
        process = program.start_program(
            [command, "--config-file", file],
            cwd=tmp_path,
            env=build_environment(),
            streams=[nothing, stream, stream],
        )
        log = f"logs/placement-sched-{command}.log"
        try:
            warning = "[placement_database] slave_connection is ignored"
            assert wait_until(
                lambda: output.read_text() and warning in (tmp_path / log).read_text(), 60
            )
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(timeout=60)
    assert output.read_text() == f"placement-sched {command} starts, log {log}\n"
