# SPDX-License-Identifier: Apache-2.0
"""The scheduler's responses on random clouds, compared with the reference search."""

from collections.abc import Callable

import pytest

from tests.checker.api import Api
from tests.checker.cloud import CLOUD_LAYOUTS
from tests.checker.comparisons import REQUESTS_PER_CLOUD, ComparedResponse, compare_responses
from tests.conftest import make_settings


@pytest.fixture
def api(sqlite_url: str, make_app: Callable) -> Api:
    options = {"scheduler__enable_isolated_aggregate_filtering": True}
    client = make_app(make_settings(sqlite_url, **options))

    def send_request(
        method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, bytes]:
        response = client.request(
            path, method=method, headers=headers, body=body, expect_errors=True
        )
        return response.status_int, response.body

    return Api(send_request)


def _find_false_responses(
    api: Api, seeds: range, layout: str, requests: int
) -> list[ComparedResponse]:
    comparisons = [
        row for seed in seeds for row in compare_responses(api, seed, layout, requests=requests)
    ]
    assert {comparison.kind for comparison in comparisons} > {"verdict", "value", "capacity"}
    return [comparison for comparison in comparisons if not comparison.is_true]


@pytest.mark.slow
@pytest.mark.parametrize("layout", CLOUD_LAYOUTS)
def test_scheduler_responses_are_true_in_a_random_cloud(api: Api, layout: str):
    assert _find_false_responses(api, range(1, 2), layout, requests=1) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", CLOUD_LAYOUTS)
def test_scheduler_responses_are_true_in_many_random_clouds(api: Api, layout: str):
    """More than 2 000 comparisons of values of rejections."""
    assert _find_false_responses(api, range(1, 15), layout, requests=REQUESTS_PER_CLOUD) == []
