# SPDX-License-Identifier: Apache-2.0
"""``nova-scheduler`` with invalid configurations."""

import pytest

pytestmark = pytest.mark.slow

NOVA = """
[DEFAULT]
transport_url = rabbit://nova:secret@127.0.0.1:1/
[api_database]
connection = mysql+pymysql://nova:secret@127.0.0.1:1/nova_api
"""
OURS = "[placement_database]\nconnection = sqlite:///ours.db\n"


def run_and_read_error_line(run_command, tmp_path, text, *more):
    file = tmp_path / "nova.conf"
    file.write_text(text)
    done = run_command("nova-scheduler", "--config-file", str(file), *more)
    assert done.returncode
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "secret" not in line
    return line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OURS + NOVA.replace("[api_database]", "[other]"), "[api_database] connection is not set"),
        (NOVA, "[placement_database] connection is not set: name this service's database"),
        (OURS + NOVA.replace("transport_url", "#"), "[DEFAULT] transport_url is not set"),
        (OURS + NOVA.replace("rabbit:", "rabit:"), "[DEFAULT] transport_url: Failed to load"),
        (OURS + NOVA + "[filter_scheduler]\nenabled_filters = NoFilter\n", "NoFilter"),
        (OURS + NOVA + "[scheduler]\nworkers = none\n", "[scheduler] workers"),
    ],
)
def test_missing_setting_of_nova_scheduler_is_reported_in_one_line(
    run_command, tmp_path, text, message
):
    assert message in run_and_read_error_line(run_command, tmp_path, text)


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_number_of_workers_must_be_positive(run_command, tmp_path, number):
    line = run_and_read_error_line(run_command, tmp_path, OURS + NOVA, "--workers", number)
    assert f"expected a number of 1 or more, not '{number}'" in line
