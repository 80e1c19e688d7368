# SPDX-License-Identifier: Apache-2.0
"""select_destinations, from the request to the allocations in the database."""

import pytest

from tests.support.scheduling import flavor, hosts_of, instance, report, spec
from tests.support.versions import LATEST, LATEST_HEADERS


@pytest.fixture
def cloud(app):
    """Three hosts, of which cn3 has the most memory."""
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [report("cn1"), report("cn2", memory_mb=98304), report("cn3", memory_mb=131072)],
    )
    return app


def select(app, request_spec, status=200, **more):
    body = {"request_spec": request_spec, **more}
    return app.post_json("/scheduler/v1/select_destinations", body, status=status).json


def explain(app, request_spec, **more):
    return app.post_json("/scheduler/v1/explain", {"request_spec": request_spec, **more}).json


def allocations(app, uuid):
    return app.get(f"/placement/allocations/{uuid}", headers=LATEST_HEADERS).json["allocations"]


def usages(app):
    providers = app.get("/placement/resource_providers", headers=LATEST_HEADERS).json
    return [
        app.get(f"/placement/resource_providers/{one['uuid']}/usages", headers=LATEST_HEADERS).json[
            "usages"
        ]
        for one in providers["resource_providers"]
    ]


def test_best_host_is_claimed_for_the_instance(cloud):
    answer = select(cloud, spec(instance(1)))
    ((best,),) = answer["selections"]
    assert best["service_host"] == best["nodename"] == "cn3"
    assert best["availability_zone"] == "nova"
    assert best["allocation_request_version"] == LATEST
    held = allocations(cloud, instance(1))
    assert {uuid: part["resources"] for uuid, part in held.items()} == {
        best["compute_node_uuid"]: {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}
    }
    assert answer["policy"] == "default"


def test_claimed_instance_is_recorded_where_it_went(cloud):
    select(cloud, spec(instance(1)))
    recorded = cloud.get(f"/scheduler/v1/instances/{instance(1)}").json
    assert (recorded["host"], recorded["node"]) == ("cn3", "cn3")


def test_same_request_sent_again_gets_the_same_answer_and_allocates_once(cloud):
    first = select(cloud, spec(instance(1), instance(2)))
    before = usages(cloud)
    assert select(cloud, spec(instance(1), instance(2))) == first
    assert usages(cloud) == before


@pytest.mark.parametrize(
    "changes",
    [
        {"instance_uuids": [instance(0xABC).upper()]},
        {"instance_uuids": [instance(0xABC).replace("-", "")]},
        {"num_instances": 7},
        {"flavor": flavor(vcpus=1.0)},
    ],
    ids=["upper case", "without hyphens", "a number that does not count", "1.0 for 1"],
)
def test_same_request_in_other_words_finds_the_same_placement(cloud, changes):
    asked = spec(instance(0xABC))
    first = select(cloud, asked)
    before = usages(cloud)
    assert select(cloud, asked | changes) == first
    assert usages(cloud) == before


def test_request_sent_again_keeps_its_host_where_it_now_asks_for_alternates_too(cloud):
    first = select(cloud, spec(instance(1)))
    assert select(cloud, spec(instance(1)), return_alternates=True) == first


def test_instance_named_twice_in_two_spellings_is_refused(cloud):
    twice = [instance(0xABC), instance(0xABC).upper()]
    (error,) = select(cloud, spec(*twice), status=400)["errors"]
    assert "$.request_spec.instance_uuids" in error["detail"]


def test_whole_numbers_may_be_written_as_floats(cloud):
    asked = {key: value for key, value in spec().items() if key != "instance_uuids"}
    floats = {"num_instances": 2.0, "flavor": flavor(vcpus=1.0), "limits": {"vcpu": 4.0}}
    told = explain(cloud, asked | floats, max_rejected=1.0)
    assert len(told["selections"]) == 2
    assert "VCPU%3A1&" in told["funnel"]["allocation_candidates"]["query"] + "&"


@pytest.mark.parametrize(
    "other",
    [spec(instance(1), flavor=flavor(vcpus=2)), spec(instance(1), instance(2))],
    ids=["other flavor", "one instance more"],
)
def test_another_request_for_a_placed_instance_is_refused_and_changes_nothing(cloud, other):
    select(cloud, spec(instance(1)))
    before = usages(cloud)
    (error,) = select(cloud, other, status=409)["errors"]
    assert error["code"] == "scheduler.instance_placed"
    assert usages(cloud) == before


