# SPDX-License-Identifier: Apache-2.0
"""Host filter by reported metrics, as nova 34 decides."""

import logging

import pytest

from placement_sched.model.compute_node import Metric
from placement_sched.model.rejection import Rejection
from placement_sched.scheduler.filters.metrics_filter import MetricsFilter
from placement_sched.scheduler.host_state import HostState
from tests.support.states import build_host_state, build_settings, build_spec, find_rejection


def find_filter_rejection(setting, *names):
    settings = build_settings(metrics__weight_setting=setting)
    plugin = MetricsFilter.with_settings(settings)
    host = build_host_state(metrics=tuple(Metric(name=name, value=1) for name in names))
    return find_rejection(plugin, host, build_spec())


@pytest.mark.parametrize(
    ("setting", "names", "missing"),
    [
        ([], [], None),
        ([], ["cpu.percent"], None),
        (["cpu.percent=1.0"], ["cpu.percent"], None),
        (["cpu.percent=0"], ["cpu.percent"], None),
        (["cpu.percent=1.0"], ["cpu.user.time", "cpu.percent"], None),
        (["a=1", "b=-1"], ["b", "a"], None),
        (["cpu.percent=1.0"], [], "cpu.percent"),
        (["cpu.percent=1.0"], ["cpu.percents"], "cpu.percent"),
        (["b=1", "a=1", "c=1"], ["a"], "b, c"),
        (["a=1", "a=2"], [], "a"),
    ],
)
def test_host_without_a_metric_is_rejected_with_its_name(setting, names, missing):
    assert find_filter_rejection(setting, *names) == (
        missing and f"metrics not reported: {missing}"
    )


def test_host_with_a_metric_by_numa_node_passes_but_host_without_metrics_does_not():
    plugin = MetricsFilter.with_settings(
        build_settings(metrics__weight_setting=["numa.membw.max=1"])
    )
    by_node = Metric(name="numa.membw.max", numa_membw_values={"0": 10})
    assert plugin.host_passes(build_host_state(metrics=(by_node,)), build_spec())
    rejection = plugin.rejection(HostState("cn1", "cn1"), build_spec())
    assert rejection == Rejection(kind="missing_metrics", values={"metrics": ["numa.membw.max"]})


def test_invalid_element_of_weight_setting_is_ignored_and_logged(caplog):
    with caplog.at_level(logging.WARNING):
        assert find_filter_rejection(["a", "b=x"]) is None
    assert "ignored: a, b=x" in caplog.text
