# SPDX-License-Identifier: Apache-2.0
"""Claims beside what instances hold, as nova's scheduler makes them for an evacuation."""

from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from tests.scheduler.test_scheduler import allocations, select, usages
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, hosts_of, instance, report, spec
from tests.support.versions import LATEST_HEADERS

HELD = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}


@pytest.fixture
def cloud(app):
    """Two hosts; the instance 1 is on cn1, which is the larger."""
    app.post_json("/scheduler/v1/compute_nodes", [report("cn1", memory_mb=131072), report("cn2")])
    select(app, spec(instance(1)))
    return app


def evacuated(
    app, *, request_id: str | None = None, ignored: str = "cn1", number: int = 1, **changes
):
    headers = {"X-Openstack-Request-Id": request_id} if request_id else {}
    body = {"request_spec": spec(instance(number), ignore_hosts=[ignored], **changes)}
    body["claim"] = "add"
    return app.post_json("/scheduler/v1/select_destinations", body, headers=headers).json


def held(app, number: int = 1) -> dict[str, dict[str, int]]:
    return {uuid: one["resources"] for uuid, one in allocations(app, instance(number)).items()}


def test_an_evacuated_instance_holds_both_hosts(cloud):
    assert hosts_of(evacuated(cloud)) == ["cn2"]
    assert held(cloud) == {uuid_of("cn1"): HELD, uuid_of("cn2"): HELD}


def test_of_a_provider_that_it_holds_already_an_instance_gets_nothing_more(cloud):
    """As nova's scheduler claims for an evacuation."""
    assert hosts_of(evacuated(cloud, ignored="cn2")) == ["cn1"]
    assert held(cloud) == {uuid_of("cn1"): HELD}


def test_a_disk_that_both_hosts_share_is_held_once(cloud):
    pool, aggregate = instance(800), instance(801)
    cloud.put("/placement/resource_classes/CUSTOM_FAST_DISK", headers=LATEST_HEADERS)
    providers = "/placement/resource_providers"
    new = {"name": "pool", "uuid": pool}
    cloud.post_json(providers, new, headers=LATEST_HEADERS)
    for kind, body in (
        ("traits", {"traits": ["MISC_SHARES_VIA_AGGREGATE"]}),
        ("inventories", {"inventories": {"CUSTOM_FAST_DISK": {"total": 4}}}),
    ):
        put(cloud, f"{providers}/{pool}", kind, body)
    for uuid in (pool, uuid_of("cn1"), uuid_of("cn2")):
        put(cloud, f"{providers}/{uuid}", "aggregates", {"aggregates": [aggregate]})
    wanted = flavor(extra_specs={"resources:CUSTOM_FAST_DISK": "2"})
    select(cloud, spec(instance(2), flavor=wanted))
    assert hosts_of(evacuated(cloud, number=2, flavor=wanted)) == ["cn2"]
    both = {uuid_of("cn1"): HELD, uuid_of("cn2"): HELD, pool: {"CUSTOM_FAST_DISK": 2}}
    assert held(cloud, number=2) == both


def put(app, provider, kind, body):
    generation = app.get(provider, headers=LATEST_HEADERS).json["generation"]
    body = {"resource_provider_generation": generation, **body}
    app.put_json(f"{provider}/{kind}", body, headers=LATEST_HEADERS)


def test_an_instance_that_holds_nothing_is_claimed_alone(cloud):
    select(cloud, spec(instance(2)), claim="add")
    assert [one["resources"] for one in allocations(cloud, instance(2)).values()] == [HELD]
    assert cloud.get(f"/scheduler/v1/instances/{instance(2)}").json["host"] == "cn1"


def test_the_record_stays_where_the_instance_is_until_it_has_moved(cloud):
    evacuated(cloud)
    assert cloud.get(f"/scheduler/v1/instances/{instance(1)}").json["host"] == "cn1"


def test_the_same_request_sent_again_adds_nothing(cloud):
    request_id = f"req-{uuid4()}"
    first = evacuated(cloud, request_id=request_id)
    assert evacuated(cloud, request_id=request_id) == first
    assert held(cloud) == {uuid_of("cn1"): HELD, uuid_of("cn2"): HELD}


def test_the_same_request_is_claimed_again_once_its_claim_is_gone(cloud):
    """nova frees the destination of a move that failed, and the request may come again."""
    request_id = f"req-{uuid4()}"
    first = evacuated(cloud, request_id=request_id)
    headers = {"OpenStack-API-Version": "placement 1.28"}
    path = f"/placement/allocations/{instance(1)}"
    found = cloud.get(path, headers=headers).json
    del found["allocations"][uuid_of("cn2")]
    for one in found["allocations"].values():
        del one["generation"]
    cloud.put_json(path, found, headers=headers)
    assert held(cloud) == {uuid_of("cn1"): HELD}
    again = evacuated(cloud, request_id=request_id)
    assert again["decision"] != first["decision"]
    assert held(cloud) == {uuid_of("cn1"): HELD, uuid_of("cn2"): HELD}


def test_without_add_the_instance_is_placed_already(cloud):
    answer = select(cloud, spec(instance(1), ignore_hosts=["cn1"]), 409)
    assert answer["errors"][0]["code"] == "scheduler.instance_placed"


@pytest.mark.all_databases
def test_the_same_request_at_once_is_added_once(cloud):
    """A message bus may deliver a request again while the first scheduler still works on it."""
    request_id = f"req-{uuid4()}"
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: evacuated(cloud, request_id=request_id), range(4)))
    assert {one["decision"] for one in answers} == {answers[0]["decision"]}
    assert held(cloud) == {uuid_of("cn1"): HELD, uuid_of("cn2"): HELD}


def test_a_host_without_room_is_not_added(cloud):
    full = spec(instance(1), ignore_hosts=["cn1"], flavor={"vcpus": 99, "memory_mb": 1024})
    select(cloud, full, 409, claim="add")
    assert held(cloud) == {uuid_of("cn1"): HELD}
    assert sum(one.get("VCPU", 0) for one in usages(cloud)) == 1


@pytest.mark.parametrize("claim", ["new", "", None, 1])
def test_another_value_of_claim_is_refused_by_its_place(app, claim):
    answer = select(app, spec(instance(1)), 400, claim=claim)
    assert "$.claim" in answer["errors"][0]["detail"]
