# SPDX-License-Identifier: Apache-2.0
"""Verdicts of measured values, and percentiles."""

import pytest
from harness import Finding, Target, build_target_table, percentile

pytestmark = pytest.mark.slow


def test_measured_value_that_misses_its_target_is_marked():
    most = Target(50, " ms", is_maximum=True)
    values = [(Target(50), 49.9), (Target(50), 50), (most, 50.1), (most, 50)]
    findings = [Finding("a query", value, target) for target, value in values]
    findings.append(Finding("a query", 1000, Target(50), applies=False))
    rows = build_target_table(findings, "postgresql").splitlines()[2:]
    verdicts = [row.split(" | ")[3] for row in rows]
    assert verdicts == ["MISSED", "kept", "MISSED", "kept", "other size"]
    assert rows[2].startswith("| a query | ≤ 50 ms | 50.1 ms |")
    assert "| no target |" in build_target_table(findings[:1], "sqlite")


def test_percentile_is_a_measured_value_or_zero():
    for values, share, expected in (
        *(([], 0.5, 0), ([7], 0.99, 7), ([1, 2, 3], 0.5, 2), (list(range(101)), 0.99, 99)),
    ):
        assert percentile(values, share) == expected
