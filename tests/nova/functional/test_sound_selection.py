# SPDX-License-Identifier: Apache-2.0
"""A selection of nova's functional tests passes on this placement."""

from collections.abc import Iterator

import pytest

from tests.differential.comparison import skip_without_peer
from tests.nova.functional.selection import BASE, read_known_failures, read_sound_selection
from tests.nova.functional.worker import OURS, PASSED, Worker, running_worker

pytestmark = pytest.mark.system

SELECTION = read_sound_selection()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    skip_without_peer()
    with running_worker(OURS, tmp_path_factory.mktemp("nova") / "ours") as worker:
        yield worker


@pytest.mark.parametrize("test", SELECTION)
def test_selected_nova_functional_tests_pass(test, worker):
    ended = worker.run(f"{BASE}.{test}")
    assert ended.outcome == PASSED, ended.text
    assert set(SELECTION[test]) <= set(ended.requests)


def test_tests_that_fail_with_openstack_placement_are_not_selected():
    assert not SELECTION.keys() & {name.removeprefix(f"{BASE}.") for name in read_known_failures()}