def test_answer_is_not_given_again_for_an_instance_that_holds_something_else(cloud):
    select(cloud, spec(instance(1)))
    path = f"/placement/allocations/{instance(1)}"
    held = cloud.get(path, headers=LATEST_HEADERS).json
    (amounts,) = held["allocations"].values()
    elsewhere = {report("cn1")["uuid"]: {"resources": amounts["resources"]}}
    assert held["allocations"].keys() != elsewhere.keys()
    moved = {**held, "allocations": elsewhere}
    cloud.put_json(path, moved, headers=LATEST_HEADERS, status=204)
    (error,) = select(cloud, spec(instance(1)), status=409)["errors"]
    assert error["code"] == "scheduler.instance_placed"


def test_instance_whose_allocations_are_gone_may_be_placed_anew(cloud):
    select(cloud, spec(instance(1)))
    cloud.delete(f"/placement/allocations/{instance(1)}", headers=LATEST_HEADERS)
    answer = select(cloud, spec(instance(1), flavor=flavor(vcpus=2)))
    assert hosts_of(answer) == ["cn3"]


def test_without_claim_nothing_is_allocated(cloud):
    select(cloud, spec(instance(1)), claim=False)
    assert allocations(cloud, instance(1)) == {}


def test_instances_of_one_request_see_what_the_earlier_ones_took(cloud):
    thirsty = spec(*map(instance, range(3)), flavor=flavor(memory_mb=60000))
    by_memory = {"filter_scheduler.io_ops_weight_multiplier": 0.0}
    assert hosts_of(explain(cloud, thirsty, overrides=by_memory)) == ["cn3", "cn2", "cn3"]
    # A host on which an instance of this request is being built is busy with that, besides.
    assert hosts_of(select(cloud, thirsty)) == ["cn3", "cn2", "cn1"]


def test_request_is_placed_whole_or_not_at_all(app):
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1", memory_mb=2048)])
    select(app, spec(*map(instance, range(3))), status=409)
    assert usages(app) == [{"VCPU": 0, "MEMORY_MB": 0, "DISK_GB": 0}]


def test_explain_foresees_that_the_last_instance_finds_no_room(app):
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1", memory_mb=2048)])
    told = explain(app, spec(*map(instance, range(3))))
    assert told["outcome"] == "no_valid_host"
    assert told["selections"] == []
    assert [host["host"] for host in told["hosts"]] == ["cn1"]


def test_alternates_are_other_hosts_that_no_instance_got(cloud):
    answer = select(cloud, spec(instance(1)), return_alternates=True)
    ((best, *others),) = answer["selections"]
    assert best["service_host"] == "cn3"
    assert [other["service_host"] for other in others] == ["cn2", "cn1"]
    assert allocations(cloud, instance(1)).keys() == {best["compute_node_uuid"]}


def test_no_more_alternates_than_attempts(cloud):
    cloud.post_json("/scheduler/v1/compute_nodes", [report(f"cn{n}") for n in range(4, 9)])
    ((_, *others),) = select(cloud, spec(), return_alternates=True)["selections"]
    assert len(others) == 2


def test_uuids_are_made_for_a_request_that_names_none(cloud):
    asked = spec()
    del asked["instance_uuids"]
    answer = select(cloud, {**asked, "num_instances": 2})
    assert len(answer["instance_uuids"]) == 2
    assert all(allocations(cloud, uuid) for uuid in answer["instance_uuids"])


def test_no_valid_host_tells_the_funnel_and_the_nearest_miss(cloud):
    (error,) = select(cloud, spec(flavor=flavor(memory_mb=200000)), status=409)["errors"]
    assert error["code"] == "scheduler.no_valid_host"
    candidates = error["funnel"]["allocation_candidates"]
    assert candidates["nearest_misses"] == [
        {"constraint": "resources", "detail": "MEMORY_MB:200000", "hosts": 3}
    ]
    assert "MEMORY_MB:200000" in error["detail"]


def test_two_constraints_that_only_together_stand_in_the_way_are_told(cloud):
    asked = spec(flavor=flavor(memory_mb=200000, vcpus=500))
    (error,) = select(cloud, asked, status=409)["errors"]
    assert error["funnel"]["allocation_candidates"]["nearest_misses"] == [
        {
            "constraint": "resources",
            "detail": "MEMORY_MB:200000",
            "hosts": 3,
            "and": [{"constraint": "resources", "detail": "VCPU:500"}],
        }
    ]
    assert error["detail"].endswith(
        "3 hosts meet all constraints but resources MEMORY_MB:200000 and resources VCPU:500"
    )


CELL = "0F0E0D0C-0B0A-0908-0706-050403020100"


def test_hosts_of_a_disabled_cell_get_nothing_though_they_are_asked_for(cloud):
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn4", cell_uuid=CELL.lower())])
    closed = {"scheduler.disabled_cells": [CELL.upper()]}
    told = explain(cloud, spec(), overrides=closed)
    cells = next(one for one in told["funnel"]["filters"] if one["name"] == "enabled_cells")
    assert [(one["host"], one["reason"]) for one in cells["rejected"]] == [
        ("cn4", "its cell is disabled")
    ]
    assert "cn4" not in [host["host"] for host in told["hosts"]]
    forced = explain(cloud, spec(force_hosts=["cn4"]), overrides=closed)
    assert forced["outcome"] == "no_valid_host"


