# SPDX-License-Identifier: Apache-2.0
"""Retries of failed work."""

import pytest

from placement_sched.errors import ConcurrentUpdate, Invalid
from placement_sched.model.retry import call_with_retries


def make_failing_function(times, failure):
    """Return work that fails a number of times, and then returns the number of its calls."""
    calls = []

    def fail_or_return_calls():
        calls.append(1)
        if len(calls) <= times:
            raise failure
        return len(calls)

    return fail_or_return_calls


@pytest.mark.parametrize("failures", range(3))
def test_failing_function_is_repeated_until_it_succeeds(failures):
    between = []
    attempts = call_with_retries(
        make_failing_function(failures, ConcurrentUpdate("busy")), 3, between=between.append
    )
    assert (attempts, between) == (failures + 1, list(range(1, failures + 1)))


def test_error_of_the_last_retry_is_raised():
    with pytest.raises(ConcurrentUpdate, match="busy"):
        call_with_retries(make_failing_function(3, ConcurrentUpdate("busy")), 3)


def test_invalid_request_error_is_not_retried():
    with pytest.raises(Invalid):
        call_with_retries(make_failing_function(1, Invalid("wrong")), 3)


def test_failing_function_is_not_retried_after_the_deadline():
    with pytest.raises(ConcurrentUpdate):
        call_with_retries(
            make_failing_function(1, ConcurrentUpdate("busy")), 3, when=lambda _failure: False
        )
