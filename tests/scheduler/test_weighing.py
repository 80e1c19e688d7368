# SPDX-License-Identifier: Apache-2.0
"""The run of the weighers: how weights add up, order hosts and are checked."""

from dataclasses import asdict
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.errors import PluginFailed
from placement_sched.scheduler.weighing import run_weighers
from placement_sched.scheduler.weights import BaseHostWeigher
from tests.support.states import a_host, a_spec, aggregates

HOSTS = [a_host(name) for name in ("cn1", "cn2", "cn3")]
SPEC = a_spec()


class Free(BaseHostWeigher):
    def _weigh_object(self, host_state, _spec):
        return host_state.free_ram_mb


class Zone(BaseHostWeigher):
    minval = 0
    maxval = 4

    def weight_multiplier(self, host_state):
        return 2.0 if host_state.host == "cn1" else 1.0

    def weigh_objects(self, weighed, _spec):
        return [len(item.obj.aggregates) for item in weighed]


def order(run):
    return [(host.obj.host, host.obj.nodename, host.weight) for host in run.hosts]


def test_weights_add_up_multiplied_and_normalised():
    hosts = [
        a_host("cn1", free_ram_mb=10, aggregates=aggregates({}, {})),
        a_host("cn2", free_ram_mb=30),
        a_host("cn3", free_ram_mb=20, aggregates=aggregates({})),
    ]
    run = run_weighers([Free(), Zone()], hosts, SPEC)
    assert order(run) == [("cn1", "cn1", 1.0), ("cn2", "cn2", 1.0), ("cn3", "cn3", 0.75)]
    first = run.host_reports()[0]
    assert (first.host, first.weight) == ("cn1", 1.0)
    assert first.weights["Free"].as_json() == {
        "raw": 10,
        "normalized": 0.0,
        "multiplier": 1.0,
        "weighted": 0.0,
    }
    assert first.weights["Zone"].as_json() == {
        "raw": 2,
        "normalized": 0.5,
        "multiplier": 2.0,
        "weighted": 1.0,
    }
    assert [asdict(report) for report in run.reports] == [
        {"name": "Free", "multiplier": 1.0},
        {"name": "Zone", "multiplier": 2.0},
    ]


def test_equal_weights_are_ordered_by_host_then_node():
    hosts = [a_host("b"), a_host("a", "n2"), a_host("c"), a_host("a", "n1")]
    run = run_weighers([Free()], hosts, SPEC)
    assert [each[:2] for each in order(run)] == [("a", "n1"), ("a", "n2"), ("b", "b"), ("c", "c")]
    assert {each[2] for each in order(run)} == {0.0}


def test_single_host_is_not_weighed():
    class Never(BaseHostWeigher):
        def _weigh_object(self, _host, _spec):
            raise AssertionError("weighed")

    run = run_weighers([Never()], HOSTS[:1], SPEC)
    assert (order(run), run.reports) == ([("cn1", "cn1", 0.0)], ())
    assert run.host_reports()[0].weights == {}


class Unconcerned(BaseHostWeigher):
    def concerns(self, spec):
        return "matters" in spec.scheduler_hints

    def _weigh_object(self, host_state, _spec):
        return int(host_state.host[2:])


def test_weigher_that_a_request_does_not_concern_is_told_of_and_not_asked():
    run = run_weighers([Unconcerned()], HOSTS, SPEC)
    assert [name for name, *_ in order(run)] == ["cn1", "cn2", "cn3"]
    assert [asdict(report) for report in run.reports] == [
        {"name": "Unconcerned", "multiplier": 1.0}
    ]
    (told,) = {str(report.weights["Unconcerned"].as_json()) for report in run.host_reports()}
    assert told == str({"raw": 0.0, "normalized": 0.0, "multiplier": 1.0, "weighted": 0.0})
    asked = a_spec(scheduler_hints={"matters": "yes"})
    assert [name for name, *_ in order(run_weighers([Unconcerned()], HOSTS, asked))] == [
        "cn3",
        "cn2",
        "cn1",
    ]


def test_weighers_derived_of_it_that_weigh_in_their_own_way_are_asked():
    class Object(Unconcerned):
        def _weigh_object(self, host_state, spec):
            return super()._weigh_object(host_state, spec)

    class Objects(Unconcerned):
        def weigh_objects(self, weighed, _spec):
            return [int(item.obj.host[2:]) for item in weighed]

    class Named(Unconcerned):
        def weight_multiplier(self, _host):
            return 3.0

    for kind, first in ((Object, "cn3"), (Objects, "cn3"), (Named, "cn1")):
        assert order(run_weighers([kind()], HOSTS, SPEC))[0][0] == first


def test_weights_whose_sum_is_no_number_are_weights():
    class Huge(BaseHostWeigher):
        def weigh_objects(self, weighed, _spec):
            return [1e308 for _ in weighed]

    assert len(run_weighers([Huge()], HOSTS, SPEC).hosts) == len(HOSTS)


def test_no_host_and_no_weigher_are_answers():
    assert run_weighers([Free()], [], SPEC).hosts == []
    assert [name for name, *_ in order(run_weighers([], HOSTS, SPEC))] == ["cn1", "cn2", "cn3"]


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([1, 2], "ValueError: 2 weights for 3 hosts"),
        ([1, None, 2], "TypeError"),
        ([1, float("inf"), 2], "ValueError: a weight or multiplier of inf"),
        ([1, float("nan"), 2], "ValueError: a weight or multiplier of nan"),
        (None, "TypeError"),
    ],
)
def test_weigher_that_weighs_wrongly_is_named(weights, reason):
    class Wrong(BaseHostWeigher):
        def weigh_objects(self, _weighed, _spec):
            return weights

    with pytest.raises(PluginFailed, match=rf"Wrong failed: {reason}"):
        run_weighers([Wrong()], HOSTS, SPEC)


@given(st.lists(st.integers(0, 5), max_size=8), st.sampled_from([-1.0, 0.0, 2.5]))
def test_order_is_that_of_a_naive_model(figures, multiplier):
    class Times(Free):
        def weight_multiplier(self, _host):
            return multiplier

    hosts = [a_host(f"cn{number}", free_ram_mb=each) for number, each in enumerate(figures)]
    expected = sorted(hosts, key=lambda host: (-multiplier * host.free_ram_mb, host.host))
    if multiplier == 0.0:
        expected = sorted(hosts, key=lambda host: host.host)
    run = run_weighers([Times()], hosts, SPEC)
    assert [weighed.obj for weighed in run.hosts] == expected


@pytest.mark.parametrize("number", [Fraction(1, 2), Decimal("0.5"), 2**70, True])
def test_weights_of_any_kind_of_number_become_plain_ones(number):
    class Weighs(BaseHostWeigher):
        def _weigh_object(self, host_state, _spec):
            return number if host_state.host == "cn1" else 0

        def weight_multiplier(self, _host_state):
            return Fraction(2)

    run = run_weighers([Weighs()], HOSTS, SPEC)
    told = run.host_reports()[0].weights["Weighs"]
    assert {type(value) for value in (*told, run.hosts[0].weight)} == {float}
    assert run.hosts[0].weight == 2.0