def three_equal_hosts(app):
    reports = [report(f"cn{number}", memory_mb=65536) for number in (1, 2, 3)]
    app.post_json("/scheduler/v1/compute_nodes", reports)


def test_it_is_told_why_a_later_instance_found_no_host(sqlite_app):
    three_equal_hosts(sqlite_app)
    group = {"policy": "anti-affinity"}
    refused = select(
        sqlite_app, spec(*map(instance, range(1, 5)), instance_group=group), status=409
    )
    (error,) = refused["errors"]
    assert error["detail"].endswith(
        "No valid host was found: 3 of the 4 instances fit; for the next instance "
        "ServerGroupAntiAffinityFilter rejected the last remaining host"
    )
    later = error["funnel"]["later_instance"]
    assert later["placed"] == 3
    (last,) = [one for one in later["filters"] if not one["after"]]
    assert [one["reason"] for one in last["rejected"]] == [
        "1 member of the server group here, 1 allowed"
    ]


def test_it_is_told_where_instances_before_leave_no_room(sqlite_app):
    three_equal_hosts(sqlite_app)
    whole = flavor(memory_mb=65536)
    told = explain(sqlite_app, spec(*map(instance, range(1, 5)), flavor=whole))
    later = told["funnel"]["later_instance"]
    assert (told["outcome"], later["placed"]) == ("no_valid_host", 3)
    (room,) = later["filters"]
    assert (room["name"], room["before"], room["after"]) == ("room_left", 1, 0)
    assert {one["reason"] for one in room["rejected"]} == {
        "no capacity remains after the earlier instances of this request"
    }


def test_requested_cell_narrows(cloud):
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn4", cell_uuid=CELL.lower())])
    told = explain(cloud, spec(requested_destination={"cell": CELL}))
    assert [host["host"] for host in told["hosts"]] == ["cn4"]
    cell = next(one for one in told["funnel"]["filters"] if one["name"] == "requested_cell")
    assert (cell["before"], cell["after"]) == (4, 1)
    assert CELL.lower() in cell["rejected"][0]["reason"]


def test_move_to_another_cell_may_be_allowed_and_is_not_preferred(sqlite_app):
    reports = [report("cn1", memory_mb=131072), report("cn2", cell_uuid=CELL.lower())]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    allowed = {"cell": CELL, "allow_cross_cell_move": True}
    told = explain(sqlite_app, spec(requested_destination=allowed))
    assert [host["host"] for host in told["hosts"]] == ["cn2", "cn1"]
    assert "requested_cell" not in [one["name"] for one in told["funnel"]["filters"]]
    raw = {one["host"]: one["weights"]["CrossCellWeigher"]["raw"] for one in told["hosts"]}
    assert raw == {"cn1": -1, "cn2": 1}
    told = explain(sqlite_app, spec(requested_destination={"allow_cross_cell_move": True}))
    assert [host["host"] for host in told["hosts"]] == ["cn1", "cn2"]


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"flavor": flavor(extra_specs={"trait:NOPE": "required"})}, "extra spec 'trait:NOPE'"),
        (
            {"flavor": flavor(extra_specs={"resources:CUSTOM_NO": "1"})},
            "extra spec 'resources:CUSTOM_NO'",
        ),
        ({"image": {"properties": {"trait:NOPE": "required"}}}, "image property 'trait:NOPE'"),
    ],
)
def test_unknown_name_is_told_with_its_place_in_the_request(sqlite_app, changes, place):
    (error,) = select(sqlite_app, spec(**changes), status=400)["errors"]
    assert place in error["detail"]
    assert "parameter" not in error["detail"]


def test_ignored_host_is_told_in_the_funnel(cloud):
    told = explain(cloud, spec(ignore_hosts=["cn3"]))
    assert told["funnel"]["filters"][0] == {
        "name": "ignore_hosts",
        "before": 3,
        "after": 2,
        "rejected": [{"host": "cn3", "node": "cn3", "reason": "the request asks to ignore it"}],
    }
    assert [host["host"] for host in told["hosts"]] == ["cn2", "cn1"]


@pytest.mark.parametrize(
    "named",
    [
        {"force_hosts": ["cn1"]},
        {"force_nodes": ["cn1"]},
        {"requested_destination": {"host": "cn1"}},
        {"requested_destination": {"host": "cn1", "node": "cn1"}},
    ],
    ids=["force_hosts", "force_nodes", "destination host", "destination node"],
)
def test_request_goes_only_where_it_names(cloud, named):
    assert hosts_of(select(cloud, spec(**named))) == ["cn1"]


