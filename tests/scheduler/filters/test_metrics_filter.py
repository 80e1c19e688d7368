# SPDX-License-Identifier: Apache-2.0
"""MetricsFilter, as nova 34 decides the same cases."""

import logging

import pytest

from placement_sched.model.compute_node import Metric
from placement_sched.scheduler.filters.metrics_filter import MetricsFilter
from placement_sched.scheduler.host_state import HostState
from tests.support.states import a_host, a_spec, settings_with


def refusal(setting, *names):
    settings = settings_with(metrics__weight_setting=setting)
    plugin = MetricsFilter.with_settings(settings)
    host = a_host(metrics=tuple(Metric(name=name, value=1) for name in names))
    found = plugin.refusal(host, a_spec())
    assert plugin.host_passes(host, a_spec()) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    ("setting", "names"),
    [
        ([], []),
        ([], ["cpu.percent"]),
        (["cpu.percent=1.0"], ["cpu.percent"]),
        (["cpu.percent=0"], ["cpu.percent"]),
        (["cpu.percent=1.0"], ["cpu.user.time", "cpu.percent"]),
        (["a=1", "b=-1"], ["b", "a"]),
    ],
)
def test_host_that_reports_every_metric_passes(setting, names):
    assert refusal(setting, *names) is None


@pytest.mark.parametrize(
    ("setting", "names", "missing"),
    [
        (["cpu.percent=1.0"], [], "cpu.percent"),
        (["cpu.percent=1.0"], ["cpu.percents"], "cpu.percent"),
        (["b=1", "a=1", "c=1"], ["a"], "b, c"),
        (["a=1", "a=2"], [], "a"),
    ],
)
def test_host_that_lacks_a_metric_is_refused_with_its_name(setting, names, missing):
    assert refusal(setting, *names) == f"metrics not reported: {missing}"


def test_metric_by_numa_node_is_reported_as_well():
    settings = settings_with(metrics__weight_setting=["numa.membw.max=1"])
    plugin = MetricsFilter.with_settings(settings)
    by_node = Metric(name="numa.membw.max", numa_membw_values={"0": 10})
    assert plugin.host_passes(a_host(metrics=(by_node,)), a_spec())


def test_element_that_is_no_setting_is_logged_and_asks_for_nothing(caplog):
    with caplog.at_level(logging.WARNING):
        assert refusal(["a", "b=x"]) is None
    assert "ignored: a, b=x" in caplog.text


def test_host_of_which_nothing_is_known_reports_none():
    plugin = MetricsFilter.with_settings(settings_with(metrics__weight_setting=["a=1"]))
    host = HostState("cn1", "cn1")
    assert plugin.refusal(host, a_spec()).reason == "metrics not reported: a"


def test_reason_and_change_name_the_first_of_many_metrics():
    names = [f"m{number}" for number in range(30)]
    settings = settings_with(metrics__weight_setting=[f"{name}=1" for name in names])
    plugin = MetricsFilter.with_settings(settings)
    first = f"{', '.join(names[:10])} and 20 more"
    assert plugin.refusal(a_host(), a_spec()).reason == f"metrics not reported: {first}"
    (change,) = plugin.changes(a_host(), a_spec())
    assert change.words == f"make the host report {first}"
    assert change.values == {"metrics": names[:20], "more": 10}
