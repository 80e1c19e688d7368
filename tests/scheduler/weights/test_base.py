# SPDX-License-Identifier: Apache-2.0
"""Normalisation, clamping and multipliers per aggregate."""

import logging
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.config.conf import new_conf
from placement_sched.scheduler.plugins import read_settings
from placement_sched.scheduler.weighing import weigher_of
from placement_sched.scheduler.weights import BaseHostWeigher, WeighedHost, aggregates_of, normalize
from placement_sched.scheduler.weights.ram import RAMWeigher
from tests.support.states import a_host, a_spec, aggregates, settings_with

NUMBERS = st.floats(min_value=-1e9, max_value=1e9)


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
def test_weights_are_put_on_a_scale_from_0_to_1(weights, ends, expected):
    assert normalize(weights, **ends) == expected


@given(st.lists(NUMBERS, min_size=1))
def test_normalised_weights_span_0_to_1_unless_all_are_equal(weights):
    shares = normalize(weights)
    if len(set(weights)) == 1:
        assert shares == [0.0] * len(weights)
    else:
        assert (min(shares), max(shares)) == (0.0, 1.0)


@given(st.lists(NUMBERS), st.floats(-1e6, 1e6), st.floats(0, 1e6))
def test_normalising_keeps_the_order(weights, low, span):
    shares = normalize(weights, low, low + span)
    ranked = [share for _, share in sorted(zip(weights, shares, strict=True))]
    assert all(first <= second for first, second in pairwise(ranked))


class Clamped(BaseHostWeigher):
    minval = 2
    maxval = 4

    def _weigh_object(self, host_state, _properties):
        return host_state.free_ram_mb


def weigh(plugin, *figures):
    hosts = [WeighedHost(a_host(free_ram_mb=figure)) for figure in figures]
    return list(plugin.weigh_objects(hosts, a_spec()))


def test_weights_are_clamped_to_fixed_ends():
    assert weigh(Clamped(), 1, 3, 5) == [2, 3, 4]


def test_ends_are_free_unless_fixed():
    class Free(Clamped):
        minval = maxval = None

    assert weigh(Free(), 1, 3, 5) == [1, 3, 5]


def test_weigher_without_an_option_counts_once():
    plugin = Clamped()
    host = a_host(aggregates=aggregates({"clamped_weight_multiplier": "5"}))
    assert plugin.weight_multiplier(host) == 1.0
    assert plugin.multipliers([host, host]) == [1.0, 1.0]


class Column(BaseHostWeigher):
    minval = 2

    def column(self, hosts, _spec):
        return [host.free_ram_mb for host in hosts]


def test_column_weighs_all_hosts_in_one_go_and_each_of_them():
    assert weigh(Column(), 1, 3, 5) == [2, 3, 5]
    assert Column()._weigh_object(a_host(free_ram_mb=1), a_spec()) == 1


def test_own_way_to_weigh_one_host_goes_before_the_column_of_the_parent():
    class Twice(Column):
        def _weigh_object(self, host_state, spec):
            return 2 * super()._weigh_object(host_state, spec)

    assert weigh(Twice(), 1, 3, 5) == [2, 6, 10]


def test_weigher_that_weighs_nothing_says_so():
    with pytest.raises(NotImplementedError, match="BaseHostWeigher"):
        weigh(BaseHostWeigher(), 1)


MULTIPLIERS = [
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


@pytest.mark.parametrize(("metadata", "expected"), MULTIPLIERS)
def test_smallest_multiplier_of_the_aggregates_counts(metadata, expected):
    settings = settings_with(filter_scheduler__ram_weight_multiplier=1.5)
    plugin = RAMWeigher.with_settings(settings)
    host = a_host(aggregates=aggregates(*metadata))
    assert plugin.weight_multiplier(host) == expected
    assert plugin.multipliers([a_host(), host]) == [1.5, expected]


@pytest.mark.parametrize("name", ["ram_weight_multiplier", "disk_weight_multiplier"])
def test_multipliers_may_stand_where_nova_had_them_up_to_mitaka(tmp_path, name):
    file = tmp_path / "nova.conf"
    file.write_text(f"[DEFAULT]\n{name} = -2.5\n")
    settings = read_settings([str(file)], new_conf())
    assert getattr(settings.filter_scheduler, name) == -2.5


def test_multiplier_that_is_no_number_is_logged_with_its_aggregate(caplog):
    host = a_host(aggregates=aggregates({"ram_weight_multiplier": "much"}))
    with caplog.at_level(logging.WARNING):
        RAMWeigher().weight_multiplier(host)
    assert "agg1" in caplog.text
    assert "'much'" in caplog.text


def test_each_aggregate_is_read_once_for_all_hosts(caplog):
    shared = aggregates({"ram_weight_multiplier": "much"})
    with caplog.at_level(logging.WARNING):
        RAMWeigher().multipliers([a_host(aggregates=shared) for _ in range(9)])
    assert len(caplog.records) == 1


class Penalty(RAMWeigher):
    is_penalty = True


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ([], -1.5),
        ([{"ram_weight_multiplier": "3"}, {"ram_weight_multiplier": "2"}], -2.0),
        ([{"ram_weight_multiplier": "-3"}], 3.0),
        ([{"ram_weight_multiplier": "x"}], -1.5),
    ],
    ids=["configured", "the smallest as it is written", "negative", "no number"],
)
def test_multiplier_of_a_penalty_counts_against_the_host(metadata, expected):
    settings = settings_with(filter_scheduler__ram_weight_multiplier=1.5)
    plugin = Penalty.with_settings(settings)
    host = a_host(aggregates=aggregates(*metadata))
    assert plugin.weight_multiplier(host) == expected
    assert plugin.multipliers([a_host(), host]) == [-1.5, expected]
    assert plugin.configured_multiplier == -1.5


def test_penalty_of_nothing_is_not_minus_nothing():
    settings = settings_with(filter_scheduler__ram_weight_multiplier=0.0)
    assert str(Penalty.with_settings(settings).configured_multiplier) == "0.0"


def test_metadata_may_have_keys_of_their_own():
    class Other(RAMWeigher):
        multiplier_keys = ("memory_multiplier",)

    used, passed_over = aggregates({"memory_multiplier": "3"}, {"ram_weight_multiplier": "4"})
    hosts = [a_host(aggregates=(used,)), a_host(aggregates=(passed_over,))]
    assert Other().multipliers(hosts) == [3.0, 1.0]


def test_aggregates_that_the_caller_has_ready_are_those_read():
    shared = aggregates({"ram_weight_multiplier": "2"})
    hosts = [a_host(aggregates=shared), a_host()]
    assert RAMWeigher().multipliers(hosts, aggregates_of(hosts)) == [2.0, 1.0]
    assert list(aggregates_of([*hosts, a_host(aggregates=shared)])) == list(shared)


def test_own_weight_multiplier_of_a_weigher_is_asked_for_every_host():
    class Own(Clamped):
        def weight_multiplier(self, host_state):
            return float(len(host_state.host))

    assert weigher_of(Own()).multipliers([a_host("a"), a_host("bb")], ()) == [1.0, 2.0]
