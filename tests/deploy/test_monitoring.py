# SPDX-License-Identifier: Apache-2.0
"""Queries of alerts and dashboard use metrics, labels and values of ``/metrics``."""

import re

import pytest
import yaml

from placement_sched.api.metrics import Metrics
from placement_sched.model.figures import CloudFigures
from placement_sched.nova.monitoring import WaitingRequests
from placement_sched.operations.gauges import CloudGauges
from tests.deploy import DEPLOY_FOLDER, find_program, run_program
from tests.deploy.monitoring import (
    ALERT_AND_DASHBOARD_QUERIES,
    ALERT_RULES,
    CORE_QUERIES,
    GRAFANA_DASHBOARD,
    METRIC_WITH_LABELS,
    PROMETHEUS_FOLDER,
    check_query,
)
from tests.support.repository import ROOT

pytestmark = pytest.mark.slow

#: Metrics of the database or the cloud, which are the same on every server.
CLOUD_METRICS = (
    *("placement_sched_hosts", "placement_sched_resources_", "placement_sched_scheduler_capacity"),
    *("placement_sched_rpc_waiting", "placement_sched_nova_left_out"),
    "placement_sched_scheduler_failover",
)
_MAX_OR_MIN_PATTERN = re.compile(r"\b(?:max|min)(?: by \(\w+\))? ?\(\s*(?:predict_linear\()?$")


@pytest.fixture(scope="module")
def labels_by_metric() -> dict[str, set[str]]:
    """The labels of each metric by its name, from the registries of ``/metrics``."""
    registered = Metrics()._registry._collector_to_names
    labels = {f"{metric._name}": set(metric._labelnames) for metric in registered}
    cloud = CloudGauges(lambda: CloudFigures({}, {}, {}), None).collect()
    waiting = WaitingRequests(lambda: 0).collect()
    gauges = (*cloud, *waiting)
    labels |= {gauge.name: set(gauge._labelnames) for gauge in gauges}
    return labels


@pytest.mark.parametrize(
    ("title", "expression", "legend"), CORE_QUERIES, ids=[query[0] for query in CORE_QUERIES]
)
def test_dashboard_query_uses_existing_metrics_labels_and_routes(
    labels_by_metric, title, expression, legend
):
    check_query(labels_by_metric, expression, legend)


METRICS_PAGE = (ROOT / "doc/source/metrics.rst").read_text()


def test_cloud_wide_metrics_are_not_summed_over_servers():
    """All servers of a database report the same hosts. A sum would count each host twice."""
    for expression in [*(query[1] for query in ALERT_AND_DASHBOARD_QUERIES), METRICS_PAGE]:
        for metric in METRIC_WITH_LABELS.finditer(expression):
            if metric[1].startswith(CLOUD_METRICS):
                before = expression[: metric.start()]
                assert _MAX_OR_MIN_PATTERN.search(before), before[-40:]


def test_alert_rules_have_exactly_the_required_alerts():
    assert {rule["alert"].removeprefix("PlacementSched") for rule in ALERT_RULES} == {
        *("Down", "Errors", "FailoverCapacity", "FailoverUndetermined", "HostsDown", "LostClaims"),
        *("NoValidHost", "NoValidHostAtAnyStage"),
        *("PoolExhausted", "RpcFails", "RpcSlow", "RpcWaits", "Slow"),
    }


def test_configurations_of_prometheus_are_valid():
    promtool = find_program("promtool", "prometheus")
    assert "SUCCESS" in run_program(
        promtool, "check", "config", PROMETHEUS_FOLDER / "prometheus.yml"
    )
    # The file has the rules' path in the container of the compose file.
    composed = ("--syntax-only", DEPLOY_FOLDER / "compose" / "prometheus.yml")
    assert "SUCCESS" in run_program(promtool, "check", "config", *composed)


def test_every_alert_has_promtool_cases_with_and_without_firing():
    case_without_alerts, case_with_alerts, *_ = yaml.safe_load(
        (PROMETHEUS_FOLDER / "rules_test.yml").read_text()
    )["tests"]
    alerts = {rule["alert"] for rule in ALERT_RULES}
    for test, fires in ((case_without_alerts, False), (case_with_alerts, True)):
        cases = {case["alertname"]: bool(case["exp_alerts"]) for case in test["alert_rule_test"]}
        assert cases == dict.fromkeys(alerts, fires)


def test_dashboard_panels_have_unique_ids_and_do_not_overlap():
    numbers = [panel["id"] for panel in GRAFANA_DASHBOARD["panels"]]
    assert len(numbers) == len(set(numbers))
    occupied: set[tuple[int, int]] = set()
    for panel in GRAFANA_DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & occupied, panel["title"]
        assert max(x for x, _ in cells) < 24
        occupied |= cells
