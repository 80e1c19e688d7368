# SPDX-License-Identifier: Apache-2.0
"""A selection of nova's functional tests passes on this placement."""

from collections.abc import Iterator

import pytest

from tests.differential.comparison import skip_without_peer
from tests.nova.functional.selection import (
    FUNCTIONAL_TESTS_PACKAGE,
    read_known_failures,
    read_requests_by_selected_test,
)
from tests.nova.functional.worker import OUR_PLACEMENT, PASSED, Worker, run_worker

pytestmark = pytest.mark.system

REQUESTS_BY_SELECTED_TEST = read_requests_by_selected_test()


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    skip_without_peer()
    with run_worker(OUR_PLACEMENT, tmp_path_factory.mktemp("nova") / "ours") as worker:
        yield worker


@pytest.mark.parametrize("test", REQUESTS_BY_SELECTED_TEST)
def test_selected_nova_functional_tests_pass(test, worker):
    ended = worker.run_test(f"{FUNCTIONAL_TESTS_PACKAGE}.{test}")
    assert ended.outcome == PASSED, ended.text
    assert set(REQUESTS_BY_SELECTED_TEST[test]) <= set(ended.requests)


def test_tests_that_fail_with_openstack_placement_are_not_selected():
    assert not REQUESTS_BY_SELECTED_TEST.keys() & {
        name.removeprefix(f"{FUNCTIONAL_TESTS_PACKAGE}.") for name in read_known_failures()
    }
