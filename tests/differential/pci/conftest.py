"""Nova's PCI pools and ours; needs the virtual environment of the peers."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.differential.duel import Duel, running
from tests.differential.pci.duel import PciDuel


@pytest.fixture(scope="session")
def duel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Duel]:
    with running(PciDuel, tmp_path_factory.mktemp("pci")) as duel:
        yield duel


@pytest.fixture(scope="session")
def ours(duel: Duel) -> Any:
    return duel.ours


@pytest.fixture(scope="session")
def theirs(duel: Duel) -> Any:
    return duel.theirs
