"""Nova's fit of NUMA nodes and ours; needs the virtual environment of the peers."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.differential.duel import Duel, running
from tests.differential.numa.duel import NumaDuel


@pytest.fixture(scope="session")
def duel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Duel]:
    with running(NumaDuel, tmp_path_factory.mktemp("numa")) as duel:
        yield duel


@pytest.fixture(scope="session")
def ours(duel: Duel) -> Any:
    return duel.ours


@pytest.fixture(scope="session")
def theirs(duel: Duel) -> Any:
    return duel.theirs
