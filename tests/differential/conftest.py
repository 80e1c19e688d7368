"""Both services on empty SQLite databases, compared; needs the virtual environment of the peer."""

import os
from collections.abc import Iterator

import pytest

from tests.differential.duel import Duel
from tests.differential.sides import PEER_PYTHON, Ours, Peer


@pytest.fixture(scope="session")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ours, Peer]]:
    if not PEER_PYTHON.exists():
        assert not os.environ.get("PLACEMENT_SCHED_REQUIRE_PEER"), f"there is no {PEER_PYTHON}"
        pytest.skip("openstack-placement is not installed: make peer")
    folder = tmp_path_factory.mktemp("differential")
    ours = Ours(f"sqlite:///{folder / 'ours.db'}")
    theirs = Peer(f"sqlite:///{folder / 'theirs.db'}")
    yield ours, theirs
    theirs.close()
    ours.close()


@pytest.fixture(scope="session")
def duel(sides: tuple[Ours, Peer]) -> Duel:
    return Duel(*sides)
