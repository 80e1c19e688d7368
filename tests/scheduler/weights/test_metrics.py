# SPDX-License-Identifier: Apache-2.0
"""Weigher of metrics, as nova 34 weighs the same hosts."""

import logging

import pytest

from placement_sched.errors import PluginFailed
from placement_sched.model.compute_node import Metric
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.weights.metrics import MetricsWeigher
from tests.scheduler.weights.weighing import find_raw_weights, run_weigher, weigh_hosts
from tests.support.scheduling import make_report, make_spec
from tests.support.states import build_aggregates, build_host_state, read_settings_text

WEIGHTS_OPTION = "metrics__weight_setting"
METRICS_REQUIRED_OPTION = "metrics__required"


def build_host(name, **figures):
    metrics = tuple(
        Metric(name=key.replace("_", "."), value=value) for key, value in figures.items()
    )
    return build_host_state(name, metrics=metrics)


HOSTS = [
    build_host("cn1", cpu_percent=10, cpu_user_percent=4),
    build_host("cn2", cpu_percent=20, cpu_user_percent=8),
    build_host("cn3", cpu_percent=15, cpu_user_percent=40),
]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (["cpu.percent=1"], {"cn1": 10, "cn2": 20, "cn3": 15}),
        (["cpu.percent=-2.5"], {"cn1": -25, "cn2": -50, "cn3": -37.5}),
        (["cpu.percent=1", "cpu.user.percent=-0.5"], {"cn1": 8, "cn2": 16, "cn3": -5}),
        (["cpu.percent=1", "cpu.percent=2"], {"cn1": 30, "cn2": 60, "cn3": 45}),
        (["cpu.percent=1", "cpu.idle.percent", "x=y"], {"cn1": 10, "cn2": 20, "cn3": 15}),
        (["cpu.percent=x", "=1", "cpu.percent=1=2"], {"cn1": 0, "cn2": 0, "cn3": 0}),
        ([], {"cn1": 0, "cn2": 0, "cn3": 0}),
    ],
    ids=[
        "one metric",
        "ratio -2.5",
        "two metrics",
        "named twice",
        "partly invalid",
        "invalid",
        "none",
    ],
)
def test_metrics_weight_is_the_sum_of_metrics_times_their_ratios(setting, expected):
    assert find_raw_weights(MetricsWeigher, HOSTS, **{WEIGHTS_OPTION: setting}) == expected


def test_host_with_the_greatest_metrics_sum_is_best_unless_the_multiplier_is_negative():
    options = {WEIGHTS_OPTION: ["cpu.percent=1"]}
    result = weigh_hosts(MetricsWeigher, HOSTS, **options)
    assert result == [("cn2", 1.0), ("cn3", 0.5), ("cn1", 0.0)]
    result = weigh_hosts(MetricsWeigher, HOSTS, **options, metrics__weight_multiplier=-2.0)
    assert result == [("cn1", 0.0), ("cn3", -1.0), ("cn2", -2.0)]


@pytest.mark.parametrize(
    "host_without_metric",
    [build_host("cn4", cpu_user_percent=1), build_host("cn4"), HostState("cn4", "cn4")],
    ids=["other metric", "no metrics", "no host report"],
)
def test_missing_metric_is_an_error_or_has_the_configured_weight(host_without_metric):
    options = {WEIGHTS_OPTION: ["cpu.percent=1"]}
    with pytest.raises(PluginFailed, match=r"MetricsWeigher failed: host cn4, node cn4 does not"):
        run_weigher(MetricsWeigher, [*HOSTS, host_without_metric], **options)
    result = find_raw_weights(
        MetricsWeigher, [*HOSTS, host_without_metric], **options, **{METRICS_REQUIRED_OPTION: False}
    )
    assert result == {"cn1": 10, "cn2": 20, "cn3": 15, "cn4": -10000}
    options["metrics__weight_of_unavailable"] = 12.5
    options[METRICS_REQUIRED_OPTION] = False
    assert find_raw_weights(MetricsWeigher, [*HOSTS, host_without_metric], **options)["cn4"] == 12.5


