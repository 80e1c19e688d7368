# SPDX-License-Identifier: Apache-2.0
"""``nova-scheduler`` with invalid configurations."""

import pytest

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
