# SPDX-License-Identifier: Apache-2.0
"""Drains of servers in all states and of an adopted cloud, and healed allocations."""

import json

import pytest
from sqlalchemy import create_engine, make_url, text

from tests.nova.cloud.cloud import COMPUTE_HOSTS, Cloud, run_nova_cloud
from tests.nova.cloud.operator_commands import run_operator_commands
from tests.nova.cloud.own_commands import run_own_command, run_remote_command

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
    change_row(cloud.addresses.cell_database, statement, **values)


def change_row(database, statement, **values):
    engine = create_engine(make_url(database))
    with engine.begin() as connection:
        assert connection.execute(text(statement), values).rowcount == 1
    engine.dispose()


def run_drain(cloud, *arguments, status=0):
    return run_remote_command(cloud, "host", "drain", FIRST_HOST, *arguments, status=status)


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


def boot_from_volume(cloud, server):
    """Record in nova that the root disk of a server is a volume."""
    statement = (
        "UPDATE block_device_mapping SET destination_type = 'volume', volume_id = :uuid "
        "WHERE instance_uuid = :uuid AND boot_index = 0"
    )
    change_in_cell(cloud, statement, uuid=server)
    change_in_cell(cloud, "UPDATE instances SET image_ref = '' WHERE uuid = :uuid", uuid=server)


def check_healed_allocations(cloud, operator):
    """Compare the amounts that nova-manage and this service heal."""
    sizes = "--vcpus 1 --ram 512 --disk 5 --ephemeral 3 --swap 1500"
    operator.run_openstack(f"flavor create m1.swap --id m1.swap {sizes}")
    servers = {
        name: operator.boot_active_server(name, "", flavor)
        for name, flavor in (("tiny", "m1.tiny"), ("swap", "m1.swap"), ("volume", "m1.swap"))
    }
    boot_from_volume(cloud, servers["volume"])
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


def create_servers_with_requirements(cloud, operator):
    """Create servers with and without requirements on the first host.

    The second host has neither the zone nor the trait, and only 20 GB of disk remain on it.
    """
    operator.run_openstack("aggregate create --zone az1 az1")
    operator.run_openstack(f"aggregate add host az1 {FIRST_HOST}")
    trait = operator.add_trait_to_host(FIRST_HOST, "CUSTOM_LICENSED")
    image = "image create --disk-format raw --container-format bare"
    operator.run_openstack(f"{image} --property trait:{trait}=required licensed")
    operator.run_openstack("flavor create m1.disk --id m1.disk --vcpus 1 --ram 512 --disk 90")
    filler, _ = (
        operator.boot_active_server(f"filler{number}", f"--host {SECOND_HOST}", "m1.disk")
        for number in range(2)
    )
    on_first = f"--host {FIRST_HOST}"
    servers = {
        "plain": operator.boot_active_server("plain", on_first),
        "zone": operator.boot_active_server("zone", "--availability-zone az1"),
        "trait": operator.boot_active_server("trait", "--image licensed"),
        "hint": operator.boot_active_server("hint", f"--hint different_host={filler}"),
        "local": operator.boot_active_server("local", on_first, "m1.disk"),
        "volume": operator.boot_active_server("volume", on_first, "m1.disk"),
        "unknown": operator.boot_active_server("unknown", "--availability-zone az1"),
    }
    for server in servers.values():
        assert operator.read_host_of_server(server) == FIRST_HOST
    boot_from_volume(cloud, servers["volume"])
    statement = "DELETE FROM request_specs WHERE instance_uuid = :uuid"
    change_row(cloud.addresses.api_database, statement, uuid=servers["unknown"])
    return servers


def check_plans_of_an_adopted_cloud(cloud, servers):
    names = {server: name for name, server in servers.items()}
    run_own_command(cloud, "nova", "adopt")
    run_own_command(cloud, "nova", "sync")
    assert cloud.request_placement_sched("GET", "/scheduler/v1/decisions")["decisions"] == []
    plan = json.loads(run_drain(cloud, "-f", "json"))
    places = {names[move["instance"]]: move["to"] for move in plan["moves"]}
    assert places == dict.fromkeys(("plain", "volume", "unknown"), SECOND_HOST)
    reasons = {names[entry["instance"]]: entry["reason"] for entry in plan["stuck"]}
    all_but = "1 host meets all constraints but "
    assert reasons.pop("zone").startswith(f"{all_but}member_of ")
    assert reasons == {
        "trait": f"{all_but}required CUSTOM_LICENSED",
        "hint": "DifferentHostFilter rejected the last remaining host",
        "local": f"{all_but}resources DISK_GB:90",
    }
    unknown = [servers["unknown"]]
    assert plan["unknown"] == {"availability_zone": unknown, "scheduler_hints": unknown}
    assert "zone and scheduler hints of 1 server are not known" in run_drain(cloud)
    changes = ("--change", f"add={FIRST_HOST}", "--change", f"drain={FIRST_HOST}")
    plan = json.loads(run_remote_command(cloud, "plan", *changes, "-f", "json"))
    places = {names[move["instance"]]: move["to"] for move in plan["moves"]}
    assert plan["stuck"] == []
    assert {places[name] for name in ("zone", *reasons)} == {f"{FIRST_HOST}+1"}


def check_explained_requests(cloud, operator, servers):
    giant = operator.create_server("giant", "--availability-zone az1", "m1.giant")
    assert "No valid host" in operator.wait_for_fault(giant)
    for server, outcome, requirement in (
        (giant, "no_valid_host", "MEMORY_MB:1000000"),
        (servers["trait"], "selected", "CUSTOM_LICENSED"),
        (servers["hint"], "selected", "DifferentHostFilter"),
    ):
        command = ("explain", "--server", server)
        assert json.loads(run_own_command(cloud, *command, "-f", "json"))["outcome"] == outcome
        printed = run_own_command(cloud, *command)
        assert f"Request of server {server}: nova's request spec" in printed
        assert requirement in printed


@pytest.mark.timeout(1800)  # two minutes by itself, with nine programs of nova and ours
def test_servers_of_an_adopted_cloud_are_scheduled_again_as_requested_from_nova(tmp_path):
    with run_nova_cloud(tmp_path, "mysql") as cloud, run_operator_commands(cloud) as operator:
        cloud.start_scheduler(cloud.nova_scheduler)
        operator.create_flavors_and_images()
        servers = create_servers_with_requirements(cloud, operator)
        check_plans_of_an_adopted_cloud(cloud, servers)
        check_explained_requests(cloud, operator, servers)
