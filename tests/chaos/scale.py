# SPDX-License-Identifier: Apache-2.0
"""How much the chaos tests try: a short form with pytest, or all of it."""

import os

#: Set by ``make test-only WHAT=chaos``.
SCALE = "PLACEMENT_SCHED_CHAOS"
WHOLE = os.environ.get(SCALE) == "whole"
#: The name of the property under which a test says how much it tried.
TRIED = "tried"


def choose_count(short: int, whole: int) -> int:
    """Return how often something is tried in this run."""
    return whole if WHOLE else short
