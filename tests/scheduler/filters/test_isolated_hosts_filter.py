# SPDX-License-Identifier: Apache-2.0
"""IsolatedHostsFilter, as nova 34 decides the same cases."""

import pytest

from placement_sched.scheduler.filters.isolated_hosts_filter import IsolatedHostsFilter
from tests.support.states import a_host, a_spec, settings_with


def refusal(image, host, **options):
    values = {f"filter_scheduler__{name}": value for name, value in options.items()}
    plugin = IsolatedHostsFilter.with_settings(settings_with(**values))
    state, spec = a_host(host), a_spec(image={"id": image} if image else None)
    found = plugin.refusal(state, spec)
    assert plugin.host_passes(state, spec) is (found is None)
    return found and found.reason


ISOLATED = {"isolated_images": ["i1", "i2"], "isolated_hosts": ["h1", "h2"]}
OPEN = ISOLATED | {"restrict_isolated_hosts_to_isolated_images": False}


@pytest.mark.parametrize(
    ("image", "host", "options"),
    [
        ("i1", "h2", ISOLATED),
        ("i3", "h3", ISOLATED),
        (None, "h3", ISOLATED),
        ("i1", "h2", OPEN),
        ("i3", "h1", OPEN),
        (None, "h1", OPEN),
        ("i3", "h3", OPEN),
        ("i1", "h1", {}),
        ("i1", "h1", OPEN | {"isolated_images": []}),
        ("i1", "h3", {"isolated_hosts": ["h1"]}),
    ],
    ids=str,
)
def test_image_and_host_that_are_both_isolated_or_both_not_go_together(image, host, options):
    assert refusal(image, host, **options) is None


@pytest.mark.parametrize(
    ("image", "host", "options", "reason"),
    [
        ("i1", "h3", ISOLATED, "image i1 is isolated, the host is not"),
        ("i1", "h3", OPEN, "image i1 is isolated, the host is not"),
        ("i1", "H1", ISOLATED, "image i1 is isolated, the host is not"),
        ("i3", "h1", ISOLATED, "the host is isolated, image i3 is not"),
        (None, "h1", ISOLATED, "the host is isolated, a request without image is not"),
        ("i1", "h1", {"isolated_hosts": ["h1"]}, "the host is isolated, image i1 is not"),
    ],
    ids=str,
)
def test_other_pairs_are_refused(image, host, options, reason):
    assert refusal(image, host, **options) == reason


def test_filter_runs_once_per_request_and_for_rebuilds():
    assert not IsolatedHostsFilter().run_filter_for_index(1)
    assert IsolatedHostsFilter.RUN_ON_REBUILD
