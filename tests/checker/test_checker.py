# SPDX-License-Identifier: Apache-2.0
"""The scheduler's answers on random clouds, compared with an independent model."""

from collections.abc import Callable

import pytest

from tests.checker.api import Api
from tests.checker.cloud import LAYOUTS
from tests.checker.comparisons import REQUESTS, Comparison, compare
from tests.conftest import make_settings


@pytest.fixture
def api(sqlite_url: str, make_app: Callable) -> Api:
    options = {"scheduler__enable_isolated_aggregate_filtering": True}
    client = make_app(make_settings(sqlite_url, **options), in_memory=True)

    def send(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        answer = client.request(path, method=method, headers=headers, body=body, expect_errors=True)
        return answer.status_int, answer.body

    return Api(send)


def _false_comparisons(api: Api, seeds: range, layout: str, requests: int) -> list[Comparison]:
    comparisons = [row for seed in seeds for row in compare(api, seed, layout, requests=requests)]
    assert {comparison.kind for comparison in comparisons} > {"verdict", "reason", "capacity"}
    return [comparison for comparison in comparisons if not comparison.is_true]


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUTS)
def test_comparisons_find_no_false_answer(api: Api, layout: str):
    assert _false_comparisons(api, range(1, 2), layout, requests=1) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("layout", LAYOUTS)
def test_answers_are_correct_in_many_clouds(api: Api, layout: str):
    """More than 2 000 comparisons."""
    assert _false_comparisons(api, range(1, 15), layout, requests=REQUESTS) == []
