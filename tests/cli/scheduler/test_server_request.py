# SPDX-License-Identifier: Apache-2.0
"""``explain --server``: the request of a server in nova or in its record."""

import json
from uuid import UUID

import pytest

from tests.scheduler.server_groups import create_group
from tests.support.clouds import uuid_of
from tests.support.loopback import serve_application
from tests.support.nova_clouds import build_nova_object, create_sqlite_nova
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts
from tests.support.versions import LATEST_HEADERS

FAILED_SERVER, RECORDED_SERVER = make_uuid(1), make_uuid(2)
GROUP = str(UUID(int=77))


@pytest.fixture
def cloud(sqlite_app):
    """Two hosts without a zone, and a server with a zone in its hints."""
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    hints = {"different_host": [make_uuid(9)]}
    flavor = make_flavor(memory_mb=4096)
    spec = make_spec(RECORDED_SERVER, flavor=flavor, scheduler_hints=hints, force_hosts=["cn2"])
    select_hosts(sqlite_app, spec)
    return sqlite_app


@pytest.fixture
def nova_conf(tmp_path):
    """A nova with the request spec of a failed server."""
    nova = create_sqlite_nova(tmp_path, "one")
    nova.add_request_spec(
        FAILED_SERVER,
        availability_zone="missing",
        project_id="demo",
        user_id="ann",
        num_instances=3,
        is_bfv=False,
        image=build_nova_object("ImageMeta", "1.8", {"min_ram": 0}),
        instance_group=build_nova_object(
            "InstanceGroup", "1.11", {"uuid": GROUP, "policy": "affinity", "_rules": {}}
        ),
        scheduler_hints={"group": [GROUP]},
        **dict.fromkeys(("requested_resources", "requested_destination", "ignore_hosts", "retry")),
    )
    path = tmp_path / "nova.conf"
    path.write_text(f"[api_database]\nconnection = {nova.api.url}\n")
    yield str(path)
    nova.close()


def test_request_of_a_failed_server_comes_from_nova(cloud, run_cli, nova_conf):
    options = ("--server", FAILED_SERVER, "--config-file", nova_conf)
    status, printed, error = run_cli("explain", *options)
    assert (status, error) == (0, "")
    lost_values = "networks, port resources, requested destination and ignored hosts"
    assert f"{FAILED_SERVER}: nova's request spec. Nova does not keep its {lost_values}" in printed
    assert f"The members of server group {GROUP} are unknown" in printed
    assert "missing" in printed
    status, printed, _ = run_cli("explain", *options, "--format", "json")
    document = json.loads(printed)
    assert (status, document["outcome"], len(document["remarks"])) == (0, "no_valid_host", 2)


def test_request_of_a_recorded_server_comes_from_its_record(cloud, run_cli, nova_conf):
    status, printed, _ = run_cli("explain", "--server", RECORDED_SERVER, "--config-file", nova_conf)
    assert (status, f"Request of server {RECORDED_SERVER}: its record" in printed) == (0, True)
    assert "resources MEMORY_MB:4096" in printed
    cloud.put_json(f"/scheduler/v1/instances/{make_uuid(3)}", {"flavor": make_flavor()})
    status, printed, _ = run_cli("explain", "--server", make_uuid(3))
    assert "Zone, scheduler hints, root disk (local or volume) and port resources of 1" in printed


def test_ports_of_an_adopted_server_come_from_its_allocations(cloud, run_cli, nova_conf):
    cloud.put_json(f"/scheduler/v1/instances/{FAILED_SERVER}", {"flavor": make_flavor()})
    agent, bandwidth = str(UUID(int=50)), "NET_BW_EGR_KILOBIT_PER_SEC"
    placement = "/placement/resource_providers"
    provider = {"uuid": agent, "name": "agent", "parent_provider_uuid": uuid_of("cn1")}
    cloud.post_json(placement, provider, headers=LATEST_HEADERS)
    inventories = {"resource_provider_generation": 0, "inventories": {bandwidth: {"total": 5000}}}
    cloud.put_json(f"{placement}/{agent}/inventories", inventories, headers=LATEST_HEADERS)
    claim = {
        "allocations": {agent: {"resources": {bandwidth: 3000}}},
        "project_id": "demo",
        "user_id": "ann",
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    cloud.put_json(f"/placement/allocations/{FAILED_SERVER}", claim, headers=LATEST_HEADERS)
    for options, query in (((), f"{bandwidth}:3000"), (("--config-file", nova_conf), "missing")):
        status, printed, _ = run_cli("explain", "--server", FAILED_SERVER, *options)
        assert (status, query in printed) == (0, True)
        assert "port resources" not in printed


def test_request_of_a_server_is_read_from_an_api_server(cloud, run_main):
    with serve_application(cloud.app) as url:
        options = ("--url", url, "--format", "json")
        status, printed, _ = run_main("explain", "--server", RECORDED_SERVER, *options)
        assert (status, json.loads(printed)["outcome"]) == (0, "selected")
        status, _, error = run_main("explain", "--server", FAILED_SERVER, *options)
    assert (status, f"there is no server {FAILED_SERVER}. Check the uuid" in error) == (2, True)
    assert "placement-sched explain --config-file nova.conf" in error


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-uuid"], "'no-uuid' is not a uuid"),
        ([make_uuid(8)], f"--server: there is no server {make_uuid(8)}. Check the uuid"),
    ],
)
def test_unknown_server_is_an_error_with_status_2(cloud, run_cli, words, message):
    status, printed, error = run_cli("explain", "--server", *words)
    assert (status, printed, message in error) == (2, "", True)


def test_server_excludes_other_requests(cloud, run_cli):
    status, _, error = run_cli("explain", "m1", "--server", RECORDED_SERVER)
    assert (status, "--server cannot be combined with" in error) == (2, True)


def test_living_server_restricts_its_host_only_by_its_allocations(cloud, run_cli):
    group = create_group(cloud)
    record = {"flavor": make_flavor(), "host": "cn1", "node": "cn1", "server_group": group}
    cloud.put_json(f"/scheduler/v1/instances/{FAILED_SERVER}", record)
    status, printed, _ = run_cli("explain", "--server", FAILED_SERVER, "--format", "json")
    document = json.loads(printed)
    assert (status, document["outcome"]) == (0, "selected")
    assert sorted(host["host"] for host in document["hosts"]) == ["cn1", "cn2"]
    remark = f"Server {FAILED_SERVER} is on cn1: its own allocations count as used there"
    assert document["remarks"][-1] == remark
