# SPDX-License-Identifier: Apache-2.0
"""Claims added to existing allocations, as for an evacuation in nova."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.scheduler.providers import share_pool
from tests.scheduler.test_scheduler import allocations, select, usages
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, instance, report, selected_hosts, spec

AMOUNTS = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}


@pytest.fixture
def cloud(app):
    """Two hosts. Instance 1 is on cn1, the larger host."""
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1", memory_mb=131072), report("cn2")])
    select(app, spec(instance(1)))
    return app


def evacuate(
    app, *, request_id: str | None = None, ignored_host: str = "cn1", number: int = 1, **changes
):
    headers = {"X-Openstack-Request-Id": request_id} if request_id else {}
    body = {"request_spec": spec(instance(number), ignore_hosts=[ignored_host], **changes)}
    body["claim"] = "add"
    return app.post_json("/scheduler/v1/select_destinations", body, headers=headers).json


def read_allocations(app, number: int = 1) -> dict[str, dict[str, int]]:
    return {uuid: entry["resources"] for uuid, entry in allocations(app, instance(number)).items()}


def test_evacuated_instance_has_allocations_of_both_hosts(cloud):
    assert selected_hosts(evacuate(cloud)) == ["cn2"]
    assert read_allocations(cloud) == {uuid_of("cn1"): AMOUNTS, uuid_of("cn2"): AMOUNTS}
    assert cloud.get(f"/scheduler/v1/instances/{instance(1)}").json["host"] == "cn1"


def test_existing_allocations_do_not_change(cloud):
    assert selected_hosts(evacuate(cloud, ignored_host="cn2")) == ["cn1"]
    assert read_allocations(cloud) == {uuid_of("cn1"): AMOUNTS}
    answer = select(cloud, spec(instance(1), ignore_hosts=["cn1"]), 409)
    assert answer["errors"][0]["code"] == "scheduler.instance_placed"
    full = spec(instance(1), ignore_hosts=["cn1"], flavor={"vcpus": 99, "memory_mb": 1024})
    select(cloud, full, 409, claim="add")
    assert read_allocations(cloud) == {uuid_of("cn1"): AMOUNTS}
    assert sum(usage.get("VCPU", 0) for usage in usages(cloud)) == 1


def test_instance_without_allocations_is_claimed(cloud):
    select(cloud, spec(instance(2)), claim="add")
    assert list(read_allocations(cloud, number=2).values()) == [AMOUNTS]
    assert cloud.get(f"/scheduler/v1/instances/{instance(2)}").json["host"] == "cn1"


def test_allocation_of_a_shared_disk_is_not_doubled(cloud):
    pool = instance(800)
    share_pool(cloud, pool, instance(801), ("cn1", "cn2"), CUSTOM_FAST_DISK=4)
    request = flavor(extra_specs={"resources:CUSTOM_FAST_DISK": "2"})
    select(cloud, spec(instance(2), flavor=request))
    assert selected_hosts(evacuate(cloud, number=2, flavor=request)) == ["cn2"]
    both = {uuid_of("cn1"): AMOUNTS, uuid_of("cn2"): AMOUNTS, pool: {"CUSTOM_FAST_DISK": 2}}
    assert read_allocations(cloud, number=2) == both


def test_repeated_request_claims_its_lost_allocations_again(cloud):
    request_id = f"req-{uuid4()}"
    first = evacuate(cloud, request_id=request_id)
    assert evacuate(cloud, request_id=request_id) == first
    headers = {"OpenStack-API-Version": "placement 1.28"}
    path = f"/placement/allocations/{instance(1)}"
    result = cloud.get(path, headers=headers).json
    del result["allocations"][uuid_of("cn2")]
    for allocation in result["allocations"].values():
        del allocation["generation"]
    cloud.put_json(path, result, headers=headers)
    assert read_allocations(cloud) == {uuid_of("cn1"): AMOUNTS}
    again = evacuate(cloud, request_id=request_id)
    assert again["decision"] != first["decision"]
    assert read_allocations(cloud) == {uuid_of("cn1"): AMOUNTS, uuid_of("cn2"): AMOUNTS}


@pytest.mark.all_databases
def test_concurrent_equal_requests_are_claimed_once(cloud):
    request_id = f"req-{uuid4()}"
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: evacuate(cloud, request_id=request_id), range(4)))
    assert {answer["decision"] for answer in answers} == {answers[0]["decision"]}
    assert read_allocations(cloud) == {uuid_of("cn1"): AMOUNTS, uuid_of("cn2"): AMOUNTS}


@pytest.mark.parametrize("claim", ["new", "", None, 1])
def test_error_for_another_value_of_claim_has_its_place(app, claim):
    answer = select(app, spec(instance(1)), 400, claim=claim)
    assert "$.claim" in answer["errors"][0]["detail"]
