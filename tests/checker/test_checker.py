# SPDX-License-Identifier: Apache-2.0
"""The scheduler's answers on random clouds, compared with an independent model."""

from collections.abc import Callable

import pytest

from tests.checker.api import Api
from tests.checker.cloud import LAYOUTS
from tests.checker.comparisons import PARTS, Comparison, compare
from tests.conftest import make_settings

#: Seeds of ``make test``, and of ``make test-all``: more than 2 000 comparisons.
FEW_SEEDS = range(1, 2)
MANY_SEEDS = range(1, 15)


CASES = [(layout, part) for layout in LAYOUTS for part in PARTS]


@pytest.fixture
def api(sqlite_url: str, make_app: Callable) -> Api:
    options = {"scheduler__enable_isolated_aggregate_filtering": True}
    client = make_app(make_settings(sqlite_url, **options), in_memory=True)

    def send(method: str, path: str, headers: dict[str, str], body: bytes) -> tuple[int, bytes]:
        answer = client.request(path, method=method, headers=headers, body=body, expect_errors=True)
        return answer.status_int, answer.body

    return Api(send)


def _false_comparisons(api: Api, seeds: range, layout: str, part: str) -> list[Comparison]:
    comparisons = [item for seed in seeds for item in compare(api, seed, layout, [part])]
    assert comparisons
    return [comparison for comparison in comparisons if not comparison.is_true]


@pytest.mark.slow
@pytest.mark.parametrize(("layout", "part"), CASES)
def test_comparisons_find_no_false_answer(api: Api, layout: str, part: str):
    assert _false_comparisons(api, FEW_SEEDS, layout, part) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize(("layout", "part"), CASES)
def test_answers_are_correct_in_many_clouds(api: Api, layout: str, part: str):
    assert _false_comparisons(api, MANY_SEEDS, layout, part) == []
