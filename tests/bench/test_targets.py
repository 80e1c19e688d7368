# SPDX-License-Identifier: Apache-2.0
"""Verdicts of measured values."""

import pytest
from harness import Finding, Target, at_most

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("target", "figure", "verdict"),
    [
        (Target(50, 120), 49.9, "MISSED"),
        (Target(50, 120), 50, "kept"),
        (Target(50, 120), 120, "aim"),
        (at_most(50, 10, " ms"), 50.1, "MISSED"),
        (at_most(50, 10, " ms"), 50, "kept"),
        (at_most(50, 10, " ms"), 10, "aim"),
        (at_most(1.5), 1.5, "aim"),
    ],
)
def test_value_is_classified_by_target_and_limit(target, figure, verdict):
    assert Finding("a query", figure, target).verdict == verdict


def test_value_of_another_size_meets_no_target():
    assert Finding("a query", 1000, Target(50, 120), applies=False).verdict == "other size"


def test_value_of_a_database_without_targets_meets_none():
    assert Finding("a query", 1000, Target(50, 120), promised=False).verdict == "no target"
