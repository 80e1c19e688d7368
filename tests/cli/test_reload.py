# SPDX-License-Identifier: Apache-2.0
"""Reloading of the configuration after SIGHUP."""

import os
import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.servers import get_best_hosts
from tests.support.scheduling import make_report, make_spec
from tests.support.servers import rewrite_file, wait_until

pytestmark = pytest.mark.system

REJECTED_RELOAD_MESSAGE = "the previous settings remain in effect"
RESTART_MESSAGE = "[api] max_request_body_size has changed: restart the server to apply it"


@pytest.fixture
def config_file(tmp_path) -> Path:
    file = tmp_path / "nova.conf"
    file.write_text("[filter_scheduler]\nram_weight_multiplier = -1.0\n")
    return file


@pytest.fixture(params=["2", pytest.param("1", marks=pytest.mark.exhaustive)])
def server(request, serve, config_file):
    """A server with a small and a large host, with a single worker and with two workers."""
    server = serve("--config-file", str(config_file), "--workers", request.param)
    server.post(
        "/scheduler/v1/compute_nodes", [make_report("cn1", memory_mb=32768), make_report("cn2")]
    )
    assert get_best_hosts(server) == {"cn1"}
    return server


def rewrite_and_send_sighup(server, file: Path, text: str) -> None:
    """Rewrite a configuration file and send SIGHUP."""
    rewrite_file(file, text)
    server.process.send_signal(signal.SIGHUP)


def kill_worker_and_wait_for_replacement(server) -> None:
    """Kill the only worker, and wait until another serves."""
    (worker,) = server.workers()
    os.kill(worker, signal.SIGKILL)
    assert wait_until(lambda: server.workers() - {worker})
    server.wait_for("/placement/", 200)


def list_rejected_reloads(server) -> list[str]:
    return [line for line in server.read_log_lines() if REJECTED_RELOAD_MESSAGE in line]


def explain_and_list_policies(server) -> set[str]:
    body = {"request_spec": make_spec(), "policy": "dense"}
    return {server.post("/scheduler/v1/explain", body)[1].get("policy") for _ in range(16)}


def test_changed_configuration_files_take_effect_after_sighup(server, config_file):
    rewrite_file(config_file, "[filter_scheduler]\nram_weight_multiplier = 1.0\n")
    assert get_best_hosts(server) == {"cn1"}
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: get_best_hosts(server) == {"cn2"})
    assert f"configuration read again: {config_file}" in server.log.read_text()


def test_new_policies_apply_after_sighup_without_a_restart(server, config_file):
    assert explain_and_list_policies(server) == {None}
    rewrite_and_send_sighup(
        server,
        config_file,
        "[filter_scheduler]\nram_weight_multiplier = -1.0\n[scheduler]\npolicies = dense\n"
        "[dense]\nram_weight_multiplier = 1.0\n",
    )
    assert wait_until(lambda: explain_and_list_policies(server) == {"dense"})


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[filter_scheduler]\nenabled_filters = RamFliter\n", "Did you mean 'RamFilter'?"),
        ("[scheduler]\npolicies = dense\n", "there is no section [dense]"),
        ("[scheduler\n", "nova.conf"),
    ],
)
def test_invalid_configuration_at_sighup_keeps_the_settings(server, config_file, text, reason):
    rewrite_and_send_sighup(server, config_file, text)
    assert wait_until(lambda: list_rejected_reloads(server))
    line, *_ = list_rejected_reloads(server)
    assert reason in line
    assert "Traceback" not in server.log.read_text()
    assert get_best_hosts(server) == {"cn1"}
    rewrite_and_send_sighup(
        server, config_file, "[filter_scheduler]\nram_weight_multiplier = 1.0\n"
    )
    assert wait_until(lambda: get_best_hosts(server) == {"cn2"})


def test_invalid_configuration_at_sighup_is_logged_once(server, config_file):
    """The main process logs it for all workers."""
    rewrite_and_send_sighup(
        server, config_file, "[filter_scheduler]\nram_weight_multiplier = much\n"
    )
    assert wait_until(lambda: list_rejected_reloads(server))
    assert get_best_hosts(server) == {"cn1"}
    (line,) = list_rejected_reloads(server)
    assert re.fullmatch(
        rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{{3}} {server.process.pid} ERROR \S+ \[-\] "
        rf"{config_file}:2: \[filter_scheduler\] ram_weight_multiplier has a wrong value: "
        rf"'much' is not a number \({REJECTED_RELOAD_MESSAGE}\)",
        line,
    )


def test_changed_option_that_needs_a_restart_is_logged_at_sighup(server, config_file):
    rewrite_and_send_sighup(
        server,
        config_file,
        "[filter_scheduler]\nram_weight_multiplier = 1.0\n[api]\nmax_request_body_size = 5000\n",
    )
    assert wait_until(lambda: get_best_hosts(server) == {"cn2"})
    assert server.log.read_text().count(RESTART_MESSAGE) == 1


def test_sighup_without_a_changed_file_keeps_the_settings(server):
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: "configuration read again" in server.log.read_text())
    assert get_best_hosts(server) == {"cn1"}
    assert REJECTED_RELOAD_MESSAGE not in server.log.read_text()


DENSE_POLICY_CONF = "[dense]\nram_weight_multiplier = 1.0\n"


