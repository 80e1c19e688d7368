# SPDX-License-Identifier: Apache-2.0
"""Drains of ten servers of a real nova, with failures."""

import json
import re
import subprocess

import pytest

from tests.nova.cloud.cloud import COMPUTE_HOSTS, run_nova_cloud, wait_for_condition
from tests.nova.cloud.operator_commands import run_operator_commands
from tests.support.servers import PROGRAMS_FOLDER, build_environment

pytestmark = pytest.mark.exhaustive

FIRST_HOST, SECOND_HOST = COMPUTE_HOSTS
SERVER_COUNT = 10


class DrainCommands:
    """An administrator at the command line of placement-sched."""

    def __init__(self, cloud, operator):
        self._cloud, self._operator = cloud, operator
        file = str(cloud.folder / "clouds.yaml")
        self._variables = build_environment(OS_CLIENT_CONFIG_FILE=file, HOME=str(cloud.folder))

    def start_command(self, *arguments):
        command = [PROGRAMS_FOLDER / "placement-sched", *arguments, "--os-cloud", "nova-cloud"]
        return subprocess.Popen(
            command,
            env=self._variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run_command(self, *arguments, status=0):
        with self.start_command(*arguments) as process:
            out, _ = process.communicate(timeout=600)
        assert process.returncode == status, out
        return out

    def undrain(self, host):
        """Enable a host, and wait until the notification of nova is recorded."""
        self.run_command("host", "undrain", host)
        path = f"/scheduler/v1/hosts?host={host}&state=up"
        wait_for_condition(
            f"{host} is recorded as up",
            lambda: self._cloud.request_placement_sched("GET", path)["hosts"],
            self._cloud,
        )

    def read_newest_plan_run(self):
        (run, *_) = self._cloud.request_placement_sched("GET", "/scheduler/v1/plan_runs")[
            "plan_runs"
        ]
        return self._cloud.request_placement_sched("GET", f"/scheduler/v1/plan_runs/{run['uuid']}")

    def wait_until_servers_are_recorded_on(self, host):
        path = f"/scheduler/v1/instances?host={host}"
        wait_for_condition(
            f"the servers are recorded on {host}",
            lambda: (
                len(self._cloud.request_placement_sched("GET", path)["instances"]) == SERVER_COUNT
            ),
            self._cloud,
        )

    def check_all_servers_are_on(self, host):
        servers = self._operator.list_servers()
        assert [each["OS-EXT-SRV-ATTR:host"] for each in servers] == [host] * SERVER_COUNT
        assert {each["status"] for each in servers} == {"ACTIVE"}
        self._operator.check_usages_of_servers()

    def count_migrations(self):
        rows = self._cloud.request_compute_api("GET", "/os-migrations")["migrations"]
        return len(rows)


def drain_by_live_migration(drainer, cloud, operator):
    """Empty cn1, three servers at a time."""
    out = drainer.run_command(
        *("host", "drain", FIRST_HOST, "--execute", "--parallel", "3", "--reason", "new fan")
    )
    assert re.search("is done: 0 planned, 0 started, 10 done, 0 failed, 0 skipped", out)
    drainer.check_all_servers_are_on(SECOND_HOST)
    assert cloud.read_services_by_host("nova-compute")[FIRST_HOST]["disabled_reason"] == "new fan"
    wait_for_condition("disabled", lambda: operator.is_disabled_in_placement(FIRST_HOST), cloud)
    path = "/scheduler/v1/decisions?kind=move"
    assert len(cloud.request_placement_sched("GET", path)["decisions"]) == SERVER_COUNT
    drainer.undrain(FIRST_HOST)
    wait_for_condition("enabled", lambda: not operator.is_disabled_in_placement(FIRST_HOST), cloud)


def resume_drain_after_a_failure_and_a_kill(drainer, cloud):
    """Empty cn2, whose first migration fails, with an executor that is killed."""
    broken = cloud.folder / FIRST_HOST / "out_of_order"
    broken.touch()
    before = drainer.count_migrations()
    command = ("host", "drain", SECOND_HOST, "--execute", "--stop-on-failure")
    out = drainer.run_command(*command, status=1)
    run = drainer.read_newest_plan_run()
    assert [move["state"] for move in run["moves"]] == ["failed", *["planned"] * 9]
    assert f"it is still on {SECOND_HOST}: the status of nova's migration is " in out
    assert f"placement-sched plan --resume {run['uuid']}" in out
    broken.unlink()
    with drainer.start_command("plan", "--resume", run["uuid"]) as process:
        wait_for_condition(
            "three moves are done",
            lambda: drainer.read_newest_plan_run()["counts"]["done"] >= 3,
            cloud,
        )
        process.kill()
    assert drainer.read_newest_plan_run()["state"] == "running"
    drainer.run_command("plan", "--resume", run["uuid"])
    assert drainer.read_newest_plan_run()["counts"]["done"] == SERVER_COUNT
    drainer.check_all_servers_are_on(FIRST_HOST)
    assert drainer.count_migrations() == before + SERVER_COUNT + 1
    drainer.undrain(SECOND_HOST)


def drain_by_cold_migration(drainer, operator):
    """Empty cn1, with a server that is shut off, by cold migrations."""
    (first, *_) = operator.list_servers()
    operator.run_openstack(f"server stop {first['id']}")
    operator.wait_for_status(first["id"], "SHUTOFF")
    drainer.run_command("host", "drain", FIRST_HOST, "--execute", "--cold", "--parallel", "2")
    operator.wait_for_status(first["id"], "SHUTOFF")
    operator.run_openstack(f"server start {first['id']}")
    operator.wait_for_status(first["id"], "ACTIVE")
    drainer.check_all_servers_are_on(SECOND_HOST)


@pytest.mark.timeout(1800)  # two minutes by itself, with nine programs of nova and ours
def test_ten_servers_are_drained_live_and_cold_and_after_failures(tmp_path):
    with run_nova_cloud(tmp_path, "mysql") as cloud, run_operator_commands(cloud) as operator:
        cloud.start_scheduler(cloud.our_scheduler)
        operator.create_flavors_and_images()
        drainer = DrainCommands(cloud, operator)
        operator.create_server(
            "many",
            f"--min {SERVER_COUNT} --max {SERVER_COUNT} --availability-zone nova:{FIRST_HOST}",
        )
        for server in operator.list_servers():
            operator.wait_for_status(server["id"], "ACTIVE")
        drainer.wait_until_servers_are_recorded_on(FIRST_HOST)
        plan = json.loads(drainer.run_command("host", "drain", FIRST_HOST, "-f", "json"))
        assert (len(plan["moves"]), plan["stuck"]) == (SERVER_COUNT, [])
        drain_by_live_migration(drainer, cloud, operator)
        drainer.wait_until_servers_are_recorded_on(SECOND_HOST)
        resume_drain_after_a_failure_and_a_kill(drainer, cloud)
        drainer.wait_until_servers_are_recorded_on(FIRST_HOST)
        drain_by_cold_migration(drainer, operator)
        operator.delete_all_servers()
