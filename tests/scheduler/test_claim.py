# SPDX-License-Identifier: Apache-2.0
"""What becomes of a selection whose host others took between the choice and the claim."""

from dataclasses import replace

import pytest

from placement_sched.model.clock import utcnow
from placement_sched.model.request_stats import begin_stats, request_stats
from placement_sched.scheduler.claim import ClaimMode
from tests.scheduler.test_scheduler import allocations, select, usages
from tests.support.clouds import uuid_of
from tests.support.scheduling import flavor, hosts_of, instance, report, spec
from tests.support.versions import LATEST_HEADERS

WHOLE = flavor(memory_mb=65536)


class Rivals:
    """A clock that lets others take whole hosts when it is asked the time, once.

    With no filter that asks the time, the claim is the first to ask.
    """

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
    """Six hosts of one size, made in the order of their names: cn1 is the first to be locked."""
    for number in range(1, 7):
        app.post_json("/scheduler/v1/compute_nodes", [report(f"cn{number}")])
    return app


@pytest.fixture
def late(cloud, settings, make_app):
    """Return a scheduler that is slower than rivals, who take these hosts before it claims."""

    def scheduler(*taken, **options):
        options = {key.replace("__", "."): value for key, value in options.items()}
        options["filter_scheduler.enabled_filters"] = ["AllHostsFilter"]
        own = make_app(settings).app.services.scheduler
        slower = replace(own, clock=Rivals(cloud, taken), settings=settings.with_overrides(options))
        begin_stats()
        return slower

    return scheduler


def counted_claims() -> tuple[int, int, dict[str, int]]:
    stats = request_stats()
    return stats.claims_won, stats.claims_lost, dict(stats.conflicts)


def test_next_best_host_is_claimed_in_the_same_transaction(cloud, late):
    scheduler = late("cn1", "cn2")
    answer = scheduler.select_destinations(spec(instance(1), flavor=WHOLE))
    assert hosts_of(answer) == ["cn3"]
    assert counted_claims() == (1, 0, {"moved": 1})
    assert list(allocations(cloud, instance(1))) == [uuid_of("cn3")]
    assert cloud.get(f"/scheduler/v1/instances/{instance(1)}").json["host"] == "cn3"


def test_decision_names_the_host_that_was_claimed_and_those_that_were_passed_over(cloud, late):
    answer = late("cn1", "cn2").select_destinations(spec(instance(1), flavor=WHOLE))
    decision = cloud.get(f"/scheduler/v1/decisions/{answer['decision']}").json
    assert decision["selections"] == answer["selections"]
    assert [place["host"] for place in decision["instances"]] == ["cn3"]
    stage = decision["funnel"]["filters"][-1]
    assert (stage["name"], stage["before"], stage["after"]) == ("room_at_claim", 6, 4)
    assert [one["host"] for one in stage["rejected"]] == ["cn1", "cn2"]


def test_equal_request_gets_the_same_answer_again(cloud, late):
    scheduler, asked = late("cn1"), spec(instance(1), flavor=WHOLE)
    assert scheduler.select_destinations(asked) == scheduler.select_destinations(asked)


def test_hosts_that_were_passed_over_are_no_alternates(late):
    scheduler = late("cn1", "cn2", scheduler__max_attempts=3)
    answer = scheduler.select_destinations(spec(instance(1), flavor=WHOLE), alternates=True)
    assert [one["service_host"] for one in answer["selections"][0]] == ["cn3", "cn4", "cn5"]


def test_weights_decide_which_host_is_next(cloud, late):
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn5", memory_mb=131072)])
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn6", memory_mb=98304)])
    scheduler = late("cn5", "cn1", "cn2")
    big = flavor(memory_mb=90000)
    assert hosts_of(scheduler.select_destinations(spec(instance(1), flavor=big))) == ["cn6"]


