# SPDX-License-Identifier: Apache-2.0
"""Clouds for plans of moves."""

import pytest

from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid, select_hosts

MB_PER_GB = 1024


@pytest.fixture
def cloud(app):
    """Three hosts with 8 GB. Two instances with 3 GB are on cn1."""
    names = ("cn1", "cn2", "cn3")
    app.post_json(
        "/scheduler/v1/compute_nodes", [make_report(name, memory_mb=8192) for name in names]
    )
    for at in (1, 2):
        select_hosts(
            app, make_spec(make_uuid(at), flavor=make_flavor(memory_mb=3072), force_hosts=["cn1"])
        )
    return app


def make_filled_hosts(app, free, *placed):
    """Report hosts with GB of memory, and place instances with GB on hosts."""
    reports = [
        make_report(name, memory_mb=size * MB_PER_GB, vcpus=60) for name, size in free.items()
    ]
    app.post_json("/scheduler/v1/compute_nodes", reports)
    for number, (host, size) in enumerate(placed, 1):
        request = make_spec(
            make_uuid(number), flavor=make_flavor(memory_mb=size * MB_PER_GB, root_gb=1)
        )
        select_hosts(app, {**request, "force_hosts": [host]})


def build_request_with_memory(size):
    return make_spec(flavor=make_flavor(memory_mb=size * MB_PER_GB, root_gb=1))
