# SPDX-License-Identifier: Apache-2.0
"""Host filter by earlier attempts, as in nova until 21."""

import pytest

from placement_sched.scheduler.filters.retry_filter import RetryFilter
from tests.support.states import build_host_state, build_spec, find_rejection


def find_filter_rejection(retry):
    plugin = RetryFilter()
    host, spec = build_host_state("cn1", "node1"), build_spec(retry=retry)
    return find_rejection(plugin, host, spec)


@pytest.mark.parametrize(
    ("hosts", "number"),
    [
        ([["cn2", "node1"]], None),
        ([["cn1", "node2"], ["CN1", "node1"]], None),
        ([["cn1", "node1"]], "1 host"),
        ([["cn9", "n"], ["cn1", "node1"]], "2 hosts"),
    ],
    ids=str,
)
def test_host_of_an_earlier_attempt_is_rejected(hosts, number):
    reason = number and f"already tried ({number} so far)"
    assert find_filter_rejection({"num_attempts": 2, "hosts": hosts}) == reason
    assert find_filter_rejection(None) is None
    assert find_filter_rejection({"num_attempts": 1}) is None
