"""Nova's functions and our explain on one empty SQLite database; needs the peer's environment."""

import os
from collections.abc import Iterator

import pytest

from tests.differential.nova.duel import Duel
from tests.differential.nova.sides import Ours, Theirs
from tests.differential.sides import PEER_PYTHON


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    side = Ours(f"sqlite:///{tmp_path_factory.mktemp('nova') / 'ours.db'}")
    yield side
    side.close()


@pytest.fixture(scope="session")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    if not PEER_PYTHON.exists():
        assert not os.environ.get("PLACEMENT_SCHED_REQUIRE_PEER"), f"there is no {PEER_PYTHON}"
        pytest.skip("nova is not installed: make peer")
    side = Theirs(f"sqlite:///{tmp_path_factory.mktemp('nova') / 'theirs.db'}")
    yield side
    side.close()


@pytest.fixture
def duel(ours: Ours, theirs: Theirs) -> Duel:
    return Duel(ours, theirs)
