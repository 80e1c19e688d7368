# SPDX-License-Identifier: Apache-2.0
"""Queries of alerts and dashboard use gauges of the extension."""

import pytest

from placement_sched.extensions.what_if.capacity.figures import CapacityFigures
from placement_sched.extensions.what_if.gauges import build_capacity_gauges, build_failover_gauges
from placement_sched.model.figures import FailoverResult
from tests.deploy.monitoring import EXTENSION_QUERIES, check_query

#: A failover result without hosts.
EMPTY_RESULT = {"computed_at": "2026-01-01T00:00:00", "remaining": []}
EMPTY_RESULT |= {"covered": 0, "uncovered": 0, "undetermined": 0}


@pytest.mark.parametrize(
    ("title", "expression", "legend"),
    EXTENSION_QUERIES,
    ids=[query[0] for query in EXTENSION_QUERIES],
)
def test_query_uses_existing_metrics_and_labels(title, expression, legend):
    gauges = (
        *build_capacity_gauges(CapacityFigures(0.0, {}), ()),
        *build_failover_gauges(FailoverResult.from_report(EMPTY_RESULT), 0.0),
    )
    labels = {gauge.name: set(gauge._labelnames) for gauge in gauges}
    check_query(labels, expression, legend)
