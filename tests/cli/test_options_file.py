# SPDX-License-Identifier: Apache-2.0
"""``[scheduler] json_config_location`` of a running server."""

import json
import signal

import pytest

from tests.cli.servers import get_best_host, get_best_hosts
from tests.support.scheduling import make_report
from tests.support.servers import rewrite_file, wait_until

pytestmark = pytest.mark.slow

JSON_OPTION_VARIABLE = "OS_SCHEDULER__JSON_CONFIG_LOCATION"
JSON_OPTION = "[scheduler] json_config_location"


@pytest.mark.parametrize("workers", ["2", pytest.param("1", marks=pytest.mark.exhaustive)])
def test_server_applies_a_changed_options_file_unless_it_is_invalid(serve, tmp_path, workers):
    file = tmp_path / "scheduler.json"
    file.write_text(json.dumps({"ram_weight_multiplier": -1.0, "acme_threshold": 3}))
    config = tmp_path / "nova.conf"
    config.write_text(
        f"[DEFAULT]\nscheduler_json_config_location = {file}\n"
        f"[placement_database]\nconnection = sqlite:///{tmp_path}/file.db\n"
    )
    server = serve("--config-file", str(config), "--workers", workers)
    message = f"ignored: {JSON_OPTION}: {file}: there is no option 'acme_threshold'"
    assert message in server.log.read_text()
    server.post(
        "/scheduler/v1/compute_nodes", [make_report("cn1", memory_mb=32768), make_report("cn2")]
    )
    assert get_best_host(server) == "cn1"
    rewrite_file(file, '{"ram_weight_multiplier": 1.0}')
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: get_best_hosts(server) == {"cn2"})
    rewrite_file(file, '{"ram_weight_multiplier": -1.0')
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(
        lambda: get_best_host(server) and "previous settings remain" in server.log.read_text()
    )
    assert get_best_hosts(server) == {"cn2"}
    assert f"{JSON_OPTION}: {file}: it is not JSON: " in server.log.read_text()


def test_server_does_not_start_with_an_invalid_options_file(run_command, tmp_path):
    (tmp_path / "scheduler.json").write_text("{")
    refused = run_command("serve", "--port", "0", **{JSON_OPTION_VARIABLE: "scheduler.json"})
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert line.startswith(f"placement-sched: {JSON_OPTION}: scheduler.json: it is not JSON: ")


@pytest.mark.parametrize(
    ("text", "status", "message"),
    [
        ("{}", 0, "the configuration is valid"),
        (
            "[]",
            1,
            f"error: {JSON_OPTION}: scheduler.json: it is not a JSON object of options and values",
        ),
        (
            '{"zzz": 1}',
            0,
            (
                f"warning: {JSON_OPTION}: scheduler.json: there is no option 'zzz'. "
                "placement-sched config sample lists them"
            ),
        ),
    ],
)
def test_config_validate_checks_the_options_file(run_command, tmp_path, text, status, message):
    (tmp_path / "scheduler.json").write_text(text)
    checked = run_command("config", "validate", **{JSON_OPTION_VARIABLE: "scheduler.json"})
    assert (checked.returncode, checked.stdout) == (status, f"{message}\n")
