# SPDX-License-Identifier: Apache-2.0
"""Length of the chaos tests: short in pytest, full in a chaos run."""

import os

#: Set by ``make test-only WHAT=chaos``.
RUN_LENGTH_VARIABLE = "PLACEMENT_SCHED_CHAOS"
IS_FULL_RUN = os.environ.get(RUN_LENGTH_VARIABLE) == "whole"
#: Name of the property with a test's number of attempts.
TRIED_KEY = "tried"


def choose_count(short: int, whole: int) -> int:
    """Return the number for the length of this run."""
    return whole if IS_FULL_RUN else short
