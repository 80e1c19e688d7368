# SPDX-License-Identifier: Apache-2.0
"""Number and choice of the random examples of a run.

The suite draws few examples, and CI draws the same examples each time. ``make test-only
WHAT=explore`` draws many more examples from a seed that pytest prints.
"""

import os
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test
from hypothesis import settings as hypothesis_settings

#: The environment variable that names the profile.
PROFILE_VARIABLE = "HYPOTHESIS_PROFILE"
IS_EXPLORING = os.environ.get(PROFILE_VARIABLE) == "explore"
#: Number of examples of a property test without its own number: the default of hypothesis.
_DEFAULT_EXAMPLE_COUNT = 100
#: Number of examples of the profile "explore", as a multiple of the suite's number.
EXPLORE_EXAMPLE_FACTOR = 5
#: Share of the examples in the lanes for changes (tests/lanes.py).
EXAMPLE_SHARE_BY_LANE = {"fast": 0.1, "slow": 0.2, "test": 0.2, "system": 0.2}
#: An example may take long on a busy machine.
_NO_DEADLINE_SETTINGS: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
}


def load_hypothesis_profile(lane: str | None = None) -> None:
    """Load the profile that the environment names, before tests are imported."""
    share = EXPLORE_EXAMPLE_FACTOR if IS_EXPLORING else EXAMPLE_SHARE_BY_LANE.get(lane or "", 1)
    options = {**_NO_DEADLINE_SETTINGS, "max_examples": round(_DEFAULT_EXAMPLE_COUNT * share)}
    hypothesis_settings.register_profile("ci", **options, derandomize=True)
    # hypothesis itself fixes every choice if the variable CI is set.
    hypothesis_settings.register_profile("here", **options, derandomize=False)
    # Only the seed determines the examples, so no example is stored.
    hypothesis_settings.register_profile(
        "explore", **options, derandomize=False, database=None, print_blob=True
    )
    default = "ci" if lane == "fast" else "here"
    hypothesis_settings.load_profile(os.environ.get(PROFILE_VARIABLE) or default)


def pytest_configure(config: pytest.Config) -> None:
    """Set the number of examples of the lane before test modules are imported."""
    load_hypothesis_profile(config.getoption("--lane", default=None))
    if IS_EXPLORING:
        SeededRandom.seed = config.getoption("--hypothesis-seed")


def scale_example_count(examples: int) -> int:
    """Return the number of examples in this run, for ``examples`` without a lane."""
    return max(1, round(examples * hypothesis_settings().max_examples / _DEFAULT_EXAMPLE_COUNT))


load_hypothesis_profile()


class SeededRandom:
    """Random numbers of tests without hypothesis."""

    #: The seed of an exploring run. Otherwise a test always has the same numbers.
    seed: str | None = None

    @classmethod
    def numbered(cls, number: int) -> Random:
        """Return random numbers. ``number`` distinguishes the uses within a test."""
        return Random(number) if cls.seed is None else Random(f"{cls.seed}/{number}")


@pytest.hookimpl(tryfirst=True)  # before tests are selected by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the property tests."""
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("property")
