# SPDX-License-Identifier: Apache-2.0
"""Zones as requests and aggregates name them.

The result code of several problems of a synchronisation.
"""

import pytest

from placement_sched.model.aggregates import SyncCode, SyncProblem, find_most_severe, parse_zones


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (None, set()),
        ("", set()),
        (" , ", set()),
        ("az1", {"az1"}),
        ("az1, az2,", {"az1", "az2"}),
        ("AZ1,az1", {"AZ1", "az1"}),
    ],
)
def test_availability_zones_are_separated_by_commas(text, named):
    assert parse_zones(text) == named


@pytest.mark.parametrize(
    ("codes", "expected"),
    [
        ([], 0),
        ([4], 4),
        ([4, 5], 5),
        ([4, 5, 6], 6),
        ([6, 7], 7),
        ([3, 7], 3),
        ([1, 3], 1),
        ([2, 1], 2),
    ],
)
def test_exit_code_of_a_sync_is_that_of_the_most_severe_problem(codes, expected):
    assert find_most_severe(SyncProblem(SyncCode(code), "", "") for code in codes) == expected
