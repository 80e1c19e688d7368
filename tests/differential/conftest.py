# SPDX-License-Identifier: Apache-2.0
"""Both sides of the comparison that a module names ``COMPARISON``, once per session.

A module without this name gets both placement services on empty SQLite databases.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from typing import Any

import pytest

from tests.differential.comparison import Comparison, skip_without_peer
from tests.differential.placement import CandidatesComparison, RequestComparison
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement


@pytest.fixture(scope="session")
def open_comparison(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[type[Comparison]], Comparison]]:
    with ExitStack() as opened:

        @cache
        def open_sides(kind: type[Comparison]) -> Comparison:
            skip_without_peer()
            folder = tmp_path_factory.mktemp(kind.name)
            return opened.enter_context(closing(kind.open_sides(folder)))

        yield open_sides


@pytest.fixture(scope="module")
def comparison(
    request: pytest.FixtureRequest, open_comparison: Callable[[type[Comparison]], Comparison]
) -> Comparison:
    return open_comparison(getattr(request.module, "COMPARISON", RequestComparison))


@pytest.fixture(scope="module")
def our_side(comparison: Comparison) -> Any:
    return comparison.ours


@pytest.fixture(scope="module")
def peer_side(comparison: Comparison) -> Any:
    return comparison.theirs


@pytest.fixture(scope="module")
def candidates_comparison(our_side: OwnPlacement, peer_side: OpenStackPlacementPeer) -> Comparison:
    return CandidatesComparison(our_side, peer_side)


@pytest.fixture(scope="module")
def placement_sides(
    our_side: OwnPlacement, peer_side: OpenStackPlacementPeer
) -> tuple[OwnPlacement, OpenStackPlacementPeer]:
    return our_side, peer_side
