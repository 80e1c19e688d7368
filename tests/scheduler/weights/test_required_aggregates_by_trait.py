# SPDX-License-Identifier: Apache-2.0
"""Weigher that prefers the aggregates of required traits."""

import pytest

from placement_sched.scheduler.plugins import get_plugins
from placement_sched.scheduler.weights import WeighedHost, run_weighers
from placement_sched.scheduler.weights.ram import RAMWeigher
from placement_sched.scheduler.weights.required_aggregates_by_trait import (
    RequiredAggregatesByTraitWeigher,
)
from tests.support.states import (
    build_aggregate,
    build_aggregates,
    build_host_state,
    build_settings,
    build_spec,
)

TRAIT_A, TRAIT_B = {"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}
REQUIRED_AGGREGATES_OPTION = "scheduler__required_aggregates_by_trait"
WEIGHER_NAME = "RequiredAggregatesByTraitWeigher"


def list_weights_by_metadata(extra_specs, *metadata):
    """Return the weight of a host for each list of aggregate metadata."""
    hosts = [
        WeighedHost(build_host_state(aggregates=build_aggregates(*entry))) for entry in metadata
    ]
    return RequiredAggregatesByTraitWeigher().weigh_objects(hosts, build_spec(extra_specs))


@pytest.mark.parametrize(
    ("extra_specs", "metadata", "expected"),
    [
        (TRAIT_A, ([TRAIT_A], []), [1.0, 0.0]),
        (TRAIT_A, ([{"x": "y"}, TRAIT_A], [TRAIT_B]), [1.0, 0.0]),
        (
            TRAIT_A | TRAIT_B,
            ([TRAIT_A], [TRAIT_B], [TRAIT_A, TRAIT_B], [TRAIT_A | TRAIT_B], []),
            [0.5, 0.5, 1.0, 1.0, 0.0],
        ),
        (TRAIT_A | TRAIT_B, ([TRAIT_A], []), [1.0, 0.0]),
        (TRAIT_A, ([], []), [0.0, 0.0]),
        ({}, ([TRAIT_A], []), [0.0, 0.0]),
        ({"trait:CUSTOM_A": "forbidden"}, ([TRAIT_A], []), [0.0, 0.0]),
        (TRAIT_A, ([{"trait:CUSTOM_A": "forbidden"}], []), [0.0, 0.0]),
        ({"trait1:CUSTOM_A": "required"}, ([TRAIT_A], []), [1.0, 0.0]),
    ],
    ids=str,
)
def test_weight_is_the_share_of_required_traits_with_an_aggregate(extra_specs, metadata, expected):
    assert list_weights_by_metadata(extra_specs, *metadata) == expected


def test_default_multiplier_of_required_aggregates_outweighs_free_memory():
    settings = build_settings()
    plugin = RequiredAggregatesByTraitWeigher.with_settings(settings)
    weighers = [RAMWeigher.with_settings(settings), plugin]
    hosts = [
        build_host_state("big", free_ram_mb=10_000_000),
        build_host_state("win", free_ram_mb=512, aggregates=build_aggregates(TRAIT_A)),
    ]
    best = run_weighers(weighers, hosts, build_spec(TRAIT_A)).hosts[0]
    assert (best.obj.host, round(best.weight)) == ("win", 1000)
    assert run_weighers(weighers, hosts, build_spec()).hosts[0].obj.host == "big"
    tagged = build_aggregate(1, **TRAIT_A, required_aggregates_by_trait_weight_multiplier="2.5")
    assert plugin.weight_multiplier(build_host_state(aggregates=(tagged,))) == 2.5


def test_required_aggregates_weigher_runs_only_with_the_option_value_prefer():
    for value, expected in (("off", False), ("prefer", True), ("require", False)):
        weighers = get_plugins(build_settings(**{REQUIRED_AGGREGATES_OPTION: value})).weighers
        assert (WEIGHER_NAME in [type(weigher).__name__ for weigher in weighers]) == expected
