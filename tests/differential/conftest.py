"""Both services on empty SQLite databases; needs the virtual environment of the peers."""

from collections.abc import Iterator

import pytest

from tests.differential.duel import Duel, running
from tests.differential.placement import CandidatesDuel, RequestDuel
from tests.differential.sides import Ours, Peer


@pytest.fixture(scope="session")
def duel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Duel]:
    with running(RequestDuel, tmp_path_factory.mktemp("differential")) as duel:
        yield duel


@pytest.fixture(scope="session")
def candidates(duel: Duel) -> Duel:
    """Questions for candidates to the same two sides."""
    return CandidatesDuel(duel.ours, duel.theirs)


@pytest.fixture(scope="session")
def sides(duel: Duel) -> tuple[Ours, Peer]:
    return duel.ours, duel.theirs
