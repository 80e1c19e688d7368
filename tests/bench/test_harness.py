# SPDX-License-Identifier: Apache-2.0
"""Verdicts of measured values, and percentiles."""

import pytest
from harness import Finding, Target, at_most, percentile

pytestmark = pytest.mark.slow


def test_value_is_classified_by_target_and_limit():
    for target, value, verdict in (
        (Target(50, 120), 49.9, "MISSED"),
        (Target(50, 120), 50, "kept"),
        (Target(50, 120), 120, "aim"),
        (at_most(50, 10, " ms"), 50.1, "MISSED"),
        (at_most(50, 10, " ms"), 50, "kept"),
        (at_most(50, 10, " ms"), 10, "aim"),
        (at_most(1.5), 1.5, "aim"),
    ):
        assert Finding("a query", value, target).verdict == verdict, (target, value)
    target = Target(50, 120)
    assert Finding("a query", 1000, target, applies=False).verdict == "other size"
    assert Finding("a query", 1000, target, promised=False).verdict == "no target"


def test_percentiles_of_few_values_are_among_them():
    for values, share, expected in (
        *(([], 0.5, 0), ([7], 0.99, 7), ([1, 2, 3], 0.5, 2), (list(range(101)), 0.99, 99)),
    ):
        assert percentile(values, share) == expected
