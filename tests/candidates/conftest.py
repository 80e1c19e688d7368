# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the candidate search."""

from collections.abc import Iterator

import pytest

from tests.candidates.sources import enable_provider_cache
from tests.support.states import ManualClock


@pytest.fixture(params=["cached", "loaded"])
def with_and_without_provider_cache(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run a test with a provider cache, then with providers loaded for each request."""
    if request.param == "loaded":
        yield
        return
    with enable_provider_cache():
        yield


@pytest.fixture
def clock():
    return ManualClock(0.0)
