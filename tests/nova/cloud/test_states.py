# SPDX-License-Identifier: Apache-2.0
"""A drain of servers in all states, and healed allocations."""

import json
import subprocess

import pytest
from sqlalchemy import create_engine, make_url, text

from tests.nova.cloud.cloud import COMPUTE_HOSTS, Cloud, run_nova_cloud
from tests.nova.cloud.operator_commands import run_operator_commands
from tests.support.servers import PROGRAMS_FOLDER, build_environment

pytestmark = pytest.mark.system

FIRST_HOST, SECOND_HOST = COMPUTE_HOSTS
#: The command that brings a server into each state, and the status in nova. The state that nova
#: writes without a command is changed in its database.
STATES = {
    "active": ("", "ACTIVE"),
    "locked": ("server lock", "ACTIVE"),
    "paused": ("server pause", "PAUSED"),
    "stopped": ("server stop", "SHUTOFF"),
    "suspended": ("server suspend", "SUSPENDED"),
    "rescued": ("server rescue", "RESCUE"),
    "resized": ("server resize --flavor m1.small", "VERIFY_RESIZE"),
    "error": ("server set --auto-approve --state error", "ERROR"),
    "shelved": (None, "SHELVED"),
}
REASONS = {
    "suspended": "it is suspended: resume it first",
    "rescued": "it is in rescue mode: unrescue it first",
    "resized": "its resize is not confirmed: confirm or revert the resize first",
    "error": "its state is error: repair the instance and reset its state first",
    "shelved": "it is shelved but not offloaded, and holds its host: offload it",
}
MOVED = {"active": "ACTIVE", "locked": "ACTIVE", "paused": "PAUSED", "stopped": "SHUTOFF"}


def change_in_cell(cloud, statement, **values):
    """Change a row of the cell's database."""
    engine = create_engine(make_url(cloud.addresses.cell_database))
    with engine.begin() as connection:
        assert connection.execute(text(statement), values).rowcount == 1
    engine.dispose()


def run_program(cloud, *arguments, status=0, **variables):
    """Run placement-sched, and return its standard output."""
    done = subprocess.run(
        [PROGRAMS_FOLDER / "placement-sched", *arguments],
        env=build_environment(HOME=str(cloud.folder), **variables),
        check=False,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def run_own_command(cloud, *arguments):
    """Run a command that reads nova's databases."""
    files = ("--config-file", cloud.nova_conf, "--config-file", cloud.own_conf)
    run_program(cloud, *arguments, *files)


def run_drain(cloud, *arguments, status=0):
    command = ("host", "drain", FIRST_HOST, "--os-cloud", "nova-cloud", *arguments)
    file = str(cloud.folder / "clouds.yaml")
    return run_program(cloud, *command, status=status, OS_CLIENT_CONFIG_FILE=file)


def create_servers_in_all_states(cloud, operator):
    # A resize chooses the other host.
    servers = {
        name: operator.create_server(
            name, f"--availability-zone nova:{SECOND_HOST if name == 'resized' else FIRST_HOST}"
        )
        for name in STATES
    }
    for name, server in servers.items():
        operator.wait_for_status(server, "ACTIVE")
        command, status = STATES[name]
        if command is None:
            statement = "UPDATE instances SET vm_state = 'shelved' WHERE uuid = :uuid"
            change_in_cell(cloud, statement, uuid=server)
        elif command:
            operator.run_openstack(f"{command} {server}")
        operator.wait_for_status(server, status)
    return servers


def check_drain_of_all_states(cloud, operator):
    servers = create_servers_in_all_states(cloud, operator)
    names = {server: name for name, server in servers.items()}
    run_own_command(cloud, "nova", "sync")
    plan = json.loads(run_drain(cloud, "-f", "json"))
    assert {names[move["instance"]] for move in plan["moves"]} == MOVED.keys()
    reasons = {names[entry["instance"]]: entry["reason"] for entry in plan["stuck"]}
    assert reasons == REASONS
    printed = run_drain(cloud, "--execute", status=1)
    assert f"{servers['locked']}  {FIRST_HOST} -> {SECOND_HOST}  started: it is locked" in printed
    assert "0 planned, 0 started, 4 done, 0 failed, 0 skipped" in printed
    for name, status in MOVED.items():
        assert operator.wait_for_status(servers[name], status)["OS-EXT-SRV-ATTR:host"] == (
            SECOND_HOST
        )
    # Without the plan's check, nova itself rejects the moves, and the run goes on.
    for name in REASONS:
        with pytest.raises(ConnectionError, match=" 409 "):
            cloud.request_compute_api(
                "POST", f"/servers/{servers[name]}/action", {"migrate": {"host": SECOND_HOST}}
            )


def check_healed_allocations(cloud, operator):
    """Compare the amounts that nova-manage and this service heal."""
    sizes = "--vcpus 1 --ram 512 --disk 5 --ephemeral 3 --swap 1500"
    operator.run_openstack(f"flavor create m1.swap --id m1.swap {sizes}")
    servers = {
        name: operator.boot_active_server(name, "", flavor)
        for name, flavor in (("tiny", "m1.tiny"), ("swap", "m1.swap"), ("volume", "m1.swap"))
    }
    statement = (
        "UPDATE block_device_mapping SET destination_type = 'volume', volume_id = :uuid "
        "WHERE instance_uuid = :uuid AND boot_index = 0"
    )
    change_in_cell(cloud, statement, uuid=servers["volume"])
    statement = "UPDATE instances SET image_ref = '' WHERE uuid = :uuid"
    change_in_cell(cloud, statement, uuid=servers["volume"])
    healed = []
    for heal in (Cloud.heal_with_nova_manage, heal_with_own_command):
        for server in servers.values():
            cloud.request_placement_sched("DELETE", f"/placement/allocations/{server}")
        heal(cloud)
        healed.append({name: operator.read_allocations(uuid) for name, uuid in servers.items()})
    theirs, ours = healed
    assert {name: next(iter(part.values()))["DISK_GB"] for name, part in theirs.items()} == {
        "tiny": 1,
        "swap": 10,
        "volume": 5,
    }
    assert ours == theirs


def heal_with_own_command(cloud):
    run_own_command(cloud, "nova", "sync")
    run_own_command(cloud, "placement", "heal_allocations", "--instances-are-all-recorded")


@pytest.mark.timeout(1800)  # two minutes by itself, with nine programs of nova and ours
def test_servers_in_all_states_are_drained_or_named_and_healed_as_by_nova(tmp_path):
    with run_nova_cloud(tmp_path, "mysql") as cloud, run_operator_commands(cloud) as operator:
        cloud.start_scheduler(cloud.our_scheduler)
        operator.create_flavors_and_images()
        check_drain_of_all_states(cloud, operator)
        check_healed_allocations(cloud, operator)
