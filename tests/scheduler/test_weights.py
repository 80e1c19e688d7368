# SPDX-License-Identifier: Apache-2.0
"""Runs of weighers: sums, order and errors."""

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placement_sched.errors import PluginFailed
from placement_sched.scheduler.weights import BaseHostWeigher, IncrementalWeighing, run_weighers
from tests.support.explanations import build_weight
from tests.support.states import build_aggregates, build_host_state, build_spec

HOSTS = [build_host_state(name) for name in ("cn1", "cn2", "cn3")]
DEFAULT_SPEC = build_spec()


class FreeMemoryWeigher(BaseHostWeigher):
    def _weigh_object(self, host_state, _spec):
        return host_state.free_ram_mb


class AggregateCountWeigher(BaseHostWeigher):
    minval = 0
    maxval = 4

    def weight_multiplier(self, host_state):
        return 2.0 if host_state.host == "cn1" else 1.0

    def weigh_objects(self, weighed, _spec):
        return [len(item.obj.aggregates) for item in weighed]


def list_weighed_hosts(run):
    return [(host.obj.host, host.obj.nodename, host.weight) for host in run.hosts]


def test_weights_are_normalized_multiplied_and_added():
    hosts = [
        build_host_state("cn1", free_ram_mb=10, aggregates=build_aggregates({}, {})),
        build_host_state("cn2", free_ram_mb=30),
        build_host_state("cn3", free_ram_mb=20, aggregates=build_aggregates({})),
    ]
    run = run_weighers([FreeMemoryWeigher(), AggregateCountWeigher()], hosts, DEFAULT_SPEC)
    weighed = list_weighed_hosts(run)
    assert weighed == [("cn1", "cn1", 1.0), ("cn2", "cn2", 1.0), ("cn3", "cn3", 0.75)]
    first = run.build_host_reports()[0]
    assert (first.host, first.weight) == ("cn1", 1.0)
    assert first.weights["FreeMemoryWeigher"].as_json() == build_weight(0.0, 10)
    assert first.weights["AggregateCountWeigher"].as_json() == build_weight(0.5, 2, 2.0)
    assert [report.as_json() for report in run.reports] == [
        {"name": "FreeMemoryWeigher", "multiplier": 1.0},
        {"name": "AggregateCountWeigher", "multiplier": 2.0},
    ]


def test_equal_weights_are_ordered_by_host_then_node():
    hosts = [
        build_host_state("b"),
        build_host_state("a", "n2"),
        build_host_state("c"),
        build_host_state("a", "n1"),
    ]
    run = run_weighers([FreeMemoryWeigher()], hosts, DEFAULT_SPEC)
    names = [item[:2] for item in list_weighed_hosts(run)]
    assert names == [("a", "n1"), ("a", "n2"), ("b", "b"), ("c", "c")]
    assert {entry[2] for entry in list_weighed_hosts(run)} == {0.0}


def test_single_host_is_not_weighed():
    class FailingWeigher(BaseHostWeigher):
        def _weigh_object(self, _host, _spec):
            raise AssertionError("weighed")

    run = run_weighers([FailingWeigher()], HOSTS[:1], DEFAULT_SPEC)
    assert (list_weighed_hosts(run), run.reports) == ([("cn1", "cn1", 0.0)], ())
    assert run.build_host_reports()[0].weights == {}
    assert run_weighers([FailingWeigher()], [], DEFAULT_SPEC).hosts == []
    names = [name for name, *_ in list_weighed_hosts(run_weighers([], HOSTS, DEFAULT_SPEC))]
    assert names == ["cn1", "cn2", "cn3"]


def test_sum_of_weights_may_be_infinite():
    class HugeWeigher(BaseHostWeigher):
        def weigh_objects(self, weighed, _spec):
            return [1e308 for _ in weighed]

    assert len(run_weighers([HugeWeigher()], HOSTS, DEFAULT_SPEC).hosts) == len(HOSTS)


class HintWeigher(BaseHostWeigher):
    def concerns(self, spec):
        return "matters" in spec.scheduler_hints

    def _weigh_object(self, host_state, _spec):
        return int(host_state.host[2:])


def test_weigher_that_ignores_a_request_does_not_run():
    run = run_weighers([HintWeigher()], HOSTS, DEFAULT_SPEC)
    assert [name for name, *_ in list_weighed_hosts(run)] == ["cn1", "cn2", "cn3"]
    reports = [report.as_json() for report in run.reports]
    assert reports == [{"name": "HintWeigher", "multiplier": 1.0}]
    (result,) = {
        str(report.weights["HintWeigher"].as_json()) for report in run.build_host_reports()
    }
    assert result == str({"raw": 0.0, "normalized": 0.0, "multiplier": 1.0, "weighted": 0.0})
    request = build_spec(scheduler_hints={"matters": "yes"})
    names = [name for name, *_ in list_weighed_hosts(run_weighers([HintWeigher()], HOSTS, request))]
    assert names == ["cn3", "cn2", "cn1"]


