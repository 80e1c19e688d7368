# SPDX-License-Identifier: Apache-2.0
"""Utilities for weighers written for nova."""

import pytest

from placement_sched.scheduler.utils import get_weight_multiplier, parse_options
from tests.support.states import build_aggregates, build_host_state


@pytest.mark.parametrize(
    ("metadata", "multiplier"),
    [
        ([], 1.5),
        ([{"other": "3"}], 1.5),
        ([{"x": "2"}], 2.0),
        ([{"x": "2"}, {"x": "-1"}, {}], -1.0),
        ([{"x": "2"}, {"x": "much"}], 1.5),
    ],
    ids=["no aggregate", "other metadata", "one multiplier", "smallest multiplier", "no number"],
)
def test_weight_multiplier_is_that_of_the_aggregates_or_the_configuration(metadata, multiplier):
    host = build_host_state(aggregates=build_aggregates(*metadata))
    assert get_weight_multiplier(host, "x", 1.5) == multiplier


def test_invalid_name_and_value_pairs_of_an_option_are_logged(caplog):
    options = parse_options(["a=1.5", "b=x", "c", "=2"], converter=float, name="weight_setting")
    assert options == [("a", 1.5)]
    expected = "weight_setting: expected NAME=NUMBER, got"
    assert caplog.messages == [f"{expected} 'b=x'", f"{expected} 'c'", f"{expected} '=2'"]
