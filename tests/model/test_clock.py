# SPDX-License-Identifier: Apache-2.0
"""Durations as text in a readable unit."""

import pytest

from placement_sched.model.clock import format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (93, "93 s"),
        (599, "599 s"),
        (600, "10 minutes"),
        (7200, "2 hours"),
        (2 * 86_400, "2 days"),
        (2_592_000, "30 days"),
        (217_821_404, "7 years"),
    ],
)
def test_duration_is_formatted_in_a_single_unit(seconds, text):
    assert format_duration(seconds) == text
