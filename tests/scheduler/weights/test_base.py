# SPDX-License-Identifier: Apache-2.0
"""Normalized weights, fixed ends, and multipliers of aggregates."""

import logging
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.scheduler.weights import (
    BaseHostWeigher,
    WeighedHost,
    collect_aggregates,
    normalize,
    wrap_weigher,
)
from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.support.states import build_aggregates, build_host_state, build_settings, build_spec

FINITE_NUMBERS = st.floats(min_value=-1e9, max_value=1e9)


@pytest.mark.parametrize(
    ("weights", "ends", "expected"),
    [
        ([], {}, []),
        ([1, 2, 3], {}, [0.0, 0.5, 1.0]),
        ([1, 2, 4], {"minval": 0}, [0.25, 0.5, 1.0]),
        ([1, 2, 4], {"minval": 0, "maxval": 8}, [0.125, 0.25, 0.5]),
        ([5, 5], {}, [0.0, 0.0]),
        ([5, 5], {"minval": 0, "maxval": 10}, [0.5, 0.5]),
        ([3], {"minval": 3, "maxval": 3}, [0.0]),
    ],
)
def test_weights_are_normalized_to_0_to_1(weights, ends, expected):
    assert normalize(weights, **ends) == expected


@given(st.lists(FINITE_NUMBERS, min_size=1))
def test_normalised_weights_span_0_to_1_unless_all_are_equal(weights):
    shares = normalize(weights)
    if len(set(weights)) == 1:
        assert shares == [0.0] * len(weights)
    else:
        assert (min(shares), max(shares)) == (0.0, 1.0)


