# SPDX-License-Identifier: Apache-2.0
"""Claims after conflicts with other requests, and claims added to existing allocations."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

import pytest

from placement_sched.model.request_stats import begin_stats, get_request_stats
from placement_sched.scheduler.claim import ClaimMode
from tests.scheduler.concurrent_claims import (
    ClockWithConcurrentClaim,
    build_clock_that_fills_hosts,
    claim_as_other_consumer,
)
from tests.scheduler.providers import (
    add_provider,
    add_sharing_provider,
    read_allocations_of_consumer,
    read_usages,
)
from tests.support.clouds import uuid_of
from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
    select_hosts,
)

FLAVOR_64_GB = make_flavor(memory_mb=65536)


@pytest.fixture
def cloud(app):
    """Six equal hosts. Claims lock cn1 first."""
    for number in range(1, 7):
        app.post_json("/scheduler/v1/compute_nodes", [make_report(f"cn{number}")])
    return app


@pytest.fixture
def make_racing_scheduler(cloud, settings, make_app):
    """Return a function that creates a scheduler. Rivals fill these hosts before its claim."""

    def build_scheduler(*rivals, **options):
        options = {key.replace("__", "."): value for key, value in options.items()}
        options["filter_scheduler.enabled_filters"] = ["AllHostsFilter"]
        own = make_app(settings).app.services.scheduler
        slower = replace(
            own,
            clock=build_clock_that_fills_hosts(cloud, rivals),
            settings=settings.with_overrides(options),
        )
        begin_stats()
        return slower

    return build_scheduler


def read_claim_counts() -> tuple[int, int, dict[str, int]]:
    stats = get_request_stats()
    return stats.claims_won, stats.claims_lost, dict(stats.conflicts)


def test_next_best_host_is_claimed_in_the_same_transaction(cloud, make_racing_scheduler):
    scheduler = make_racing_scheduler("cn1", "cn2")
    request = make_spec(make_uuid(1), flavor=FLAVOR_64_GB)
    result = scheduler.select_destinations(request).as_json()
    assert get_selected_hosts(result) == ["cn3"]
    assert read_claim_counts() == (1, 0, {"moved": 1})
    assert list(read_allocations_of_consumer(cloud, make_uuid(1))) == [uuid_of("cn3")]
    assert cloud.get(f"/scheduler/v1/instances/{make_uuid(1)}").json["host"] == "cn3"
    decision = cloud.get(f"/scheduler/v1/decisions/{result['decision']}").json
    assert decision["selections"] == result["selections"]
    assert [place["host"] for place in decision["instances"]] == ["cn3"]
    stage = decision["funnel"]["filters"][-1]
    assert (stage["name"], stage["before"], stage["after"]) == ("room_at_claim", 6, 4)
    assert [rejection["host"] for rejection in stage["rejected"]] == ["cn1", "cn2"]
    assert scheduler.select_destinations(request).as_json() == result


def test_hosts_filled_by_concurrent_claims_are_no_alternates(make_racing_scheduler):
    scheduler = make_racing_scheduler("cn1", "cn2", scheduler__max_attempts=3)
    result = scheduler.select_destinations(
        make_spec(make_uuid(1), flavor=FLAVOR_64_GB), alternates=True
    ).as_json()
    hosts = [selection["service_host"] for selection in result["selections"][0]]
    assert hosts == ["cn3", "cn4", "cn5"]


def test_host_after_failed_claims_is_the_next_by_weight(cloud, make_racing_scheduler):
    cloud.post_json("/scheduler/v1/compute_nodes", [make_report("cn5", memory_mb=131072)])
    cloud.post_json("/scheduler/v1/compute_nodes", [make_report("cn6", memory_mb=98304)])
    scheduler = make_racing_scheduler("cn5", "cn1", "cn2")
    big = make_flavor(memory_mb=90000)
    hosts = get_selected_hosts(
        scheduler.select_destinations(make_spec(make_uuid(1), flavor=big)).as_json()
    )
    assert hosts == ["cn6"]


def test_selection_restarts_if_no_host_remains_after_a_failed_claim(cloud, make_racing_scheduler):
    scheduler = make_racing_scheduler("cn1", "cn2", "cn3", "cn4", "cn5", "cn6")
    with pytest.raises(Exception, match="No valid host"):
        scheduler.select_destinations(make_spec(make_uuid(1), flavor=FLAVOR_64_GB))
    assert read_claim_counts() == (0, 1, {"capacity": 1})


def test_selection_of_several_instances_restarts_after_a_failed_claim(cloud, make_racing_scheduler):
    request = make_spec(make_uuid(1), make_uuid(2), flavor=FLAVOR_64_GB)
    result = make_racing_scheduler("cn1").select_destinations(request).as_json()
    assert get_selected_hosts(result) == ["cn2", "cn3"]
    assert read_claim_counts() == (1, 1, {"capacity": 1})
    decision = cloud.get(f"/scheduler/v1/decisions/{result['decision']}").json
    assert decision["conditions"]["attempt"] == 1
    assert decision["selections"] == result["selections"]
    result = (
        make_racing_scheduler()
        .select_destinations(make_spec(make_uuid(3), flavor=FLAVOR_64_GB))
        .as_json()
    )
    decision = cloud.get(f"/scheduler/v1/decisions/{result['decision']}").json
    assert decision["conditions"]["attempt"] == 0


def test_instances_of_two_earlier_requests_are_a_conflict(cloud):
    select_hosts(cloud, make_spec(make_uuid(1)))
    select_hosts(cloud, make_spec(make_uuid(2)))
    (error,) = select_hosts(cloud, make_spec(make_uuid(1), make_uuid(2)), 409)["errors"]
    assert error["code"] == "scheduler.instance_placed"
    assert f"instance {make_uuid(1)} already has allocations" in error["detail"]


def test_failed_claim_is_retried_with_another_candidate_of_the_best_host(
    cloud, make_racing_scheduler
):
    cards = [make_uuid(801), make_uuid(802)]
    for uuid in cards:
        add_provider(cloud, uuid, uuid, parent=uuid_of("cn1"), CUSTOM_CARD=1)
    request = make_spec(
        make_uuid(1), flavor=make_flavor(extra_specs={"resources:CUSTOM_CARD": "1"})
    )

    scheduler = make_racing_scheduler()
    first = scheduler.select_destinations(request, claiming=ClaimMode.NONE).as_json()
    (card,) = set(first["selections"][0][0]["allocation_request"]["allocations"]) & set(cards)

    rival = ClockWithConcurrentClaim(lambda: claim_as_other_consumer(cloud, card, CUSTOM_CARD=1))
    result = replace(scheduler, clock=rival).select_destinations(request).as_json()
    assert get_selected_hosts(result) == ["cn1"]
    provider_uuids = set(read_allocations_of_consumer(cloud, make_uuid(1)))
    assert provider_uuids == {uuid_of("cn1"), *cards} - {card}
    assert sum(used.get("CUSTOM_CARD", 0) for used in read_usages(cloud)) == 2


@pytest.mark.all_databases
def test_host_deleted_before_the_claim_is_not_selected(cloud, make_racing_scheduler):
    cloud.post_json("/scheduler/v1/compute_nodes", [make_report("cn6", memory_mb=131072)])
    path = f"/scheduler/v1/compute_nodes/{uuid_of('cn6')}"
    scheduler = replace(
        make_racing_scheduler(), clock=ClockWithConcurrentClaim(lambda: cloud.delete(path))
    )
    assert get_selected_hosts(scheduler.select_destinations(make_spec(make_uuid(1))).as_json()) == [
        "cn1"
    ]


#: Claims that are added to existing allocations, as for an evacuation in nova.
INSTANCE_RESOURCES = {"VCPU": 1, "MEMORY_MB": 1024, "DISK_GB": 10}


@pytest.fixture
def cloud_in_use(app):
    """Two hosts. Instance 1 is on cn1, the larger host."""
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report("cn1", memory_mb=131072), make_report("cn2")]
    )
    select_hosts(app, make_spec(make_uuid(1)))
    return app


def evacuate_instance(
    app, *, request_id: str | None = None, ignored_host: str = "cn1", number: int = 1, **changes
):
    headers = {"X-Openstack-Request-Id": request_id} if request_id else {}
    body = {"request_spec": make_spec(make_uuid(number), ignore_hosts=[ignored_host], **changes)}
    body["claim"] = "add"
    return app.post_json("/scheduler/v1/select_destinations", body, headers=headers).json


def read_allocations(app, number: int = 1) -> dict[str, dict[str, int]]:
    return {
        uuid: entry["resources"]
        for uuid, entry in read_allocations_of_consumer(app, make_uuid(number)).items()
    }


def test_evacuated_instance_has_allocations_of_both_hosts(cloud_in_use):
    assert get_selected_hosts(evacuate_instance(cloud_in_use)) == ["cn2"]
    assert read_allocations(cloud_in_use) == {
        uuid_of("cn1"): INSTANCE_RESOURCES,
        uuid_of("cn2"): INSTANCE_RESOURCES,
    }
    assert cloud_in_use.get(f"/scheduler/v1/instances/{make_uuid(1)}").json["host"] == "cn1"


def test_evacuation_to_the_same_host_or_no_host_changes_no_allocations(cloud_in_use):
    assert get_selected_hosts(evacuate_instance(cloud_in_use, ignored_host="cn2")) == ["cn1"]
    assert read_allocations(cloud_in_use) == {uuid_of("cn1"): INSTANCE_RESOURCES}
    result = select_hosts(cloud_in_use, make_spec(make_uuid(1), ignore_hosts=["cn1"]), 409)
    assert result["errors"][0]["code"] == "scheduler.instance_placed"
    full = make_spec(make_uuid(1), ignore_hosts=["cn1"], flavor={"vcpus": 99, "memory_mb": 1024})
    select_hosts(cloud_in_use, full, 409, claim="add")
    assert read_allocations(cloud_in_use) == {uuid_of("cn1"): INSTANCE_RESOURCES}
    assert sum(usage.get("VCPU", 0) for usage in read_usages(cloud_in_use)) == 1


def test_additional_claim_of_an_instance_without_allocations_is_a_plain_claim(cloud_in_use):
    select_hosts(cloud_in_use, make_spec(make_uuid(2)), claim="add")
    assert list(read_allocations(cloud_in_use, number=2).values()) == [INSTANCE_RESOURCES]
    assert cloud_in_use.get(f"/scheduler/v1/instances/{make_uuid(2)}").json["host"] == "cn1"


def test_allocation_of_a_shared_disk_is_not_doubled_by_an_evacuation(cloud_in_use):
    pool = make_uuid(800)
    add_sharing_provider(cloud_in_use, pool, make_uuid(801), ("cn1", "cn2"), CUSTOM_FAST_DISK=4)
    request = make_flavor(extra_specs={"resources:CUSTOM_FAST_DISK": "2"})
    select_hosts(cloud_in_use, make_spec(make_uuid(2), flavor=request))
    assert get_selected_hosts(evacuate_instance(cloud_in_use, number=2, flavor=request)) == ["cn2"]
    both = {
        uuid_of("cn1"): INSTANCE_RESOURCES,
        uuid_of("cn2"): INSTANCE_RESOURCES,
        pool: {"CUSTOM_FAST_DISK": 2},
    }
    assert read_allocations(cloud_in_use, number=2) == both


def test_repeated_evacuation_request_claims_its_lost_allocations_again(cloud_in_use):
    request_id = f"req-{uuid4()}"
    first = evacuate_instance(cloud_in_use, request_id=request_id)
    assert evacuate_instance(cloud_in_use, request_id=request_id) == first
    headers = {"OpenStack-API-Version": "placement 1.28"}
    path = f"/placement/allocations/{make_uuid(1)}"
    result = cloud_in_use.get(path, headers=headers).json
    del result["allocations"][uuid_of("cn2")]
    for allocation in result["allocations"].values():
        del allocation["generation"]
    cloud_in_use.put_json(path, result, headers=headers)
    assert read_allocations(cloud_in_use) == {uuid_of("cn1"): INSTANCE_RESOURCES}
    again = evacuate_instance(cloud_in_use, request_id=request_id)
    assert again["decision"] != first["decision"]
    assert read_allocations(cloud_in_use) == {
        uuid_of("cn1"): INSTANCE_RESOURCES,
        uuid_of("cn2"): INSTANCE_RESOURCES,
    }


@pytest.mark.all_databases
def test_concurrent_equal_requests_are_claimed_once(cloud_in_use):
    request_id = f"req-{uuid4()}"
    with ThreadPoolExecutor(4) as threads:
        results = list(
            threads.map(lambda _: evacuate_instance(cloud_in_use, request_id=request_id), range(4))
        )
    assert {result["decision"] for result in results} == {results[0]["decision"]}
    assert read_allocations(cloud_in_use) == {
        uuid_of("cn1"): INSTANCE_RESOURCES,
        uuid_of("cn2"): INSTANCE_RESOURCES,
    }


@pytest.mark.parametrize("claim", ["new", None])
def test_invalid_value_of_claim_is_400_with_its_path(app, claim):
    result = select_hosts(app, make_spec(make_uuid(1)), 400, claim=claim)
    assert "$.claim" in result["errors"][0]["detail"]
