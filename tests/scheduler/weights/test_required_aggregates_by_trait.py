# SPDX-License-Identifier: Apache-2.0
"""RequiredAggregatesByTraitWeigher: reserved hosts come first for those they are reserved for."""

import pytest

from placement_sched.scheduler.plugins import plugins_for
from placement_sched.scheduler.weighing import run_weighers
from placement_sched.scheduler.weights import WeighedHost
from placement_sched.scheduler.weights.ram import RAMWeigher
from placement_sched.scheduler.weights.required_aggregates_by_trait import (
    RequiredAggregatesByTraitWeigher,
)
from tests.scheduler.explained import explained, put_aggregate, put_hosts
from tests.support.scheduling import report, spec
from tests.support.states import a_host, a_spec, aggregates, an_aggregate, settings_with

A, B = {"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}
SWITCH = "scheduler__required_aggregates_by_trait"
MULTIPLIER = "filter_scheduler__required_aggregates_by_trait_weight_multiplier"
NAME = "RequiredAggregatesByTraitWeigher"


def weights(extra_specs, *metadata):
    """Return the weight of one host for each list of metadata of its aggregates."""
    hosts = [WeighedHost(a_host(aggregates=aggregates(*each))) for each in metadata]
    return RequiredAggregatesByTraitWeigher().weigh_objects(hosts, a_spec(extra_specs))


@pytest.mark.parametrize(
    ("extra_specs", "metadata", "expected"),
    [
        (A, ([A], []), [1.0, 0.0]),
        (A, ([{"x": "y"}, A], [B]), [1.0, 0.0]),
        (A | B, ([A], [B], [A, B], [A | B], []), [0.5, 0.5, 1.0, 1.0, 0.0]),
        (A | B, ([A], []), [1.0, 0.0]),
        (A, ([], []), [0.0, 0.0]),
        ({}, ([A], []), [0.0, 0.0]),
        ({"trait:CUSTOM_A": "forbidden"}, ([A], []), [0.0, 0.0]),
        (A, ([{"trait:CUSTOM_A": "forbidden"}], []), [0.0, 0.0]),
        ({"trait1:CUSTOM_A": "required"}, ([A], []), [1.0, 0.0]),
    ],
    ids=[
        "tagged",
        "one of several aggregates",
        "shares",
        "trait without a tag at hand",
        "nobody tagged",
        "nothing required",
        "forbidden by the flavor",
        "forbidden in the metadata",
        "suffix",
    ],
)
def test_weight_is_the_share_of_the_requests_traits_that_the_host_is_tagged_with(
    extra_specs, metadata, expected
):
    assert weights(extra_specs, *metadata) == expected


def test_reserved_host_outweighs_any_amount_of_free_memory():
    settings = settings_with()
    weighers = [
        RAMWeigher.with_settings(settings),
        RequiredAggregatesByTraitWeigher.with_settings(settings),
    ]
    hosts = [
        a_host("big", free_ram_mb=10_000_000),
        a_host("win", free_ram_mb=512, aggregates=aggregates(A)),
    ]
    best = run_weighers(weighers, hosts, a_spec(A)).hosts[0]
    # next to nothing of free memory, and the whole of 1000
    assert (best.obj.host, round(best.weight)) == ("win", 1000)
    assert run_weighers(weighers, hosts, a_spec()).hosts[0].obj.host == "big"


def test_metadata_of_aggregates_override_the_multiplier():
    plugin = RequiredAggregatesByTraitWeigher.with_settings(settings_with())
    tagged = an_aggregate(1, **A, required_aggregates_by_trait_weight_multiplier="2.5")
    assert plugin.weight_multiplier(a_host(aggregates=(tagged,))) == 2.5


def test_weigher_runs_with_prefer_alone():
    for value, expected in (("off", False), ("prefer", True), ("require", False)):
        weighers = plugins_for(settings_with(**{SWITCH: value})).weighers
        assert (NAME in [type(one).__name__ for one in weighers]) == expected


# From end to end


@pytest.fixture
def cloud(sqlite_app):
    """A licensed host with little memory beside a larger one that merely has the trait."""
    put_hosts(sqlite_app, stray=["CUSTOM_A"], win=["CUSTOM_A"])
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("win", memory_mb=8192)])
    put_aggregate(sqlite_app, 1, A, "win")
    return sqlite_app


def test_licensed_host_comes_first_and_others_are_not_shut_out(cloud):
    asked = spec(image={"properties": A})
    assert explained(cloud, asked).hosts == ["stray", "win"]
    told = explained(cloud, asked, **{SWITCH: "prefer"})
    assert told.hosts == ["win", "stray"]
    assert {"name": NAME, "multiplier": 1000.0} in told.answer["funnel"]["weighers"]
    assert told.answer["hosts"][0]["weights"][NAME] == {
        "raw": 1.0,
        "normalized": 1.0,
        "multiplier": 1000.0,
        "weighted": 1000.0,
    }
    assert told.told_by("required_aggregates_by_trait") == {"applied": False, "changes": {}}


def test_request_without_the_trait_is_not_drawn_there(cloud):
    assert explained(cloud, spec(), **{SWITCH: "prefer"}).hosts == ["stray", "win"]


def test_negative_multiplier_turns_the_preference_round(cloud):
    asked = spec(image={"properties": A})
    told = explained(cloud, asked, **{SWITCH: "prefer", MULTIPLIER: -5.0})
    assert told.hosts == ["stray", "win"]


def test_weigher_that_is_off_is_not_told_of(cloud):
    told = explained(cloud, spec(image={"properties": A}))
    assert NAME not in [one["name"] for one in told.answer["funnel"]["weighers"]]
