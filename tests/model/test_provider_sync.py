# SPDX-License-Identifier: Apache-2.0
"""The result code of several problems of a synchronisation."""

import pytest

from placement_sched.model.aggregates import SyncCode, SyncProblem, most_severe


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
def test_exit_code_is_that_of_the_most_severe_problem(codes, expected):
    assert most_severe(SyncProblem(SyncCode(code), "", "") for code in codes) == expected
