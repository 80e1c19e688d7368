# SPDX-License-Identifier: Apache-2.0
"""Selections, from the request to the allocations in the database."""

import pytest

from tests.scheduler.providers import (
    add_provider,
    add_sharing_provider,
    read_allocations_of_consumer,
    read_usages,
)
from tests.support.clouds import uuid_of
from tests.support.scheduling import (
    explain_request,
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.support.versions import LATEST, LATEST_HEADERS


@pytest.fixture
def cloud(app):
    """Three hosts. cn3 has the most memory."""
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [
            make_report("cn1"),
            make_report("cn2", memory_mb=98304),
            make_report("cn3", memory_mb=131072),
        ],
    )
    return app


def test_best_host_is_claimed_for_the_instance(cloud):
    result = select_hosts(cloud, make_spec(make_uuid(1)))
    ((best,),) = result["selections"]
    assert best["service_host"] == best["nodename"] == "cn3"
    assert best["availability_zone"] == "nova"
    assert best["allocation_request_version"] == LATEST
    stored = read_allocations_of_consumer(cloud, make_uuid(1))
    amounts = {uuid: part["resources"] for uuid, part in stored.items()}
    assert amounts == {best["compute_node_uuid"]: {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}}
    assert result["policy"] == "default"
    recorded = cloud.get(f"/scheduler/v1/instances/{make_uuid(1)}").json
    assert (recorded["host"], recorded["node"]) == ("cn3", "cn3")
    select_hosts(cloud, make_spec(make_uuid(2)), claim=False)
    assert read_allocations_of_consumer(cloud, make_uuid(2)) == {}


@pytest.mark.parametrize(
    ("changes", "options"),
    [
        ({}, {}),
        ({}, {"return_alternates": True}),
        ({"instance_uuids": [make_uuid(0xABC).upper()]}, {}),
        ({"instance_uuids": [make_uuid(0xABC).replace("-", "")]}, {}),
        ({"num_instances": 7}, {}),
        ({"flavor": make_flavor(vcpus=1.0)}, {}),
    ],
    ids=[
        "equal request",
        "alternates",
        "upper-case uuid",
        "uuid without hyphens",
        "num_instances",
        "float",
    ],
)
def test_repeated_request_for_a_placed_instance_has_the_same_result(cloud, changes, options):
    request = make_spec(make_uuid(0xABC))
    first = select_hosts(cloud, request)
    before = read_usages(cloud)
    assert select_hosts(cloud, request | changes, **options) == first
    assert read_usages(cloud) == before
    twice = make_spec(make_uuid(0xABC), make_uuid(0xABC).upper())
    assert "$.request_spec.instance_uuids" in select_hosts(cloud, twice, 400)["errors"][0]["detail"]


def test_whole_numbers_of_a_request_may_be_written_as_floats(cloud):
    request = {key: value for key, value in make_spec().items() if key != "instance_uuids"}
    floats = {"num_instances": 2.0, "flavor": make_flavor(vcpus=1.0), "limits": {"vcpu": 4.0}}
    response = explain_request(cloud, request | floats, max_rejected=1.0)
    assert len(response["selections"]) == 2
    assert "VCPU%3A1&" in response["funnel"]["allocation_candidates"]["query"] + "&"


@pytest.mark.parametrize(
    "other",
    [make_spec(make_uuid(1), flavor=make_flavor(vcpus=2)), make_spec(make_uuid(1), make_uuid(2))],
    ids=["other flavor", "one instance more"],
)
def test_different_request_for_a_placed_instance_is_an_error(cloud, other):
    select_hosts(cloud, make_spec(make_uuid(1)))
    before = read_usages(cloud)
    (error,) = select_hosts(cloud, other, status=409)["errors"]
    assert error["code"] == "scheduler.instance_placed"
    assert read_usages(cloud) == before


def test_repeated_request_is_an_error_after_its_allocations_moved(cloud):
    select_hosts(cloud, make_spec(make_uuid(1)))
    path = f"/placement/allocations/{make_uuid(1)}"
    stored = cloud.get(path, headers=LATEST_HEADERS).json
    (amounts,) = stored["allocations"].values()
    elsewhere = {make_report("cn1")["uuid"]: {"resources": amounts["resources"]}}
    assert stored["allocations"].keys() != elsewhere.keys()
    moved = {**stored, "allocations": elsewhere}
    cloud.put_json(path, moved, headers=LATEST_HEADERS, status=204)
    (error,) = select_hosts(cloud, make_spec(make_uuid(1)), status=409)["errors"]
    assert error["code"] == "scheduler.instance_placed"


def test_instance_without_its_allocations_may_be_placed_again(cloud):
    select_hosts(cloud, make_spec(make_uuid(1)))
    cloud.delete(f"/placement/allocations/{make_uuid(1)}", headers=LATEST_HEADERS)
    result = select_hosts(cloud, make_spec(make_uuid(1), flavor=make_flavor(vcpus=2)))
    assert get_selected_hosts(result) == ["cn3"]


