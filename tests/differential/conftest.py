"""Both services on empty SQLite databases, compared; needs the virtual environment of the peer."""

import os
from collections.abc import Iterator

import pytest

from tests.differential.duel import Duel
from tests.differential.sides import PEER_PYTHON, Ours, Peer


@pytest.fixture(scope="session")
def duel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Duel]:
    if not PEER_PYTHON.exists():
        assert not os.environ.get("PLACEMENT_SCHED_REQUIRE_PEER"), f"there is no {PEER_PYTHON}"
        pytest.skip("openstack-placement is not installed: make peer")
    folder = tmp_path_factory.mktemp("differential")
    ours = Ours(f"sqlite:///{folder / 'ours.db'}")
    theirs = Peer(f"sqlite:///{folder / 'theirs.db'}")
    yield Duel(ours, theirs)
    theirs.close()
    ours.close()
