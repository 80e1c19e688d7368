# SPDX-License-Identifier: Apache-2.0
"""RetryFilter, as nova had it until 21 (Ussuri)."""

import pytest

from placement_sched.scheduler.filters.retry_filter import RetryFilter
from tests.support.states import a_host, a_spec


def refusal(retry):
    plugin = RetryFilter()
    host, spec = a_host("cn1", "node1"), a_spec(retry=retry)
    found = plugin.refusal(host, spec)
    assert plugin.host_passes(host, spec) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    "retry",
    [
        None,
        {"num_attempts": 1},
        {"num_attempts": 2, "hosts": [["cn2", "node1"]]},
        {"num_attempts": 2, "hosts": [["cn1", "node2"], ["CN1", "node1"]]},
    ],
    ids=str,
)
def test_host_that_was_not_tried_passes(retry):
    assert refusal(retry) is None


@pytest.mark.parametrize(
    ("hosts", "number"), [([["cn1", "node1"]], 1), ([["cn9", "n"], ["cn1", "node1"]], 2)], ids=str
)
def test_host_that_was_tried_is_refused(hosts, number):
    reason = f"already tried ({number} hosts so far)"
    assert refusal({"num_attempts": 2, "hosts": hosts}) == reason


def test_filter_runs_for_every_instance():
    assert RetryFilter().run_filter_for_index(1)
