# SPDX-License-Identifier: Apache-2.0
"""Weigher that prefers the aggregates of required traits."""

import pytest

from placement_sched.scheduler.plugins import plugins_for
from placement_sched.scheduler.weights import WeighedHost, run_weighers
from placement_sched.scheduler.weights.ram import RAMWeigher
from placement_sched.scheduler.weights.required_aggregates_by_trait import (
    RequiredAggregatesByTraitWeigher,
)
from tests.support.states import (
    build_aggregate,
    build_aggregates,
    build_host_state,
    build_spec,
    settings_with,
)

A, B = {"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}
SWITCH = "scheduler__required_aggregates_by_trait"
NAME = "RequiredAggregatesByTraitWeigher"


def list_weights(extra_specs, *metadata):
    """Return the weight of a host for each list of aggregate metadata."""
    hosts = [
        WeighedHost(build_host_state(aggregates=build_aggregates(*entry))) for entry in metadata
    ]
    return RequiredAggregatesByTraitWeigher().weigh_objects(hosts, build_spec(extra_specs))


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
    ids=str,
)
def test_weight_is_the_share_of_traits_with_an_aggregate(extra_specs, metadata, expected):
    assert list_weights(extra_specs, *metadata) == expected


def test_default_multiplier_outweighs_free_memory():
    settings = settings_with()
    plugin = RequiredAggregatesByTraitWeigher.with_settings(settings)
    weighers = [RAMWeigher.with_settings(settings), plugin]
    hosts = [
        build_host_state("big", free_ram_mb=10_000_000),
        build_host_state("win", free_ram_mb=512, aggregates=build_aggregates(A)),
    ]
    best = run_weighers(weighers, hosts, build_spec(A)).hosts[0]
    assert (best.obj.host, round(best.weight)) == ("win", 1000)
    assert run_weighers(weighers, hosts, build_spec()).hosts[0].obj.host == "big"
    tagged = build_aggregate(1, **A, required_aggregates_by_trait_weight_multiplier="2.5")
    assert plugin.weight_multiplier(build_host_state(aggregates=(tagged,))) == 2.5


def test_weigher_runs_only_with_the_option_value_prefer():
    for value, expected in (("off", False), ("prefer", True), ("require", False)):
        weighers = plugins_for(settings_with(**{SWITCH: value})).weighers
        assert (NAME in [type(weigher).__name__ for weigher in weighers]) == expected
