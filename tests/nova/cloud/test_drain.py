# SPDX-License-Identifier: Apache-2.0
"""Drains of ten servers of a real nova, with failures."""

import json
import re
import subprocess

import pytest

from tests.nova.cloud.cloud import HOSTS, running_cloud, wait_for_condition
from tests.nova.cloud.operator_commands import running_operator
from tests.support.servers import BIN, environment

pytestmark = pytest.mark.exhaustive

CN1, CN2 = HOSTS
TEN = 10


class Drainer:
    """An administrator at the command line of placement-sched."""

    def __init__(self, cloud, operator):
        self._cloud, self._operator = cloud, operator
        file = str(cloud.folder / "clouds.yaml")
        self._variables = environment(OS_CLIENT_CONFIG_FILE=file, HOME=str(cloud.folder))

    def start(self, *arguments):
        command = [BIN / "placement-sched", *arguments, "--os-cloud", "nova-cloud"]
        return subprocess.Popen(
            command,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, *arguments, status=0):
        with self.start(*arguments) as process:
            out, _ = process.communicate(timeout=600)
        assert process.returncode == status, out
        return out

    def undrain(self, host):
        """Enable a host, and wait until the notification of nova is recorded."""
        self.run("host", "undrain", host)
        path = f"/scheduler/v1/hosts?host={host}&state=up"
        wait_for_condition(
            f"{host} is recorded as up",
            lambda: self._cloud.request_our_api("GET", path)["hosts"],
            self._cloud,
        )

    def read_newest_run(self):
        (run, *_) = self._cloud.request_our_api("GET", "/scheduler/v1/plan_runs")["plan_runs"]
        return self._cloud.request_our_api("GET", f"/scheduler/v1/plan_runs/{run['uuid']}")

    def wait_until_recorded(self, host):
        path = f"/scheduler/v1/instances?host={host}"
        wait_for_condition(
            f"the servers are recorded on {host}",
            lambda: len(self._cloud.request_our_api("GET", path)["instances"]) == TEN,
            self._cloud,
        )

    def check_all_servers_are_on(self, host):
        servers = self._operator.servers()
        assert [each["OS-EXT-SRV-ATTR:host"] for each in servers] == [host] * TEN
        assert {each["status"] for each in servers} == {"ACTIVE"}
        self._operator.check_usages_of_servers()

    def count_migrations(self):
        rows = self._cloud.request_compute_api("GET", "/os-migrations")["migrations"]
        return len(rows)


def drain_by_live_migration(drainer, cloud, operator):
    """Empty cn1, three servers at a time."""
    out = drainer.run(
        *("host", "drain", CN1, "--execute", "--parallel", "3", "--reason", "new fan")
    )
    assert re.search("is done: 0 planned, 0 started, 10 done, 0 failed, 0 skipped", out)
    drainer.check_all_servers_are_on(CN2)
    assert cloud.services("nova-compute")[CN1]["disabled_reason"] == "new fan"
    wait_for_condition("disabled", lambda: operator.is_disabled_in_placement(CN1), cloud)
    path = "/scheduler/v1/decisions?kind=move"
    assert len(cloud.request_our_api("GET", path)["decisions"]) == TEN
    drainer.undrain(CN1)
    wait_for_condition("enabled", lambda: not operator.is_disabled_in_placement(CN1), cloud)


def resume_drain_after_a_failure_and_a_kill(drainer, cloud):
    """Empty cn2, whose first migration fails, with an executor that is killed."""
    broken = cloud.folder / CN1 / "out_of_order"
    broken.touch()
    before = drainer.count_migrations()
    out = drainer.run("host", "drain", CN2, "--execute", status=1)
    run = drainer.read_newest_run()
    assert [move["state"] for move in run["moves"]] == ["failed", *["planned"] * 9]
    assert f"it is still on {CN2}: the status of nova's migration is " in out
    assert f"placement-sched plan --resume {run['uuid']}" in out
    broken.unlink()
    with drainer.start("plan", "--resume", run["uuid"]) as process:
        wait_for_condition(
            "three moves are done", lambda: drainer.read_newest_run()["counts"]["done"] >= 3, cloud
        )
        process.kill()
    assert drainer.read_newest_run()["state"] == "running"
    drainer.run("plan", "--resume", run["uuid"])
    assert drainer.read_newest_run()["counts"]["done"] == TEN
    drainer.check_all_servers_are_on(CN1)
    assert drainer.count_migrations() == before + TEN + 1
    drainer.undrain(CN2)


def drain_by_cold_migration(drainer, operator):
    """Empty cn1, with a server that is shut off, by cold migrations."""
    (first, *_) = operator.servers()
    operator.run(f"server stop {first['id']}")
    operator.wait_for_status(first["id"], "SHUTOFF")
    drainer.run("host", "drain", CN1, "--execute", "--cold", "--parallel", "2")
    operator.wait_for_status(first["id"], "SHUTOFF")
    operator.run(f"server start {first['id']}")
    operator.wait_for_status(first["id"], "ACTIVE")
    drainer.check_all_servers_are_on(CN2)


@pytest.mark.timeout(1800)  # two minutes by itself, with nine programs of nova and ours
def test_ten_servers_are_drained_live_and_cold_and_after_failures(tmp_path):
    with running_cloud(tmp_path, "mysql") as cloud, running_operator(cloud) as operator:
        cloud.start_scheduler(cloud.our_scheduler)
        operator.prepare()
        drainer = Drainer(cloud, operator)
        operator.request_boot("many", f"--min {TEN} --max {TEN} --availability-zone nova:{CN1}")
        for server in operator.servers():
            operator.wait_for_status(server["id"], "ACTIVE")
        drainer.wait_until_recorded(CN1)
        plan = json.loads(drainer.run("host", "drain", CN1, "-f", "json"))
        assert (len(plan["moves"]), plan["stuck"]) == (TEN, [])
        drain_by_live_migration(drainer, cloud, operator)
        drainer.wait_until_recorded(CN2)
        resume_drain_after_a_failure_and_a_kill(drainer, cloud)
        drainer.wait_until_recorded(CN1)
        drain_by_cold_migration(drainer, operator)
        operator.delete_all()
