# SPDX-License-Identifier: Apache-2.0
"""A dump of a cloud, loaded into an empty database, restores the cloud."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import HealthCheck, given, settings

from placement_sched.operations.fleet.load import list_differences
from placement_sched.schemas.yaml_file import to_yaml
from tests.conftest import delete_test_rows
from tests.exploring import scale_example_count
from tests.operations.fleet.clouds import draw_fleet_document
from tests.operations.fleet.conftest import LoadableCloud
from tests.support.reports import build_report, node_uuid
from tests.support.versions import LATEST_HEADERS

PROVIDERS_PATH = "/placement/resource_providers"


def assert_loaded_dump_restores_cloud(cloud, empty_cloud):
    """Load the dump into an empty cloud, and compare the clouds and their dumps."""
    dumped = cloud.dump()
    empty_cloud.load(dumped)
    assert empty_cloud.state == cloud.state
    assert empty_cloud.dump() == dumped
    assert cloud.load(dumped) == []


@settings(
    max_examples=scale_example_count(12),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
@given(document=draw_fleet_document())
def test_fleet_dump_loaded_into_an_empty_database_restores_the_cloud(empty_cloud, document):
    cloud, restored_cloud = empty_cloud(), empty_cloud()
    # Under make test-only WHAT=explore, open databases would exceed the limit of open files.
    with close_databases_at_end(cloud, restored_cloud):
        cloud.load(to_yaml(document))
        dumped = cloud.dump()
        restored_cloud.load(dumped)
        assert (
            list_differences(cloud.state, restored_cloud.state)
            == list_differences(restored_cloud.state, cloud.state)
            == ()
        )
        assert cloud.state == restored_cloud.state
        assert restored_cloud.dump() == dumped
        # Loading the document or the dump again changes nothing.
        assert cloud.load(to_yaml(document)) == cloud.load(dumped) == []


@contextmanager
def close_databases_at_end(*clouds: LoadableCloud) -> Iterator[None]:
    """Close the databases of clouds at the end."""
    try:
        yield
    finally:
        for cloud in clouds:
            cloud.database.dispose()


def test_over_allocated_provider_is_restored_from_a_fleet_dump(app, cloud, empty_cloud):
    cloud.load(
        """
        hosts: [{host: cn1, vcpus: 8, memory_mb: 4096}]
        instances:
          - {name: whole, host: cn1, flavor: {vcpus: 4, memory_mb: 1024}}
          - {name: given, host: cn1, allocations: {cn1: {VCPU: 3}}}
        """
    )
    (uuid,) = cloud.state.providers
    address = f"/placement/resource_providers/{uuid}/inventories/VCPU"
    generation = app.get(address, headers=LATEST_HEADERS).json["resource_provider_generation"]
    app.put_json(
        address,
        {
            "resource_provider_generation": generation,
            "total": 4,
            "min_unit": 2,
            "step_size": 2,
            "allocation_ratio": 1.0,
        },
        headers=LATEST_HEADERS,
    )
    assert_loaded_dump_restores_cloud(cloud, empty_cloud())


def test_cloud_created_by_api_requests_is_restored_from_its_fleet_dump(app, cloud, empty_cloud):
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [
            build_report(
                number,
                stats={"num_instances": number, "uptime": "up 1 day"},
                cpu_info={"arch": "x86_64", "topology": {"cores": 4}},
                numa_topology={"cells": [{"id": 0, "cpuset": [0, 1], "memory": 512}]},
            )
            for number in (1, 2, 3)
        ],
    )
    aggregate = app.post_json("/compute/v2.1/os-aggregates", {"aggregate": {"name": "az"}}).json
    number = aggregate["aggregate"]["id"]
    for action in (
        {"add_host": {"host": "cn1"}},
        {"set_metadata": {"metadata": {"availability_zone": "z", "k": "07"}}},
    ):
        app.post_json(f"/compute/v2.1/os-aggregates/{number}/action", action)
    flavor = {"name": "small", "ram": 512, "vcpus": 1, "disk": 1, "id": "s"}
    app.post_json("/compute/v2.1/flavors", {"flavor": flavor})
    app.post_json(
        "/compute/v2.1/flavors/s/os-extra_specs", {"extra_specs": {"resources:CUSTOM_A": "0"}}
    )
    image = app.post_json("/image/v2/images", {"name": "i", "os_distro": "x", "tags": ["t"]}).json
    app.put_json(
        "/compute/v2.1/os-services/disable-log-reason",
        {"host": "cn2", "binary": "nova-compute", "disabled_reason": "broken"},
    )
    for uuid, name, parent in ((node_uuid(11), "gpu", node_uuid(1)), (node_uuid(12), "disk", None)):
        app.post_json(
            PROVIDERS_PATH,
            {"uuid": uuid, "name": name, "parent_provider_uuid": parent},
            headers=LATEST_HEADERS,
        )
    app.post_json(
        "/scheduler/v1/select_destinations",
        {
            "request_spec": {
                "flavor": "s",
                "image": image["id"],
                "num_instances": 2,
                "project_id": "p",
                "user_id": "u",
            }
        },
    )
    assert_loaded_dump_restores_cloud(cloud, empty_cloud())
    assert len(cloud.state.consumers) == 2


def create_names_with_blanks(app):
    """Create names with leading or trailing blanks, and a provider without a name."""
    for number, name in enumerate((" pr[1] ", "pr\t", "\u3000{root}", "pr", "pr "), 21):
        body = {"uuid": node_uuid(number), "name": name}
        app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS, expect_errors=True)
    lost = node_uuid(22)
    app.put_json(f"{PROVIDERS_PATH}/{lost}", {"name": ""}, headers=LATEST_HEADERS)
    for number in (31, 32):
        body = {"uuid": node_uuid(number), "name": f" {number}  ", "parent_provider_uuid": lost}
        app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS)
    stock = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 9}}}
    app.put_json(f"{PROVIDERS_PATH}/{lost}/inventories", stock, headers=LATEST_HEADERS)
    for number, (project, user) in enumerate(((" p ", "u\n"), ("p", " u"), ("p ", "u ")), 41):
        claim = {
            "allocations": {lost: {"resources": {"VCPU": 1}}},
            "project_id": project,
            "user_id": user,
            "consumer_type": "INSTANCE",
            "consumer_generation": None,
        }
        app.put_json(f"/placement/allocations/{node_uuid(number)}", claim, headers=LATEST_HEADERS)
        group = {"server_group": {"name": "g", "policies": ["affinity"]}}
        app.post_json("/compute/v2.1/os-server-groups", group, headers={"X-Project-Id": project})
    for number in (42, 43, 44):
        record = {
            "display_name": f" vm{number} ",
            "host": " h",
            "node": "n ",
            "project_id": "p ",
            "user_id": " u",
            "task_state": " ",
        }
        app.put_json(f"/scheduler/v1/instances/{node_uuid(number)}", record)
    app.post_json("/image/v2/images", {"name": " i", "owner": "o ", "k": " v\n"})


@pytest.mark.all_databases
def test_names_with_blanks_are_restored_from_a_fleet_dump(app, cloud, settings, database_url):
    """MariaDB compares "pr" and "pr " as equal: the second is rejected."""
    create_names_with_blanks(app)
    state, dumped = cloud.state, cloud.dump()
    assert len(state.providers) == (6 if cloud.considers_equal("pr", "pr ") else 7)
    assert (len(state.consumers), len(state.instances)) == (3, 3)
    assert cloud.load(dumped) == []
    delete_test_rows(database_url)
    restored_cloud = LoadableCloud(cloud.database, settings)
    restored_cloud.load(dumped)
    assert restored_cloud.state == state
    assert restored_cloud.dump() == dumped
    assert restored_cloud.load(dumped) == []
