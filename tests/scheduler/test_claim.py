# SPDX-License-Identifier: Apache-2.0
"""Claims of hosts that other requests filled after the selection."""

from dataclasses import replace

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.model.request_stats import begin_stats, request_stats
from placement_sched.scheduler.claim import ClaimMode
from tests.scheduler.providers import add_provider
from tests.scheduler.test_scheduler import allocations, select, usages
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, instance, report, selected_hosts, spec
from tests.support.versions import LATEST_HEADERS

WHOLE = flavor(memory_mb=65536)


class RivalClaims:
    """A clock whose first reading (the claim, if no filter reads the time) fills hosts."""

    def __init__(self, app, hosts):
        self._app, self._hosts = app, list(hosts)

    def __call__(self):
        hosts, self._hosts = self._hosts, []
        for number, host in enumerate(hosts, start=900):
            body = {
                "allocations": {uuid_of(host): {"resources": {"MEMORY_MB": 65536}}},
                "project_id": "rival",
                "user_id": "rival",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            path = f"/placement/allocations/{instance(number)}"
            self._app.put_json(path, body, headers=LATEST_HEADERS, status=204)
        return utcnow()


@pytest.fixture
def cloud(app):
    """Six equal hosts. Claims lock cn1 first."""
    for number in range(1, 7):
        app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{number}")])
    return app


@pytest.fixture
def scheduler_with_rivals(cloud, settings, make_app):
    """Return a function that creates a scheduler. Rivals fill these hosts before its claim."""

    def scheduler(*rivals, **options):
        options = {key.replace("__", "."): value for key, value in options.items()}
        options["filter_scheduler.enabled_filters"] = ["AllHostsFilter"]
        own = make_app(settings).app.services.scheduler
        slower = replace(
            own, clock=RivalClaims(cloud, rivals), settings=settings.with_overrides(options)
        )
        begin_stats()
        return slower

    return scheduler


def count_claims() -> tuple[int, int, dict[str, int]]:
    stats = request_stats()
    return stats.claims_won, stats.claims_lost, dict(stats.conflicts)


def test_next_best_host_is_claimed_in_the_same_transaction(cloud, scheduler_with_rivals):
    scheduler = scheduler_with_rivals("cn1", "cn2")
    request = spec(instance(1), flavor=WHOLE)
    answer = scheduler.select_destinations(request).answer
    assert selected_hosts(answer) == ["cn3"]
    assert count_claims() == (1, 0, {"moved": 1})
    assert list(allocations(cloud, instance(1))) == [uuid_of("cn3")]
    assert cloud.get(f"/scheduler/v1/instances/{instance(1)}").json["host"] == "cn3"
    decision = cloud.get(f"/scheduler/v1/decisions/{answer['decision']}").json
    assert decision["selections"] == answer["selections"]
    assert [place["host"] for place in decision["instances"]] == ["cn3"]
    stage = decision["funnel"]["filters"][-1]
    assert (stage["name"], stage["before"], stage["after"]) == ("room_at_claim", 6, 4)
    assert [rejection["host"] for rejection in stage["rejected"]] == ["cn1", "cn2"]
    assert scheduler.select_destinations(request).answer == answer


def test_full_hosts_are_no_alternates(scheduler_with_rivals):
    scheduler = scheduler_with_rivals("cn1", "cn2", scheduler__max_attempts=3)
    answer = scheduler.select_destinations(spec(instance(1), flavor=WHOLE), alternates=True).answer
    assert [selection["service_host"] for selection in answer["selections"][0]] == [
        "cn3",
        "cn4",
        "cn5",
    ]


def test_next_host_is_the_next_by_weight(cloud, scheduler_with_rivals):
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn5", memory_mb=131072)])
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn6", memory_mb=98304)])
    scheduler = scheduler_with_rivals("cn5", "cn1", "cn2")
    big = flavor(memory_mb=90000)
    assert selected_hosts(scheduler.select_destinations(spec(instance(1), flavor=big)).answer) == [
        "cn6"
    ]


def test_host_with_a_lower_id_is_claimed_in_the_same_transaction(cloud, scheduler_with_rivals):
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn6", local_gb=5000)])
    by_disk = "placement_sched.scheduler.weights.disk.DiskWeigher"
    scheduler = scheduler_with_rivals("cn6", filter_scheduler__weight_classes=[by_disk])
    answer = scheduler.select_destinations(spec(instance(1), flavor=WHOLE)).answer
    assert selected_hosts(answer) == ["cn1"]
    assert count_claims() == (1, 0, {"moved": 1})


def test_selection_starts_again_without_a_next_host(cloud, scheduler_with_rivals):
    scheduler = scheduler_with_rivals("cn1", "cn2", "cn3", "cn4", "cn5", "cn6")
    with pytest.raises(Exception, match="No valid host"):
        scheduler.select_destinations(spec(instance(1), flavor=WHOLE))
    assert count_claims() == (0, 1, {"capacity": 1})


def test_selection_of_several_instances_starts_again(cloud, scheduler_with_rivals):
    request = spec(instance(1), instance(2), flavor=WHOLE)
    answer = scheduler_with_rivals("cn1").select_destinations(request).answer
    assert selected_hosts(answer) == ["cn2", "cn3"]
    assert count_claims() == (1, 1, {"capacity": 1})
    decision = cloud.get(f"/scheduler/v1/decisions/{answer['decision']}").json
    assert decision["conditions"]["attempt"] == 1
    assert decision["selections"] == answer["selections"]
    answer = scheduler_with_rivals().select_destinations(spec(instance(3), flavor=WHOLE)).answer
    decision = cloud.get(f"/scheduler/v1/decisions/{answer['decision']}").json
    assert decision["conditions"]["attempt"] == 0


def test_instances_of_two_earlier_requests_are_a_conflict(cloud):
    select(cloud, spec(instance(1)))
    select(cloud, spec(instance(2)))
    (error,) = select(cloud, spec(instance(1), instance(2)), 409)["errors"]
    assert error["code"] == "scheduler.instance_placed"
    assert f"instance {instance(1)} already has allocations" in error["detail"]


def test_evacuated_instance_keeps_its_allocations(cloud, scheduler_with_rivals):
    select(cloud, spec(instance(1)))
    scheduler = scheduler_with_rivals("cn2")
    request = spec(instance(1), flavor=WHOLE, ignore_hosts=["cn1"])
    answer = scheduler.select_destinations(request, claiming=ClaimMode.ADDED).answer
    assert selected_hosts(answer) == ["cn3"]
    assert set(allocations(cloud, instance(1))) == {uuid_of("cn1"), uuid_of("cn3")}


def test_other_candidate_of_the_best_host_is_before_the_next_host(cloud, scheduler_with_rivals):
    cards = [instance(801), instance(802)]
    for uuid in cards:
        add_provider(cloud, uuid, uuid, parent=uuid_of("cn1"), CUSTOM_CARD=1)
    request = spec(instance(1), flavor=flavor(extra_specs={"resources:CUSTOM_CARD": "1"}))

    scheduler = scheduler_with_rivals()
    first = scheduler.select_destinations(request, claiming=ClaimMode.NONE).answer
    (card,) = set(first["selections"][0][0]["allocation_request"]["allocations"]) & set(cards)

    def rival():
        body = {
            "allocations": {card: {"resources": {"CUSTOM_CARD": 1}}},
            "project_id": "rival",
            "user_id": "rival",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        path = f"/placement/allocations/{instance(900)}"
        cloud.put_json(path, body, headers=LATEST_HEADERS, expect_errors=True)
        return utcnow()

    answer = replace(scheduler, clock=rival).select_destinations(request).answer
    assert selected_hosts(answer) == ["cn1"]
    provider_uuids = set(allocations(cloud, instance(1)))
    assert provider_uuids == {uuid_of("cn1"), *cards} - {card}
    assert sum(used.get("CUSTOM_CARD", 0) for used in usages(cloud)) == 2