def test_earlier_instances_of_a_request_use_resources_of_their_hosts(cloud):
    large = make_spec(*map(make_uuid, range(3)), flavor=make_flavor(memory_mb=60000))
    by_memory = {"filter_scheduler.io_ops_weight_multiplier": 0.0}
    assert get_selected_hosts(explain_request(cloud, large, overrides=by_memory)) == [
        "cn3",
        "cn2",
        "cn3",
    ]
    # An instance in build counts as an I/O operation of its host.
    assert get_selected_hosts(select_hosts(cloud, large)) == ["cn3", "cn2", "cn1"]


def test_request_is_placed_completely_or_not_at_all(app):
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1", memory_mb=2048)])
    request = make_spec(*map(make_uuid, range(3)))
    response = explain_request(app, request)
    assert (response["outcome"], response["selections"]) == ("no_valid_host", [])
    assert [host["host"] for host in response["hosts"]] == ["cn1"]
    select_hosts(app, request, status=409)
    assert read_usages(app) == [{"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}]


def test_alternates_are_other_hosts_and_fewer_than_max_attempts(cloud):
    result = select_hosts(cloud, make_spec(make_uuid(1)), return_alternates=True)
    ((best, *others),) = result["selections"]
    assert best["service_host"] == "cn3"
    assert [other["service_host"] for other in others] == ["cn2", "cn1"]
    assert read_allocations_of_consumer(cloud, make_uuid(1)).keys() == {best["compute_node_uuid"]}
    cloud.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{n}") for n in range(4, 9)])
    request = make_spec(num_instances=2, instance_uuids=None)
    result = select_hosts(cloud, request, return_alternates=True)
    assert [len(selections) for selections in result["selections"]] == [3, 3]
    assert len(result["instance_uuids"]) == 2
    assert all(read_allocations_of_consumer(cloud, uuid) for uuid in result["instance_uuids"])


@pytest.mark.parametrize(
    ("amounts", "misses", "detail"),
    [
        (
            {"memory_mb": 200000},
            ["MEMORY_MB:200000"],
            "3 hosts meet all constraints but resources MEMORY_MB:200000",
        ),
        (
            {"memory_mb": 200000, "vcpus": 500},
            ["MEMORY_MB:200000", "VCPU:500"],
            "3 hosts meet all constraints but resources MEMORY_MB:200000 and resources VCPU:500",
        ),
    ],
)
def test_no_valid_host_error_has_the_nearest_misses(cloud, amounts, misses, detail):
    (error,) = select_hosts(cloud, make_spec(flavor=make_flavor(**amounts)), status=409)["errors"]
    assert error["code"] == "scheduler.no_valid_host"
    candidates = error["funnel"]["allocation_candidates"]
    (nearest_miss,) = candidates["nearest_misses"]
    assert (nearest_miss["constraint"], nearest_miss["detail"]) == ("resources", misses[0])
    assert nearest_miss["hosts"] == 3
    assert [each["detail"] for each in nearest_miss.get("and", ())] == misses[1:]
    assert error["detail"].endswith(detail)


CELL_UUID = "0F0E0D0C-0B0A-0908-0706-050403020100"


def report_three_equal_hosts(app):
    reports = [make_report(f"cn{number}", memory_mb=65536) for number in (1, 2, 3)]
    app.post_json("/scheduler/v1/compute_nodes", reports)


def test_error_names_the_filter_that_rejected_a_later_instance(sqlite_app):
    report_three_equal_hosts(sqlite_app)
    group = {"policy": "anti-affinity"}
    response = select_hosts(
        sqlite_app, make_spec(*map(make_uuid, range(1, 5)), instance_group=group), status=409
    )
    (error,) = response["errors"]
    assert error["detail"].endswith(
        "No valid host was found: 3 of the 4 instances fit, and for the next instance "
        "ServerGroupAntiAffinityFilter rejected the last remaining host"
    )
    later = error["funnel"]["later_instance"]
    assert later["placed"] == 3
    (last,) = [stage for stage in later["filters"] if not stage["after"]]
    reasons = [rejection["reason"] for rejection in last["rejected"]]
    assert reasons == ["1 member of the server group here, 1 allowed"]


def test_requested_cell_rejects_hosts_of_other_cells(cloud):
    cloud.post_json(
        "/scheduler/v1/compute_nodes", [make_report("cn4", cell_uuid=CELL_UUID.lower())]
    )
    response = explain_request(cloud, make_spec(requested_destination={"cell": CELL_UUID}))
    assert [host["host"] for host in response["hosts"]] == ["cn4"]
    cell = next(
        stage for stage in response["funnel"]["filters"] if stage["name"] == "requested_cell"
    )
    assert (cell["before"], cell["after"]) == (4, 1)
    assert CELL_UUID.lower() in cell["rejected"][0]["reason"]


def test_allowed_move_to_another_cell_has_a_lower_weight(sqlite_app):
    reports = [
        make_report("cn1", memory_mb=131072),
        make_report("cn2", cell_uuid=CELL_UUID.lower()),
    ]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    allowed = {"cell": CELL_UUID, "allow_cross_cell_move": True}
    response = explain_request(sqlite_app, make_spec(requested_destination=allowed))
    assert [host["host"] for host in response["hosts"]] == ["cn2", "cn1"]
    assert "requested_cell" not in [stage["name"] for stage in response["funnel"]["filters"]]
    raw = {
        entry["host"]: entry["weights"]["CrossCellWeigher"]["raw"] for entry in response["hosts"]
    }
    assert raw == {"cn1": -1, "cn2": 1}
    response = explain_request(
        sqlite_app, make_spec(requested_destination={"allow_cross_cell_move": True})
    )
    assert [host["host"] for host in response["hosts"]] == ["cn1", "cn2"]


def test_error_for_an_unknown_trait_has_its_place_in_the_request(sqlite_app):
    request = make_spec(image={"properties": {"trait:NOPE": "required"}})
    (error,) = select_hosts(sqlite_app, request, status=400)["errors"]
    assert "image property 'trait:NOPE'" in error["detail"]
    assert "parameter" not in error["detail"]


@pytest.mark.parametrize(
    "fields",
    [
        {"force_hosts": ["cn1"]},
        {"force_nodes": ["cn1"]},
        {"requested_destination": {"host": "cn1"}},
        {"requested_destination": {"host": "cn1", "node": "cn1"}},
    ],
    ids=["force_hosts", "force_nodes", "destination host", "destination node"],
)
def test_requested_host_or_node_is_selected(cloud, fields):
    assert get_selected_hosts(select_hosts(cloud, make_spec(**fields))) == ["cn1"]
    query = explain_request(cloud, make_spec(**fields))["funnel"]["allocation_candidates"]["query"]
    assert f"in_tree={make_report('cn1')['uuid']}" in query
    (error,) = select_hosts(cloud, make_spec(force_hosts=["nowhere"]), status=409)["errors"]
    assert error["code"] == "scheduler.no_valid_host"


def test_forced_host_passes_without_filters(cloud):
    cloud.put_json(
        f"/scheduler/v1/compute_nodes/{make_report('cn1')['uuid']}",
        {key: value for key, value in make_report("cn1").items() if key != "uuid"}
        | {"last_seen_up": "2020-01-01T00:00:00Z"},
    )
    assert get_selected_hosts(select_hosts(cloud, make_spec(force_hosts=["cn1"]))) == ["cn1"]
    assert get_selected_hosts(
        select_hosts(cloud, make_spec(requested_destination={"host": "cn2"}))
    ) == ["cn2"]
    select_hosts(cloud, make_spec(requested_destination={"host": "cn1"}), status=409)


def test_instances_of_a_request_have_different_devices(cloud):
    for number in range(2):
        add_provider(
            cloud, f"gpu{number}", make_uuid(900 + number), parent=uuid_of("cn1"), CUSTOM_GPU=1
        )
    gpu = make_flavor(extra_specs={"resources1:CUSTOM_GPU": "1"})
    result = select_hosts(cloud, make_spec(*map(make_uuid, (1, 2)), flavor=gpu))
    assert get_selected_hosts(result) == ["cn1", "cn1"]
    mappings = [best["allocation_request"]["mappings"] for (best,) in result["selections"]]
    assert sorted(mapping["1"] for mapping in mappings) == [[make_uuid(900)], [make_uuid(901)]]
    (error,) = select_hosts(cloud, make_spec(make_uuid(3), flavor=gpu), status=409)["errors"]
    assert error["code"] == "scheduler.no_valid_host"


@pytest.mark.all_databases
def test_instances_of_a_request_fit_only_within_the_pool_that_their_hosts_share(cloud):
    add_sharing_provider(
        cloud, make_uuid(800), make_uuid(801), ("cn1", "cn2", "cn3"), CUSTOM_FAST_DISK=5
    )
    fast = make_flavor(extra_specs={"resources:CUSTOM_FAST_DISK": "2"})
    response = explain_request(cloud, make_spec(*map(make_uuid, (1, 2, 3)), flavor=fast))
    later = response["funnel"]["later_instance"]
    assert (response["outcome"], later["placed"]) == ("no_valid_host", 2)
    (stage,) = later["filters"]
    assert (stage["name"], stage["before"], stage["after"]) == ("room_left", 3, 0)
    assert (
        len(
            get_selected_hosts(select_hosts(cloud, make_spec(*map(make_uuid, (1, 2)), flavor=fast)))
        )
        == 2
    )
