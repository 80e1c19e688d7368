# SPDX-License-Identifier: Apache-2.0
"""A selection of nova's functional tests passes on this placement."""

from collections.abc import Iterator

import pytest

from tests.differential.comparison import needs_peer
from tests.nova.functional.selection import BASE, known_to_fail, sound_tests
from tests.nova.functional.worker import FAILED, OURS, PASSED, Worker, running_worker

pytestmark = pytest.mark.system

SELECTION = sound_tests()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    needs_peer()
    with running_worker(OURS, tmp_path_factory.mktemp("nova") / "ours") as worker:
        yield worker


@pytest.mark.parametrize("test", SELECTION)
def test_selected_nova_functional_tests_pass(test, worker):
    ended = worker.run(f"{BASE}.{test}")
    assert ended.outcome == PASSED, ended.text
    assert set(SELECTION[test]) <= set(ended.requests)


def test_test_that_kills_its_process_fails_and_the_next_one_runs(worker):
    ended = worker.run("os.system.kill -KILL $PPID")  # called as if it were a class of tests
    assert ended.outcome == FAILED
    assert "the test ended its process" in ended.text
    assert worker.run(f"{BASE}.{next(iter(SELECTION))}").outcome == PASSED


def test_tests_failing_with_placement_are_not_selected():
    assert not SELECTION.keys() & {name.removeprefix(f"{BASE}.") for name in known_to_fail()}