@pytest.mark.parametrize(
    ("setting", "multiplier", "expected"),
    [
        (["cpu.percent=2", "cpu.user.percent=0"], 1.0, 10.0),
        (["cpu.user.percent=0"], 1.0, 0.0),
        (["cpu.percent=2", "cpu.user.percent=0", "cpu.idle.percent=1"], 1.0, -10000.0),
        (["cpu.user.percent=0", "cpu.user.percent=1"], 1.0, -10000.0),
        (["cpu.percent=2", "cpu.user.percent=1"], 0.0, 10.0),
    ],
    ids=["ratio 0", "only ratio 0", "missing metric with ratio 1", "named twice", "multiplier 0"],
)
def test_missing_metric_with_ratio_0_is_ignored(setting, multiplier, expected):
    result = build_aggregates({"metrics_weight_multiplier": str(multiplier)})
    host_without_metric = build_host_state(
        "cn4", metrics=(Metric(name="cpu.percent", value=5),), aggregates=result
    )
    options = {WEIGHTS_OPTION: setting, METRICS_REQUIRED_OPTION: False}
    weight = find_raw_weights(MetricsWeigher, [*HOSTS, host_without_metric], **options)["cn4"]
    assert weight == expected
    with pytest.raises(PluginFailed, match=r"does not report cpu"):
        run_weigher(MetricsWeigher, [*HOSTS, host_without_metric], **{WEIGHTS_OPTION: setting})


@pytest.mark.parametrize("required", [True, False])
def test_metric_by_numa_node_is_an_error_as_in_nova(required):
    by_node = Metric(name="numa.membw.current", numa_membw_values={"0": 10, "1": 43})
    hosts = [build_host_state(name, metrics=(by_node,)) for name in ("cn4", "cn5")]
    for ratio in ("1", "0"):
        options = {
            WEIGHTS_OPTION: [f"numa.membw.current={ratio}"],
            METRICS_REQUIRED_OPTION: required,
        }
        with pytest.raises(PluginFailed, match=r"cn4 reports numa\.membw\.current by NUMA node"):
            run_weigher(MetricsWeigher, hosts, **options)
    # A metric before it in the setting that is missing decides first.
    setting = {
        WEIGHTS_OPTION: ["cpu.percent=1", "numa.membw.current=1"],
        METRICS_REQUIRED_OPTION: False,
    }
    assert find_raw_weights(MetricsWeigher, hosts, **setting)["cn4"] == -10000.0


def test_last_value_of_a_metric_counts_and_ignored_settings_are_logged(caplog):
    metrics = tuple(Metric(name="cpu.percent", value=value) for value in (50, 30))
    hosts = [*HOSTS, build_host_state("cn4", metrics=metrics)]
    with caplog.at_level(logging.WARNING):
        weights = find_raw_weights(
            MetricsWeigher, hosts, **{WEIGHTS_OPTION: ["cpu.percent=1", "much"]}
        )
    assert weights["cn4"] == 30
    assert "ignored: much" in caplog.text


def test_metrics_multiplier_of_an_aggregate_has_its_own_key():
    result = {"metrics_weight_multiplier": "3", "weight_multiplier": "-7"}
    plugin = MetricsWeigher()
    assert plugin.weight_multiplier(build_host_state(aggregates=build_aggregates(result))) == 3.0
    assert (
        plugin.weight_multiplier(
            build_host_state(aggregates=build_aggregates({"weight_multiplier": "9"}))
        )
        == 1
    )


