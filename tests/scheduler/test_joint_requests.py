# SPDX-License-Identifier: Apache-2.0
"""Several requests in a claim, compared with the same requests sent in turn."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from placement_sched.errors import Invalid
from placement_sched.model.request_stats import begin_stats, get_request_stats
from placement_sched.scheduler.joint_requests import select_together
from tests.exploring import scale_example_count
from tests.scheduler.concurrent_claims import ClockWithConcurrentClaim, build_clock_that_fills_hosts
from tests.scheduler.providers import (
    add_sharing_provider,
    read_allocations_of_consumer,
    read_usages,
)
from tests.scheduler.server_groups import create_group, read_group_members
from tests.support.clouds import uuid_of
from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
    select_hosts,
)
from tests.verifier.verify import assert_invariants

SELECT_PATH = "/scheduler/v1/select_destinations"
MB_PER_GB = 1024
FLAVOR_64_GB = make_flavor(name="whole", memory_mb=64 * MB_PER_GB)
FLAVOR_32_GB = make_flavor(name="half", memory_mb=32 * MB_PER_GB)


@pytest.fixture
def cloud(sqlite_app):
    """Three hosts of 64 GB."""
    return report_hosts(sqlite_app, "cn1", "cn2", "cn3")


@pytest.fixture(scope="module")
def shared_cloud(make_shared_app):
    return report_hosts(make_shared_app(), "cn1", "cn2", "cn3")


def report_hosts(app, *names):
    app.post_json("/scheduler/v1/compute_nodes", [make_report(name) for name in names])
    return app


def build_joint_request(*specs, **more):
    return {"requests": [{"request_spec": entry} for entry in specs], **more}


def post_joint_request(app, *specs, status=200, **more):
    return app.post_json(SELECT_PATH, build_joint_request(*specs, **more), status=status).json


def list_selected_hosts(response):
    return [get_selected_hosts(result) for result in response["results"]]


def list_hosts_of_all_requests(result):
    return [host for hosts in list_selected_hosts(result) for host in hosts]


def get_single_error(result):
    (error,) = result["errors"]
    return error


def sum_allocated_memory(app):
    return sum(used.get("MEMORY_MB", 0) for used in read_usages(app))


def test_all_requests_of_a_joint_call_are_claimed_in_their_order(cloud):
    first, second = (
        make_spec(make_uuid(1), make_uuid(2), flavor=FLAVOR_32_GB),
        make_spec(make_uuid(3), flavor=FLAVOR_64_GB),
    )
    response = post_joint_request(cloud, first, second)
    assert [len(hosts) for hosts in list_selected_hosts(response)] == [2, 1]
    for number, host in enumerate(list_hosts_of_all_requests(response), start=1):
        assert list(read_allocations_of_consumer(cloud, make_uuid(number))) == [uuid_of(host)]
        assert cloud.get(f"/scheduler/v1/instances/{make_uuid(number)}").json["host"] == host
    decisions = [
        cloud.get(f"/scheduler/v1/decisions/{result['decision']}").json
        for result in response["results"]
    ]
    assert [decision["flavor"] for decision in decisions] == ["half", "whole"]
    assert [decision["kind"] for decision in decisions] == ["select", "select"]
    assert len({decision["request_id"] for decision in decisions}) == 1
    assert_invariants(cloud.app.services.database)


def test_repeated_joint_call_has_the_same_result(cloud):
    requests = (
        make_spec(make_uuid(1), flavor=FLAVOR_32_GB),
        make_spec(make_uuid(2), flavor=FLAVOR_64_GB),
    )
    response = post_joint_request(cloud, *requests)
    assert post_joint_request(cloud, *requests) == response
    assert post_joint_request(cloud, *reversed(requests))["results"] == response["results"][::-1]
    assert select_hosts(cloud, requests[0]) == response["results"][0]
    assert sum_allocated_memory(cloud) == 96 * MB_PER_GB


def test_claimed_request_keeps_its_host_when_requests_are_added_to_the_joint_call(cloud):
    kept = select_hosts(cloud, make_spec(make_uuid(1), flavor=FLAVOR_64_GB))
    response = post_joint_request(
        cloud,
        make_spec(make_uuid(1), flavor=FLAVOR_64_GB),
        make_spec(make_uuid(2), flavor=FLAVOR_64_GB),
    )
    assert response["results"][0] == kept
    assert list_selected_hosts(response)[1] != get_selected_hosts(kept)


def test_instance_placed_by_another_request_is_a_conflict(cloud):
    select_hosts(cloud, make_spec(make_uuid(2), flavor=FLAVOR_32_GB))
    response = post_joint_request(
        cloud, make_spec(make_uuid(1)), make_spec(make_uuid(2), flavor=FLAVOR_64_GB), status=409
    )
    error = get_single_error(response)
    assert error["code"] == "scheduler.instance_placed"
    assert error["detail"].startswith("$.requests[1].request_spec: instance ")
    assert read_allocations_of_consumer(cloud, make_uuid(1)) == {}


def test_joint_call_names_the_request_without_a_host_and_claims_nothing(cloud):
    wholes = [make_uuid(number) for number in (1, 2, 3)]
    response = post_joint_request(
        cloud,
        make_spec(*wholes, flavor=FLAVOR_64_GB),
        make_spec(make_uuid(4), flavor=FLAVOR_32_GB),
        status=409,
    )
    error = get_single_error(response)
    assert error["code"] == "scheduler.no_valid_host"
    assert error["request"] == "$.requests[1]"
    detail = error["detail"]
    assert detail == "No valid host was found for requests[1]: no host has remaining capacity"
    assert sum_allocated_memory(cloud) == 0
    decision = cloud.get(f"/scheduler/v1/decisions/{error['decision']}").json
    assert (decision["outcome"], decision["stage"]) == ("no_valid_host", "room_left")
    stage = decision["funnel"]["filters"][0]
    assert (stage["before"], stage["after"]) == (3, 0)
    reasons = {entry["reason"] for entry in stage["rejected"]}
    assert reasons == {"no capacity remains after the earlier instances of this request"}
    assert len(cloud.get("/scheduler/v1/decisions").json["decisions"]) == 1


def test_joint_call_without_claim_counts_earlier_requests_and_claims_nothing(cloud):
    requests = [make_spec(make_uuid(number), flavor=FLAVOR_64_GB) for number in (1, 2, 3)]
    response = post_joint_request(cloud, *requests, claim=False)
    assert sorted(list_hosts_of_all_requests(response)) == ["cn1", "cn2", "cn3"]
    assert sum_allocated_memory(cloud) == 0
    post_joint_request(
        cloud, *requests, make_spec(make_uuid(4), flavor=FLAVOR_32_GB), claim=False, status=409
    )


def test_shared_storage_that_earlier_requests_used_is_full(sqlite_app):
    report_hosts(sqlite_app, "cn1", "cn2")
    report_without_disk = [make_report(name, local_gb=0) for name in ("cn1", "cn2")]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", report_without_disk)
    add_sharing_provider(sqlite_app, make_uuid(800), make_uuid(801), ("cn1", "cn2"), DISK_GB=100)
    large = make_flavor(root_gb=60)
    response = post_joint_request(
        sqlite_app,
        make_spec(make_uuid(1), flavor=large),
        make_spec(make_uuid(2), flavor=large),
        status=409,
    )
    assert "requests[1]: no host has remaining capacity" in get_single_error(response)["detail"]
    small = make_flavor(root_gb=40)
    post_joint_request(
        sqlite_app, make_spec(make_uuid(1), flavor=large), make_spec(make_uuid(2), flavor=small)
    )


@pytest.mark.parametrize(("policy", "number"), [("anti-affinity", 3), ("affinity", 1)])
def test_server_group_policy_applies_across_requests_of_a_joint_call(cloud, policy, number):
    group = create_group(cloud, policy=policy)
    requests = [
        make_spec(make_uuid(1), instance_group=group),
        make_spec(make_uuid(2), flavor=make_flavor(vcpus=2), instance_group=group),
        make_spec(make_uuid(3), flavor=make_flavor(vcpus=3), scheduler_hints={"group": group}),
    ]
    response = post_joint_request(cloud, *requests)
    assert len(set(list_hosts_of_all_requests(response))) == number
    assert read_group_members(cloud, group) == [make_uuid(1), make_uuid(2), make_uuid(3)]
    assert post_joint_request(cloud, *requests) == response
    if policy == "anti-affinity":
        more = make_spec(make_uuid(4), instance_group=group)
        error = get_single_error(
            post_joint_request(cloud, make_spec(make_uuid(5)), more, status=409)
        )
        assert "requests[1]: ServerGroupAntiAffinityFilter" in error["detail"]
        assert read_allocations_of_consumer(cloud, make_uuid(5)) == {}


def test_hints_may_name_instances_of_earlier_requests(cloud):
    names = ["DifferentHostFilter", "SameHostFilter"]
    own = cloud.app.services.scheduler
    scheduler = replace(
        own, settings=own.settings.with_overrides({"filter_scheduler.enabled_filters": names})
    )
    first = make_spec(make_uuid(1))
    apart = make_spec(make_uuid(2), scheduler_hints={"different_host": [make_uuid(1)]})
    together = make_spec(make_uuid(3), scheduler_hints={"same_host": [make_uuid(1)]})
    results = select_together(scheduler, [first, apart, together])
    one, two, three = (get_selected_hosts(result.as_json())[0] for result in results)
    assert one == three != two


@pytest.mark.parametrize(
    ("body", "path", "problem"),
    [
        ({}, "$", "'request_spec' is a required property"),
        (
            build_joint_request(make_spec(), request_spec=make_spec()),
            "$.requests",
            "the body has both requests and request_spec",
        ),
        (build_joint_request(), "$.requests", "[] should be non-empty"),
        (build_joint_request(*[make_spec()] * 11), "$.requests", "at most 10 items"),
        (build_joint_request({}), "$.requests[0].request_spec", "'flavor'"),
        ({"requests": [{"claim": True}]}, "$.requests[0]", "'request_spec' is a required property"),
        (
            build_joint_request(make_spec(), claim="add"),
            "$.claim",
            "claim 'add' is not possible with requests",
        ),
        (
            build_joint_request(make_spec(make_uuid(1)), make_spec(make_uuid(1))),
            "$.requests[1].request_spec.instance_uuids[0]",
            f"instance {make_uuid(1)} is also at $.requests[0].request_spec.instance_uuids[0]",
        ),
        (
            build_joint_request(
                *({"flavor": FLAVOR_64_GB, "num_instances": count} for count in (999, 2))
            ),
            "$.requests",
            "the requests are for 1001 instances, the maximum is 1000",
        ),
        (
            build_joint_request(
                make_spec(), make_spec(scheduler_hints={"_nova_check_type": ["rebuild"]})
            ),
            "$.requests[1].request_spec.scheduler_hints",
            "a rebuild cannot be placed together with other requests",
        ),
        (
            build_joint_request(make_spec(), make_spec(flavor="m1.large")),
            "$.requests[1].request_spec.flavor",
            "There is no stored flavor 'm1.large'",
        ),
    ],
)
def test_invalid_joint_request_is_rejected_with_its_path(shared_cloud, body, path, problem):
    response = shared_cloud.post_json(SELECT_PATH, body, expect_errors=True)
    assert response.status_code in {400, 404}
    error = get_single_error(response.json)
    assert problem in error["detail"]
    assert f"(at {path})" in error["detail"]
    assert sum_allocated_memory(shared_cloud) == 0


def test_joint_call_with_too_many_requested_amounts_is_400(cloud, monkeypatch):
    monkeypatch.setattr("placement_sched.scheduler.joint_requests.MAX_REQUESTED_AMOUNTS", 5)
    response = post_joint_request(
        cloud, make_spec(make_uuid(1)), make_spec(make_uuid(2)), status=400
    )
    assert "(at $.requests)" in get_single_error(response)["detail"]
    assert sum_allocated_memory(cloud) == 0


def test_concurrent_claims_restart_the_joint_selection(cloud):
    own = cloud.app.services.scheduler
    names = {"filter_scheduler.enabled_filters": ["AllHostsFilter"]}
    scheduler = replace(
        own,
        clock=build_clock_that_fills_hosts(cloud, ["cn1"]),
        settings=own.settings.with_overrides(names),
    )
    begin_stats()
    documents = [make_spec(make_uuid(number), flavor=FLAVOR_64_GB) for number in (1, 2)]
    results = select_together(scheduler, documents)
    assert {get_selected_hosts(result.as_json())[0] for result in results} == {"cn2", "cn3"}
    assert get_request_stats().claims_retried == 1


def test_joint_call_names_the_request_whose_group_is_deleted_before_the_claim(cloud):
    group, own = create_group(cloud, policy="soft-affinity"), cloud.app.services.scheduler
    names = {"filter_scheduler.enabled_filters": ["AllHostsFilter"]}
    path = f"/compute/v2.1/os-server-groups/{group}"
    scheduler = replace(
        own,
        clock=ClockWithConcurrentClaim(lambda: cloud.delete(path)),
        settings=own.settings.with_overrides(names),
    )
    documents = [make_spec(make_uuid(1)), make_spec(make_uuid(2), instance_group=group)]
    with pytest.raises(Invalid) as raised:
        select_together(scheduler, documents)
    assert "There is no server group" in str(raised.value)
    assert "(at $.requests[1].request_spec.instance_group)" in str(raised.value)
    assert sum_allocated_memory(cloud) == 0


FLAVORS_OF_THREE_SIZES = [
    make_flavor(name=f"f{size}{cpus}", memory_mb=size * MB_PER_GB, vcpus=cpus, root_gb=1)
    for size, cpus in ((1, 1), (3, 2), (5, 4))
]
RANDOM_REQUEST_PARTS = st.tuples(
    st.sampled_from(FLAVORS_OF_THREE_SIZES),
    st.integers(1, 3),
    st.sampled_from([None, None, "anti-affinity", "affinity"]),
)


@pytest.mark.slow
@settings(
    max_examples=scale_example_count(20),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    sizes=st.lists(st.integers(1, 12), min_size=1, max_size=4),
    entries=st.lists(RANDOM_REQUEST_PARTS, min_size=1, max_size=4),
    placed=st.integers(0, 2),
)
def test_joint_result_equals_that_of_the_same_requests_sent_in_turn(
    make_new_app, sizes, entries, placed
):
    # The driver of the oracle subtracts its placements from the reports, as a single call does.
    apps, groups = [], []
    for _ in ("together", "in turn"):
        app = make_new_app(scheduler__driver="caching_scheduler")
        app.post_json(
            "/scheduler/v1/compute_nodes",
            [
                make_report(f"cn{number}", memory_mb=size * MB_PER_GB + 512 * number, vcpus=size)
                for number, size in enumerate(sizes)
            ],
        )
        for number in range(placed):
            select_hosts(
                app,
                make_spec(make_uuid(900 + number), flavor=FLAVORS_OF_THREE_SIZES[0]),
                status="*",
            )
        apps.append(app)
        groups.append(
            {p: create_group(app, name=p, policy=p) for p in ("anti-affinity", "affinity")}
        )
    together, in_turn = apps
    before = sum_allocated_memory(together)
    documents = [
        [
            make_spec(
                *(make_uuid(100 * position + number) for number in range(1, count + 1)),
                flavor=size,
                instance_group=policy and stored[policy],
            )
            for position, (size, count, policy) in enumerate(entries)
        ]
        for stored in groups
    ]
    oracle = []
    for position, document in enumerate(documents[1]):
        response = in_turn.post_json(SELECT_PATH, {"request_spec": document}, expect_errors=True)
        if response.status_code == 409:
            error = get_single_error(post_joint_request(together, *documents[0], status=409))
            assert error["request"] == f"$.requests[{position}]"
            assert sum_allocated_memory(together) == before
            assert together.get("/scheduler/v1/instances").json["instances"] == [
                entry
                for entry in together.get("/scheduler/v1/instances").json["instances"]
                if int(entry["uuid"][-4:], 16) >= 900
            ]
            return
        oracle.append(get_selected_hosts(response.json))
    response = post_joint_request(together, *documents[0])
    assert list_selected_hosts(response) == oracle
    assert post_joint_request(together, *documents[0]) == response
    assert_invariants(together.app.services.database)
