# SPDX-License-Identifier: Apache-2.0
"""Alerts and dashboard of Prometheus and Grafana."""

import json
from collections.abc import Iterator

import yaml

from tests.deploy import DEPLOY_FOLDER

PROMETHEUS_FOLDER = DEPLOY_FOLDER / "prometheus"
GRAFANA_DASHBOARD = json.loads((DEPLOY_FOLDER / "grafana/placement-sched.json").read_text())
ALERT_RULES = yaml.safe_load((PROMETHEUS_FOLDER / "rules.yml").read_text())["groups"][0]["rules"]


def read_dashboard_queries() -> Iterator[tuple[str, str, str]]:
    """Yield panel, expression and legend of every query of the dashboard."""
    for panel in GRAFANA_DASHBOARD["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target["expr"], target["legendFormat"]
