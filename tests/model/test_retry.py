# SPDX-License-Identifier: Apache-2.0
"""The one loop that tries again."""

import pytest

from placement_sched.errors import ConcurrentUpdate, Invalid
from placement_sched.model.retry import retrying


def failing(times, failure):
    """Work that fails so often, and then returns the number of its calls."""
    calls = []

    def work():
        calls.append(1)
        if len(calls) <= times:
            raise failure
        return len(calls)

    return work


@pytest.mark.parametrize("failures", range(3))
def test_work_is_tried_again_until_it_succeeds(failures):
    between = []
    found = retrying(failing(failures, ConcurrentUpdate("busy")), 3, between=between.append)
    assert (found, between) == (failures + 1, list(range(1, failures + 1)))


def test_last_failure_goes_up():
    with pytest.raises(ConcurrentUpdate, match="busy"):
        retrying(failing(3, ConcurrentUpdate("busy")), 3)


def test_other_failure_is_not_tried_again():
    with pytest.raises(Invalid):
        retrying(failing(1, Invalid("wrong")), 3)


def test_useless_attempt_is_not_made():
    with pytest.raises(ConcurrentUpdate):
        retrying(failing(1, ConcurrentUpdate("busy")), 3, when=lambda _failure: False)
