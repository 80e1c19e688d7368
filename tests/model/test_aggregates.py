# SPDX-License-Identifier: Apache-2.0
"""Zones as requests and aggregates name them."""

import pytest

from placement_sched.model.aggregates import zones


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
def test_zones_are_separated_by_commas(text, named):
    assert zones(text) == named