def test_host_whose_id_is_before_that_of_the_best_host_is_claimed_in_the_same_transaction(
    cloud, late
):
    cloud.post_json("/scheduler/v1/compute_nodes", [report("cn6", local_gb=5000)])
    by_disk = "placement_sched.scheduler.weights.disk.DiskWeigher"
    scheduler = late("cn6", filter_scheduler__weight_classes=[by_disk])
    answer = scheduler.select_destinations(spec(instance(1), flavor=WHOLE))
    assert hosts_of(answer) == ["cn1"]
    assert counted_claims() == (1, 0, {"moved": 1})


def test_selection_starts_again_where_no_host_of_the_next_best_has_room(cloud, late):
    """And finds a host that it had not counted among the best."""
    scheduler = late("cn1", "cn2", "cn3", "cn4", "cn5", "cn6")
    asked = spec(instance(1), flavor=WHOLE)
    with pytest.raises(Exception, match="No valid host"):
        scheduler.select_destinations(asked)
    assert counted_claims() == (0, 1, {"capacity": 1})


def test_several_instances_start_again_all_of_them(cloud, late):
    scheduler = late("cn1")
    asked = spec(instance(1), instance(2), flavor=WHOLE)
    assert hosts_of(scheduler.select_destinations(asked)) == ["cn2", "cn3"]
    assert counted_claims() == (1, 1, {"capacity": 1})


def test_a_lost_claim_keeps_its_attempt_in_the_decision(cloud, late):
    """So that a replay makes the random choices of the attempt that was claimed."""
    asked = spec(instance(1), instance(2), flavor=WHOLE)
    answer = late("cn1").select_destinations(asked)
    decision = cloud.get(f"/scheduler/v1/decisions/{answer['decision']}").json
    assert decision["conditions"]["attempt"] == 1
    assert decision["selections"] == answer["selections"]
    undisturbed = late().select_destinations(spec(instance(3), flavor=WHOLE))
    first = cloud.get(f"/scheduler/v1/decisions/{undisturbed['decision']}").json
    assert first["conditions"]["attempt"] == 0


def test_evacuated_instance_moves_on_beside_what_it_holds(cloud, late):
    select(cloud, spec(instance(1)))
    scheduler = late("cn2")
    asked = spec(instance(1), flavor=WHOLE, ignore_hosts=["cn1"])
    answer = scheduler.select_destinations(asked, claiming=ClaimMode.ADDED)
    assert hosts_of(answer) == ["cn3"]
    assert set(allocations(cloud, instance(1))) == {uuid_of("cn1"), uuid_of("cn3")}


def test_other_candidate_of_the_best_host_comes_before_the_next_host(cloud, late):
    """cn1 has two devices; the rival takes one, the instance gets the other."""
    cloud.put("/placement/resource_classes/CUSTOM_CARD", headers=LATEST_HEADERS, status=201)
    cards = [instance(801), instance(802)]
    for uuid in cards:
        body = {"uuid": uuid, "name": uuid, "parent_provider_uuid": uuid_of("cn1")}
        cloud.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
        stock = {"resource_provider_generation": 0, "inventories": {"CUSTOM_CARD": {"total": 1}}}
        path = f"/placement/resource_providers/{uuid}/inventories"
        cloud.put_json(path, stock, headers=LATEST_HEADERS)
    asked = spec(instance(1), flavor=flavor(extra_specs={"resources:CUSTOM_CARD": "1"}))

    scheduler = late()
    first = scheduler.select_destinations(asked, claiming=ClaimMode.NONE)
    (taken,) = set(first["selections"][0][0]["allocation_request"]["allocations"]) & set(cards)

    def rival():
        body = {
            "allocations": {taken: {"resources": {"CUSTOM_CARD": 1}}},
            "project_id": "rival",
            "user_id": "rival",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        path = f"/placement/allocations/{instance(900)}"
        cloud.put_json(path, body, headers=LATEST_HEADERS, expect_errors=True)
        return utcnow()

    answer = replace(scheduler, clock=rival).select_destinations(asked)
    assert hosts_of(answer) == ["cn1"]
    held = set(allocations(cloud, instance(1)))
    assert held == {uuid_of("cn1"), *cards} - {taken}
    assert sum(used.get("CUSTOM_CARD", 0) for used in usages(cloud)) == 2
