# SPDX-License-Identifier: Apache-2.0
"""Random requests on each database, with and without provider cache."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.coexistence.conftest import build_peer_url
from tests.differential.placement import CandidatesComparison, RequestComparison
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement
from tests.support.empty_databases import empty_database

pytestmark = [pytest.mark.exhaustive, pytest.mark.all_databases]

RANDOM_SEED, REQUEST_COUNT, QUERY_COUNT = 42, 1200, 120


@pytest.fixture(params=[True, False], ids=["cached", "loaded"])
def comparison(
    request: pytest.FixtureRequest, database_url: str, tmp_path: Path
) -> Iterator[RequestComparison]:
    kind = "postgresql" if database_url.startswith("postgresql") else "sqlite"
    ours = OwnPlacement(database_url, placement__providers_in_memory=request.param)
    with (
        empty_database(kind, tmp_path) as url,
        closing(
            RequestComparison(ours, OpenStackPlacementPeer(url, peer=build_peer_url(url)))
        ) as comparison,
    ):
        yield comparison


def test_random_requests_get_equal_or_explained_responses(comparison: RequestComparison):
    tally = comparison.run_random_cases(RANDOM_SEED, REQUEST_COUNT)
    assert tally.count == REQUEST_COUNT
    assert tally.findings == []


def test_candidates_equal_those_of_the_peer(comparison: RequestComparison):
    tally = CandidatesComparison(comparison.ours, comparison.theirs).run_random_cases(
        RANDOM_SEED, QUERY_COUNT
    )
    assert tally.count == QUERY_COUNT
    assert tally.findings == []
