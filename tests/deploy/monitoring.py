# SPDX-License-Identifier: Apache-2.0
"""Alerts and dashboard of Prometheus and Grafana."""

import json
import re
from collections.abc import Iterator

import yaml

from placement_sched.app import APIS
from tests.deploy import DEPLOY_FOLDER
from tests.support.repository import ROOT

PROMETHEUS_FOLDER = DEPLOY_FOLDER / "prometheus"
GRAFANA_DASHBOARD = json.loads((DEPLOY_FOLDER / "grafana/placement-sched.json").read_text())
ALERT_RULES = yaml.safe_load((PROMETHEUS_FOLDER / "rules.yml").read_text())["groups"][0]["rules"]

METRICS_REFERENCE = (ROOT / "api-ref/source/metrics.rst").read_text()
ROUTE_PATHS = {route.path for api in APIS for route in api.routes}
#: Labels that Prometheus or the format of histograms adds.
PROMETHEUS_LABELS = {"job", "instance", "le"}
_METRIC_SUFFIXES = ("_total", "_bucket", "_count", "_sum")
METRIC_WITH_LABELS = re.compile(r"(placement_sched_\w+)(?:\{([^}]*)\})?")


def read_dashboard_queries() -> Iterator[tuple[str, str, str]]:
    """Yield panel, expression and legend of every query of the dashboard."""
    for panel in GRAFANA_DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]


ALERT_AND_DASHBOARD_QUERIES = [
    *((rule["alert"], rule["expr"], str(rule["annotations"])) for rule in ALERT_RULES),
    *read_dashboard_queries(),
]
#: Prefixes of the metrics of extensions, whose tests check the queries.
EXTENSION_METRICS = ("placement_sched_scheduler_capacity", "placement_sched_scheduler_failover")
CORE_QUERIES, EXTENSION_QUERIES = [], []
for query in ALERT_AND_DASHBOARD_QUERIES:
    is_core = not any(prefix in query[1] for prefix in EXTENSION_METRICS)
    (CORE_QUERIES if is_core else EXTENSION_QUERIES).append(query)


def _find_base_metric_name(name: str, labels_by_metric: dict[str, set[str]]) -> str:
    if name in labels_by_metric:
        return name
    bases = (name.removesuffix(suffix) for suffix in _METRIC_SUFFIXES)
    return next((base for base in bases if base in labels_by_metric), name)


def check_query(labels_by_metric: dict[str, set[str]], expression: str, legend: str) -> None:
    """Check that a query uses existing metrics, labels, values and routes."""
    names = {
        _find_base_metric_name(name, labels_by_metric)
        for name, _ in METRIC_WITH_LABELS.findall(expression)
    }
    assert names <= set(labels_by_metric)
    for name, selector in METRIC_WITH_LABELS.findall(expression):
        labels = set(re.findall(r"(\w+)\s*(?:=~|!=|!~|=)", selector))
        assert (
            labels
            <= labels_by_metric[_find_base_metric_name(name, labels_by_metric)] | PROMETHEUS_LABELS
        ), name
    all_labels = set.union(PROMETHEUS_LABELS, *(labels_by_metric[name] for name in names))
    grouped = re.findall(r"(?:by|without|on|group_left)\s*\(([^)]*)\)", expression)
    assert set(re.findall(r"\w+", " ".join(grouped))) <= all_labels
    assert set(re.findall(r"\{\{\s*\$labels\.(\w+)|\{\{(\w+)\}\}", legend)) <= {
        *((label, "") for label in all_labels),
        *(("", label) for label in all_labels),
    }
    for name, _, values in re.findall(r'(\w+)(=~|!=|=)"([^"]*)"', expression):
        if name in {"state", "outcome", "answered_by", "kind", "stage"}:
            assert all(f"``{value}``" in METRICS_REFERENCE for value in values.split("|"))
    for route in re.findall(r'route=~?"([^"]*)"', expression):
        assert set(route.split("|")) <= ROUTE_PATHS