@given(st.lists(FINITE_NUMBERS), st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_normalising_keeps_the_order_of_weights(weights, low, span):
    shares = normalize(weights, low, low + span)
    ranked = [share for _, share in sorted(zip(weights, shares, strict=True))]
    assert all(first <= second for first, second in pairwise(ranked))


class WeigherWithFixedMinAndMax(BaseHostWeigher):
    minval = 2
    maxval = 4

    def _weigh_object(self, host_state, _properties):
        return host_state.free_ram_mb


def weigh_hosts_with_free_memory(plugin, *figures):
    hosts = [WeighedHost(build_host_state(free_ram_mb=figure)) for figure in figures]
    return list(plugin.weigh_objects(hosts, build_spec()))


def test_weights_are_limited_to_minval_and_maxval():
    class WeigherWithoutFixedMinAndMax(WeigherWithFixedMinAndMax):
        minval = maxval = None

    assert weigh_hosts_with_free_memory(WeigherWithFixedMinAndMax(), 1, 3, 5) == [2, 3, 4]
    assert weigh_hosts_with_free_memory(WeigherWithoutFixedMinAndMax(), 1, 3, 5) == [1, 3, 5]
    host = build_host_state(aggregates=build_aggregates({"clamped_weight_multiplier": "5"}))
    assert WeigherWithFixedMinAndMax().weight_multiplier(host) == 1.0
    assert WeigherWithFixedMinAndMax().multipliers([host, host]) == [1.0, 1.0]


def test_column_method_is_replaced_by_weigh_object_of_a_subclass():
    class DoublingWeigher(WeigherWithColumnMethod):
        def _weigh_object(self, host_state, spec):
            return 2 * super()._weigh_object(host_state, spec)

    assert weigh_hosts_with_free_memory(WeigherWithColumnMethod(), 1, 3, 5) == [2, 3, 5]
    assert (
        WeigherWithColumnMethod()._weigh_object(build_host_state(free_ram_mb=1), build_spec()) == 1
    )
    assert weigh_hosts_with_free_memory(DoublingWeigher(), 1, 3, 5) == [2, 6, 10]


class WeigherWithColumnMethod(BaseHostWeigher):
    minval = 2

    def weigh_hosts(self, hosts, _spec):
        return [host.free_ram_mb for host in hosts]


def test_weigher_without_a_method_is_an_error():
    with pytest.raises(NotImplementedError, match="BaseHostWeigher"):
        weigh_hosts_with_free_memory(BaseHostWeigher(), 1)


METADATA_AND_MULTIPLIERS = [
    ([], 1.5),
    ([{"other": "2"}], 1.5),
    ([{"ram_weight_multiplier": "2"}], 2.0),
    ([{"ram_weight_multiplier": " 4 "}], 4.0),
    ([{"filter_scheduler.ram_weight_multiplier": "3"}], 3.0),
    ([{"ram_weight_multiplier": "3", "filter_scheduler.ram_weight_multiplier": "2"}], 2.0),
    ([{"ram_weight_multiplier": "2"}, {"ram_weight_multiplier": "-1.5"}], -1.5),
    ([{"ram_weight_multiplier": "10"}, {"ram_weight_multiplier": "9"}], 9.0),
    ([{"ram_weight_multiplier": "0"}], 0.0),
    ([{"ram_weight_multiplier": "x"}], 1.5),
    ([{"ram_weight_multiplier": "x"}, {"ram_weight_multiplier": "3"}], 3.0),
    ([{"ram_weight_multiplier": "2,3"}], 1.5),
    ([{"ram_weight_multiplier": ""}], 1.5),
    ([{"ram_weight_multiplier": "nan"}], 1.5),
    ([{"ram_weight_multiplier": "inf"}], 1.5),
]


@pytest.mark.parametrize(("metadata", "expected"), METADATA_AND_MULTIPLIERS)
def test_smallest_multiplier_of_the_aggregates_is_used(metadata, expected):
    settings = build_settings(filter_scheduler__ram_weight_multiplier=1.5)
    plugin = RAMWeigher.with_settings(settings)
    host = build_host_state(aggregates=build_aggregates(*metadata))
    assert plugin.weight_multiplier(host) == expected
    assert plugin.multipliers([build_host_state(), host]) == [1.5, expected]


def test_invalid_multiplier_is_logged_once_for_all_hosts(caplog):
    shared = build_aggregates({"ram_weight_multiplier": "much"})
    with caplog.at_level(logging.WARNING):
        RAMWeigher().multipliers([build_host_state(aggregates=shared) for _ in range(9)])
    (message,) = caplog.messages
    assert "agg1" in message
    assert "'much'" in message


class FreeMemoryPenaltyWeigher(RAMWeigher):
    is_penalty = True


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ([], -1.5),
        ([{"ram_weight_multiplier": "3"}, {"ram_weight_multiplier": "2"}], -2.0),
        ([{"ram_weight_multiplier": "-3"}], 3.0),
        ([{"ram_weight_multiplier": "x"}], -1.5),
    ],
    ids=["configured", "smallest of the aggregates", "negative", "no number"],
)
def test_multiplier_of_a_penalty_weigher_is_negated(metadata, expected):
    settings = build_settings(filter_scheduler__ram_weight_multiplier=1.5)
    plugin = FreeMemoryPenaltyWeigher.with_settings(settings)
    host = build_host_state(aggregates=build_aggregates(*metadata))
    assert plugin.weight_multiplier(host) == expected
    assert plugin.multipliers([build_host_state(), host]) == [-1.5, expected]
    assert plugin.configured_multiplier == -1.5


def test_multiplier_0_of_a_penalty_weigher_is_not_negative_zero():
    settings = build_settings(filter_scheduler__ram_weight_multiplier=0.0)
    assert str(FreeMemoryPenaltyWeigher.with_settings(settings).configured_multiplier) == "0.0"


def test_weigher_may_have_its_own_metadata_key_or_multiplier():
    class WeigherWithMetadataKey(RAMWeigher):
        multiplier_keys = ("memory_multiplier",)

    class WeigherWithMultiplier(WeigherWithFixedMinAndMax):
        def weight_multiplier(self, host_state):
            return float(len(host_state.host))

    own, ignored = build_aggregates({"memory_multiplier": "3"}, {"ram_weight_multiplier": "4"})
    hosts = [build_host_state(aggregates=(own,)), build_host_state(aggregates=(ignored,))]
    assert WeigherWithMetadataKey.with_settings(build_settings()).multipliers(hosts) == [3.0, 1.0]
    assert wrap_weigher(WeigherWithMultiplier()).multipliers(
        [build_host_state("a"), build_host_state("bb")], ()
    ) == [1.0, 2.0]
    shared = build_aggregates({"ram_weight_multiplier": "2"})
    hosts = [build_host_state(aggregates=shared), build_host_state()]
    ram = RAMWeigher.with_settings(build_settings())
    assert ram.multipliers(hosts, collect_aggregates(hosts)) == [2.0, 1.0]
    assert list(collect_aggregates([*hosts, build_host_state(aggregates=shared)])) == list(shared)