def test_methods_overridden_by_a_subclass_run_for_every_request():
    class WeigherWithWeighObject(HintWeigher):
        def _weigh_object(self, host_state, spec):
            return super()._weigh_object(host_state, spec)

    class WeigherWithWeighObjects(HintWeigher):
        def weigh_objects(self, weighed, _spec):
            return [int(item.obj.host[2:]) for item in weighed]

    class WeigherWithWeightMultiplier(HintWeigher):
        def weight_multiplier(self, _host):
            return 3.0

    for kind, first in (
        (WeigherWithWeighObject, "cn3"),
        (WeigherWithWeighObjects, "cn3"),
        (WeigherWithWeightMultiplier, "cn1"),
    ):
        assert list_weighed_hosts(run_weighers([kind()], HOSTS, DEFAULT_SPEC))[0][0] == first


@pytest.mark.parametrize(
    ("weights", "reason"),
    [
        ([1, 2], "ValueError: 2 weights for 3 hosts"),
        ([1, None, 2], "TypeError"),
        ([1, float("inf"), 2], "ValueError: a weight or multiplier must be finite, not inf"),
        ([1, float("nan"), 2], "ValueError: a weight or multiplier must be finite, not nan"),
        (None, "TypeError"),
    ],
)
def test_error_for_invalid_weights_names_the_weigher(weights, reason):
    class InvalidWeigher(BaseHostWeigher):
        def weigh_objects(self, _weighed, _spec):
            return weights

    with pytest.raises(PluginFailed, match=rf"InvalidWeigher failed: {reason}"):
        run_weighers([InvalidWeigher()], HOSTS, DEFAULT_SPEC)


@given(st.lists(st.integers(0, 5), max_size=8), st.sampled_from([-1.0, 0.0, 2.5]))
def test_order_of_weighed_hosts_equals_that_of_sorting_by_weight(figures, multiplier):
    class MultiplyingWeigher(FreeMemoryWeigher):
        def weight_multiplier(self, _host):
            return multiplier

    hosts = [
        build_host_state(f"cn{number}", free_ram_mb=entry) for number, entry in enumerate(figures)
    ]
    expected = sorted(hosts, key=lambda host: (-multiplier * host.free_ram_mb, host.host))
    if multiplier == 0.0:
        expected = sorted(hosts, key=lambda host: host.host)
    run = run_weighers([MultiplyingWeigher()], hosts, DEFAULT_SPEC)
    assert [weighed.obj for weighed in run.hosts] == expected


@pytest.mark.parametrize("number", [Fraction(1, 2), Decimal("0.5"), 2**70, True])
def test_weights_of_any_number_type_become_floats(number):
    class WeigherOfAnyType(BaseHostWeigher):
        def _weigh_object(self, host_state, _spec):
            return number if host_state.host == "cn1" else 0

        def weight_multiplier(self, _host_state):
            return Fraction(2)

    run = run_weighers([WeigherOfAnyType()], HOSTS, DEFAULT_SPEC)
    result = run.build_host_reports()[0].weights["WeigherOfAnyType"]
    assert {type(value) for value in (*result[:3], run.hosts[0].weight)} == {float}
    assert run.hosts[0].weight == 2.0


class WeigherOfIcehouse(BaseHostWeigher):
    """Has a multiplier without a host, and sets its ends while it weighs."""

    def weight_multiplier(self):
        return 3.0

    def weigh_objects(self, weighed, _spec):
        self.minval, self.maxval = 0, 100
        return [50 for _ in weighed]


class WeigherBeforeJuno(BaseHostWeigher):
    minval = 0

    def _weight_multiplier(self):
        return 1.5

    def _weigh_object(self, _host, _spec):
        return 50


@pytest.mark.parametrize("kind", [WeigherOfIcehouse, WeigherBeforeJuno])
def test_weighers_of_old_releases_have_one_multiplier_for_all_hosts(kind):
    run = run_weighers([kind()], HOSTS, DEFAULT_SPEC)
    assert list_weighed_hosts(run) == [(name, name, 1.5) for name in ("cn1", "cn2", "cn3")]


class AssigningWeigher(BaseHostWeigher):
    """Adds to the weight of a host that it is given, and weighs nothing."""

    def weigh_objects(self, weighed, _spec):
        for item in weighed:
            if item.obj.host == "cn3":
                item.weight = item.weight * 2 + 5
        return [0.0 for _ in weighed]


def test_weight_that_a_weigher_assigns_to_a_host_counts_as_in_nova():
    hosts = [build_host_state(f"cn{number}", free_ram_mb=number) for number in (1, 2, 3)]
    weighers = [FreeMemoryWeigher(), AssigningWeigher()]
    run = run_weighers(weighers, hosts, DEFAULT_SPEC)
    expected = [("cn3", "cn3", 7.0), ("cn2", "cn2", 0.5), ("cn1", "cn1", 0.0)]
    assert list_weighed_hosts(run) == expected
    report = run.build_host_reports()[0].weights["AssigningWeigher"]
    assert report.detail == "added 6 to the weight of the host itself"
    assert report.as_json()["weighted"] == 6.0
    unchanged = run.build_host_reports()[1].weights["AssigningWeigher"]
    assert (unchanged.detail, unchanged.as_json()["weighted"]) == (None, 0.0)
    weighing = IncrementalWeighing(weighers)
    weighing.weigh(hosts, DEFAULT_SPEC)
    hosts[0].free_ram_mb = 0
    weighing.record_change(hosts[0])
    assert list_weighed_hosts(weighing.weigh(hosts[:1] + hosts[2:], DEFAULT_SPEC)) == [
        ("cn3", "cn3", 7.0),
        ("cn1", "cn1", 0.0),
    ]
