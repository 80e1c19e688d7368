# SPDX-License-Identifier: Apache-2.0
"""Both services on empty SQLite databases (with the virtual environment of the peers)."""

import pytest

from tests.differential.comparison import Comparison, comparison_fixtures
from tests.differential.placement import CandidatesComparison, RequestComparison
from tests.differential.sides import Ours, Peer

comparison, ours, theirs = comparison_fixtures(RequestComparison)


@pytest.fixture(scope="session")
def candidates(ours: Ours, theirs: Peer) -> Comparison:
    return CandidatesComparison(ours, theirs)


@pytest.fixture(scope="session")
def sides(ours: Ours, theirs: Peer) -> tuple[Ours, Peer]:
    return ours, theirs
