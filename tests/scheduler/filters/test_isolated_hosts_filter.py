# SPDX-License-Identifier: Apache-2.0
"""Host filter by isolated hosts and images, as nova 34 decides."""

import pytest

from placement_sched.scheduler.filters.isolated_hosts_filter import IsolatedHostsFilter
from tests.support.states import build_host_state, build_settings, build_spec, find_rejection


def find_filter_rejection(image, host, **options):
    values = {f"filter_scheduler__{name}": value for name, value in options.items()}
    plugin = IsolatedHostsFilter.with_settings(build_settings(**values))
    state, spec = build_host_state(host), build_spec(image={"id": image} if image else None)
    return find_rejection(plugin, state, spec)


ISOLATION_OPTIONS = {"isolated_images": ["i1", "i2"], "isolated_hosts": ["h1", "h2"]}
UNRESTRICTED_OPTIONS = ISOLATION_OPTIONS | {"restrict_isolated_hosts_to_isolated_images": False}


@pytest.mark.parametrize(
    ("image", "host", "options", "reason"),
    [
        ("i1", "h2", ISOLATION_OPTIONS, None),
        ("i3", "h3", ISOLATION_OPTIONS, None),
        (None, "h3", ISOLATION_OPTIONS, None),
        ("i1", "h2", UNRESTRICTED_OPTIONS, None),
        ("i3", "h1", UNRESTRICTED_OPTIONS, None),
        (None, "h1", UNRESTRICTED_OPTIONS, None),
        ("i3", "h3", UNRESTRICTED_OPTIONS, None),
        ("i1", "h1", {}, None),
        ("i1", "h1", UNRESTRICTED_OPTIONS | {"isolated_images": []}, None),
        ("i1", "h3", {"isolated_hosts": ["h1"]}, None),
        ("i1", "h3", ISOLATION_OPTIONS, "image i1 is isolated, the host is not"),
        ("i1", "h3", UNRESTRICTED_OPTIONS, "image i1 is isolated, the host is not"),
        ("i1", "H1", ISOLATION_OPTIONS, "image i1 is isolated, the host is not"),
        ("i3", "h1", ISOLATION_OPTIONS, "the host is isolated, image i3 is not"),
        (None, "h1", ISOLATION_OPTIONS, "the host is isolated, a request without image is not"),
        ("i1", "h1", {"isolated_hosts": ["h1"]}, "the host is isolated, image i1 is not"),
    ],
    ids=str,
)
def test_isolated_hosts_get_only_isolated_images(image, host, options, reason):
    assert find_filter_rejection(image, host, **options) == reason
