# SPDX-License-Identifier: Apache-2.0
"""Both services on empty SQLite databases; needs the virtual environment of the peers."""

import pytest

from tests.differential.duel import Duel, fixtures
from tests.differential.placement import CandidatesDuel, RequestDuel
from tests.differential.sides import Ours, Peer

duel, ours, theirs = fixtures(RequestDuel)


@pytest.fixture(scope="session")
def candidates(ours: Ours, theirs: Peer) -> Duel:
    return CandidatesDuel(ours, theirs)


@pytest.fixture(scope="session")
def sides(ours: Ours, theirs: Peer) -> tuple[Ours, Peer]:
    return ours, theirs
