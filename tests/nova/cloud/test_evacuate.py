# SPDX-License-Identifier: Apache-2.0
"""The evacuation of a host of a real nova, and the return of the host."""

import json

import pytest

from tests.nova.cloud.cloud import COMPUTE_HOSTS, run_nova_cloud, wait_for_condition
from tests.nova.cloud.operator_commands import run_operator_commands
from tests.nova.cloud.own_commands import run_own_command, run_remote_command

pytestmark = pytest.mark.exhaustive

FIRST_HOST, SECOND_HOST = COMPUTE_HOSTS
#: The command that brings a server into each state, and its statuses before and after.
STATES = {
    "active": ("", "ACTIVE", "SHUTOFF"),
    "stopped": ("server stop", "SHUTOFF", "SHUTOFF"),
    "error": ("server set --auto-approve --state error", "ERROR", "ACTIVE"),
    "paused": ("server pause", "PAUSED", "PAUSED"),
}
EVACUATED = ("active", "stopped", "error")


def create_servers(operator):
    servers = {
        name: operator.boot_active_server(name, f"--availability-zone nova:{FIRST_HOST}")
        for name in STATES
    }
    for name, (command, status, _) in STATES.items():
        if command:
            operator.run_openstack(f"{command} {servers[name]}")
        operator.wait_for_status(servers[name], status)
    return servers


def evacuate(cloud, *arguments, status=0):
    return run_remote_command(cloud, "host", "evacuate", FIRST_HOST, *arguments, status=status)


def force_down(cloud, *, is_down):
    service = cloud.read_services_by_host("nova-compute")[FIRST_HOST]["id"]
    cloud.request_compute_api("PUT", f"/os-services/{service}", {"forced_down": is_down})
    wait_for_condition(
        "recorded",
        lambda: (
            cloud.request_placement_sched("GET", f"/scheduler/v1/hosts/{FIRST_HOST}")["state"]
            == ("down" if is_down else "up")
        ),
        cloud,
    )


@pytest.mark.timeout(1800)  # two minutes by itself, with nine programs of nova and ours
def test_host_that_died_is_evacuated_and_comes_back(tmp_path):
    with run_nova_cloud(tmp_path, "mysql") as cloud, run_operator_commands(cloud) as operator:
        cloud.start_scheduler(cloud.our_scheduler)
        operator.create_flavors_and_images()
        servers = create_servers(operator)
        run_own_command(cloud, "nova", "sync")
        evacuate(cloud, "--execute", "--fenced", status=2)  # the host is up
        compute = cloud.computes[FIRST_HOST]
        compute.kill()
        force_down(cloud, is_down=True)
        plan = json.loads(evacuate(cloud, "-f", "json"))
        moving = {servers[name] for name in EVACUATED}
        assert {move["instance"] for move in plan["moves"]} == moving
        assert [each["instance"] for each in plan["stuck"]] == [servers["paused"]]
        printed = evacuate(cloud, "--execute", "--fenced", "--parallel", "2", status=1)
        assert "0 planned, 0 started, 3 done, 0 failed, 0 skipped" in printed
        for name in EVACUATED:
            operator.wait_for_host(servers[name], SECOND_HOST, STATES[name][2])
        # Each evacuated server holds both hosts until the first host is back.
        operator.check_usages({FIRST_HOST: ["m1.tiny"] * 4, SECOND_HOST: ["m1.tiny"] * 3})
        migrations = cloud.request_compute_api("GET", "/os-migrations")["migrations"]
        assert sorted(row["instance_uuid"] for row in migrations) == sorted(moving)
        compute.start()
        operator.check_usages({FIRST_HOST: ["m1.tiny"], SECOND_HOST: ["m1.tiny"] * 3})
        for name in EVACUATED:
            wait_for_condition(
                "cleaned up",
                lambda name=name: (
                    operator.read_status_of_newest_migration(servers[name]) == "completed"
                ),
                cloud,
            )
        force_down(cloud, is_down=False)
        operator.delete_all_servers()