def create_aggregate_with_policy(server):
    server.post("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    response = server.post("/compute/v2.1/os-aggregates", {"aggregate": {"name": "rack"}})[1]
    action = f"/compute/v2.1/os-aggregates/{response['aggregate']['id']}/action"
    server.post(action, {"set_metadata": {"metadata": {"sched_policy": "dense"}}})
    server.post(action, {"add_host": {"host": "cn1"}})


@pytest.mark.exhaustive
def test_policy_of_an_aggregate_stays_in_effect_if_a_reload_is_invalid(serve, config_file):
    rewrite_file(config_file, DENSE_POLICY_CONF)
    server = serve("--config-file", str(config_file), "--workers", "1")
    create_aggregate_with_policy(server)
    assert explain_and_list_policies(server) == {"dense"}
    rewrite_and_send_sighup(server, config_file, DENSE_POLICY_CONF.replace("1.0", "much"))
    assert wait_until(lambda: REJECTED_RELOAD_MESSAGE in server.log.read_text())
    assert explain_and_list_policies(server) == {"dense"}
    rewrite_and_send_sighup(server, config_file, "")
    assert wait_until(lambda: "there is no policy" in server.log.read_text())
    assert explain_and_list_policies(server) == {"dense"}


def test_replacement_worker_uses_the_last_valid_settings(serve, config_file):
    server = serve("--config-file", str(config_file), "--workers", "1")
    server.post(
        "/scheduler/v1/compute_nodes", [make_report("cn1", memory_mb=32768), make_report("cn2")]
    )
    rewrite_and_send_sighup(
        server, config_file, "[filter_scheduler]\nram_weight_multiplier = 1.0\n"
    )
    assert wait_until(lambda: get_best_hosts(server) == {"cn2"})
    rewrite_and_send_sighup(
        server, config_file, "[filter_scheduler]\nram_weight_multiplier = much\n"
    )
    assert wait_until(lambda: REJECTED_RELOAD_MESSAGE in server.log.read_text())
    kill_worker_and_wait_for_replacement(server)
    assert get_best_hosts(server) == {"cn2"}
    assert "Traceback" not in server.log.read_text()


@pytest.mark.exhaustive
def test_killed_worker_is_replaced_despite_an_invalid_options_file(serve, config_file, tmp_path):
    """It uses the last valid options, as further workers do."""
    options = tmp_path / "scheduler.json"
    rewrite_file(options, '{"ram_weight_multiplier": -1.0}')
    rewrite_file(config_file, f"[scheduler]\njson_config_location = {options}\n")
    server = serve("--config-file", str(config_file), "--workers", "1")
    server.post(
        "/scheduler/v1/compute_nodes", [make_report("cn1", memory_mb=32768), make_report("cn2")]
    )
    assert get_best_hosts(server) == {"cn1"}
    rewrite_and_send_sighup(server, options, '{"ram_weight_multiplier":')
    assert wait_until(lambda: REJECTED_RELOAD_MESSAGE in server.log.read_text())
    kill_worker_and_wait_for_replacement(server)
    assert get_best_hosts(server) == {"cn1"}
    rewrite_and_send_sighup(server, options, '{"ram_weight_multiplier": 1.0}')
    assert wait_until(lambda: get_best_hosts(server) == {"cn2"})


@pytest.mark.exhaustive
def test_replacement_worker_ignores_changed_files_before_sighup(serve, config_file, tmp_path):
    options = tmp_path / "scheduler.json"
    rewrite_file(options, '{"ram_weight_multiplier": -1.0}')
    rewrite_file(config_file, f"[scheduler]\njson_config_location = {options}\n")
    server = serve("--config-file", str(config_file), "--workers", "1")
    server.post(
        "/scheduler/v1/compute_nodes", [make_report("cn1", memory_mb=32768), make_report("cn2")]
    )
    rewrite_file(options, '{"ram_weight_multiplier": 1.0}')
    kill_worker_and_wait_for_replacement(server)
    assert get_best_hosts(server) == {"cn1"}
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: get_best_hosts(server) == {"cn2"})


@pytest.mark.exhaustive
def test_reload_that_drops_a_policy_in_use_is_rejected_before_any_request(serve, config_file):
    rewrite_file(config_file, DENSE_POLICY_CONF)
    first = serve("--config-file", str(config_file), "--workers", "1")
    create_aggregate_with_policy(first)
    first.stop()
    server = serve("--config-file", str(config_file), "--workers", "2")
    rewrite_and_send_sighup(server, config_file, "")
    assert wait_until(lambda: "there is no policy 'dense'" in server.log.read_text())
    assert explain_and_list_policies(server) == {"dense"}


def test_reload_updates_ratios_of_inventories_without_a_request(serve, config_file, tmp_path):
    rewrite_file(config_file, "[dense]\ncpu_allocation_ratio = 8.0\n")
    server = serve("--config-file", str(config_file), "--workers", "1")
    create_aggregate_with_policy(server)

    def read_cpu_ratios() -> set[float]:
        with closing(sqlite3.connect(tmp_path / "placement_sched.db")) as connection:
            query = "SELECT allocation_ratio FROM inventories WHERE resource_class_id = 0"
            return {ratio for (ratio,) in connection.execute(query)}

    assert 8.0 in read_cpu_ratios()
    rewrite_and_send_sighup(server, config_file, "[dense]\ncpu_allocation_ratio = 6.0\n")
    assert wait_until(lambda: 6.0 in read_cpu_ratios())
    assert 8.0 not in read_cpu_ratios()


def test_configuration_file_replaced_by_a_folder_is_logged_at_sighup(server, config_file):
    config_file.unlink()
    config_file.mkdir()
    server.process.send_signal(signal.SIGHUP)
    assert wait_until(lambda: list_rejected_reloads(server))
    assert get_best_hosts(server) == {"cn1"}
    assert server.stop() == 0