def test_one_named_host_narrows_the_query_itself(cloud):
    told = explain(cloud, spec(force_hosts=["cn1"]))
    query = told["funnel"]["allocation_candidates"]["query"]
    assert f"in_tree={report('cn1')['uuid']}" in query
    assert "limit=1000" in query, "nova 34 keeps it: it cuts nothing that matters of one tree"


def test_several_named_hosts_are_not_cut_away(cloud):
    told = explain(cloud, spec(force_hosts=["cn1", "cn2"]))
    query = told["funnel"]["allocation_candidates"]["query"]
    assert "in_tree" not in query
    assert "limit" not in query


def test_named_host_that_does_not_exist_is_no_valid_host(cloud):
    (error,) = select(cloud, spec(force_hosts=["nowhere"]), status=409)["errors"]
    assert error["code"] == "scheduler.no_valid_host"


def test_forced_host_is_not_asked_of_the_filters(cloud):
    cloud.put_json(
        f"/scheduler/v1/compute_nodes/{report('cn1')['uuid']}",
        {key: value for key, value in report("cn1").items() if key != "uuid"}
        | {"last_seen_up": "2020-01-01T00:00:00Z"},
    )
    assert hosts_of(select(cloud, spec(force_hosts=["cn1"]))) == ["cn1"]
    assert hosts_of(select(cloud, spec(requested_destination={"host": "cn2"}))) == ["cn2"]
    select(cloud, spec(requested_destination={"host": "cn1"}), status=409)


def test_instances_of_one_request_are_given_different_devices_of_a_host(cloud):
    version = LATEST_HEADERS
    cloud.put("/placement/resource_classes/CUSTOM_GPU", headers=version)
    root = report("cn1")["uuid"]
    for number in range(2):
        device = instance(900 + number)
        body = {"name": f"gpu{number}", "uuid": device, "parent_provider_uuid": root}
        cloud.post_json("/placement/resource_providers", body, headers=version)
        stock = {"resource_provider_generation": 0, "inventories": {"CUSTOM_GPU": {"total": 1}}}
        url = f"/placement/resource_providers/{device}/inventories"
        cloud.put_json(url, stock, headers=version)
    wanted = flavor(extra_specs={"resources1:CUSTOM_GPU": "1"})
    told = select(cloud, spec(*map(instance, (1, 2)), flavor=wanted))
    assert hosts_of(told) == ["cn1", "cn1"]
    serving = [one[0]["allocation_request"]["mappings"]["1"] for one in told["selections"]]
    assert sorted(serving) == [[instance(900)], [instance(901)]]
    error = select(cloud, spec(instance(3), flavor=wanted), status=409)["errors"][0]
    assert error["code"] == "scheduler.no_valid_host"


@pytest.mark.all_databases
def test_instances_of_one_request_share_what_a_pool_has_for_several_hosts(cloud):
    """Three hosts use one pool of disk: what is taken of it is missing to the other two."""
    version = LATEST_HEADERS
    pool, aggregate = instance(800), instance(801)
    cloud.post_json(
        "/placement/resource_providers", {"name": "pool", "uuid": pool}, headers=version
    )
    shares = {"traits": ["MISC_SHARES_VIA_AGGREGATE"], "resource_provider_generation": 0}
    cloud.put_json(f"/placement/resource_providers/{pool}/traits", shares, headers=version)
    stock = {"resource_provider_generation": 1, "inventories": {"CUSTOM_FAST_DISK": {"total": 5}}}
    cloud.put("/placement/resource_classes/CUSTOM_FAST_DISK", headers=version)
    cloud.put_json(f"/placement/resource_providers/{pool}/inventories", stock, headers=version)
    for uuid in (pool, *(report(name)["uuid"] for name in ("cn1", "cn2", "cn3"))):
        url = f"/placement/resource_providers/{uuid}"
        generation = cloud.get(url, headers=version).json["generation"]
        joined = {"aggregates": [aggregate], "resource_provider_generation": generation}
        cloud.put_json(f"{url}/aggregates", joined, headers=version)
    wanted = flavor(extra_specs={"resources:CUSTOM_FAST_DISK": "2"})
    told = explain(cloud, spec(*map(instance, (1, 2, 3)), flavor=wanted))
    later = told["funnel"]["later_instance"]
    assert (told["outcome"], later["placed"]) == ("no_valid_host", 2)
    assert [(one["name"], one["before"], one["after"]) for one in later["filters"]] == [
        ("room_left", 3, 0)
    ]
    assert len(hosts_of(select(cloud, spec(*map(instance, (1, 2)), flavor=wanted)))) == 2