def report_hosts(app):
    """Report three hosts: a large busy host, a small idle host, and a host without metrics."""
    busy, idle = ([{"name": "cpu.idle.percent", "value": value}] for value in (10, 90))
    reports = [
        make_report("cn1", metrics=busy),
        make_report("cn2", metrics=idle, memory_mb=8192),
        make_report("cn3", memory_mb=4096),
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    return app


@pytest.fixture(scope="module")
def cloud(make_shared_app):
    return report_hosts(make_shared_app())


def explain_metrics(app, status=200, **overrides):
    body = {
        "request_spec": make_spec(),
        "overrides": {"metrics.weight_multiplier": 9.0, **overrides},
    }
    return app.post_json("/scheduler/v1/explain", body, status=status).json


def test_metrics_weigher_and_filter_use_reported_metrics(cloud):
    setting = {"metrics.weight_setting": ["cpu.idle.percent=1.0"]}
    lenient = {"metrics.required": False, "metrics.weight_of_unavailable": 0.0}
    result = explain_metrics(cloud, **setting, **lenient)
    assert [entry["host"] for entry in result["hosts"]] == ["cn2", "cn1", "cn3"]
    assert {"name": "MetricsWeigher", "multiplier": 9.0} in result["funnel"]["weighers"]
    enabled = {"filter_scheduler.enabled_filters": ["MetricsFilter"]}
    result = explain_metrics(cloud, **setting, **enabled)
    assert [item["host"] for item in result["hosts"]] == ["cn2", "cn1"]
    assert [host["host"] for host in explain_metrics(cloud)["hosts"]] == ["cn1", "cn2", "cn3"]


IDLE_PERCENT_SETTING = "cpu.idle.percent=1.0"
MISSING_METRIC = "host cn3, node cn3 does not report cpu.idle.percent"


@pytest.mark.parametrize(
    "overrides",
    [
        {"metrics.weight_setting": [IDLE_PERCENT_SETTING]},
        {"metrics.weight_setting": IDLE_PERCENT_SETTING, "metrics.required": True},
    ],
)
def test_missing_metric_of_an_override_is_400(cloud, caplog, overrides):
    (error,) = explain_metrics(cloud, 400, **overrides)["errors"]
    assert error["detail"].startswith(f"overrides: metrics.weight_setting: {MISSING_METRIC}, ")
    assert "Traceback" not in caplog.text
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_infinite_weight_of_an_override_is_400(cloud):
    setting = {"metrics.weight_setting": ["cpu.idle.percent=1e308"], "metrics.required": False}
    (error,) = explain_metrics(cloud, 400, **setting)["errors"]
    assert "host cn1, node cn1 has no finite weight" in error["detail"]


@pytest.fixture
def cloud_with_metrics(sqlite_url, make_app, monkeypatch, tmp_path):
    """The same hosts with a configured metric that cn3 does not report."""
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", sqlite_url)
    filters = "[filter_scheduler]\nenabled_filters = ComputeFilter\n"
    settings = read_settings_text(
        tmp_path, f"[metrics]\nweight_setting = {IDLE_PERCENT_SETTING}\n{filters}"
    )
    return report_hosts(make_app(settings))


def test_missing_configured_metric_is_500_and_logged_as_one_error(cloud_with_metrics, caplog):
    (error,) = explain_metrics(cloud_with_metrics, 500)["errors"]
    assert error["code"] == "scheduler.filter_error"
    assert f"MetricsWeigher failed: {MISSING_METRIC}" in error["detail"]
    (logged,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert MISSING_METRIC in logged.getMessage()
    assert "Traceback" not in caplog.text


def test_override_without_the_metrics_filter_is_400(cloud_with_metrics):
    explain_metrics(cloud_with_metrics, **{"filter_scheduler.enabled_filters": ["MetricsFilter"]})
    result = explain_metrics(
        cloud_with_metrics, 400, **{"filter_scheduler.enabled_filters": ["ComputeFilter"]}
    )
    (error,) = result["errors"]
    assert error["detail"].startswith(
        f"overrides: filter_scheduler.enabled_filters: {MISSING_METRIC}, "
    )
