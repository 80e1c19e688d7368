"""Nova's fit of NUMA nodes and ours; needs the peer's environment."""

import os
from collections.abc import Iterator

import pytest

from tests.differential.numa.duel import Duel
from tests.differential.numa.sides import Ours, Theirs
from tests.differential.sides import PEER_PYTHON


@pytest.fixture(scope="session")
def ours() -> Ours:
    return Ours()


@pytest.fixture(scope="session")
def theirs() -> Iterator[Theirs]:
    if not PEER_PYTHON.exists():
        assert not os.environ.get("PLACEMENT_SCHED_REQUIRE_PEER"), f"there is no {PEER_PYTHON}"
        pytest.skip("nova is not installed: make peer")
    side = Theirs()
    yield side
    side.close()


@pytest.fixture
def duel(ours: Ours, theirs: Theirs) -> Duel:
    return Duel(ours, theirs)
