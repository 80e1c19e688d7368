# SPDX-License-Identifier: Apache-2.0
"""NUMA nodes from reports to the instances of a request."""

import pytest

from tests.support.scheduling import (
    get_selected_hosts,
    make_flavor,
    make_report,
    make_spec,
    make_uuid,
    select_hosts,
)


def build_numa_nodes(*pinned_spec, **cell):
    """Return NUMA nodes with CPUs for pinning and 4096 MB each."""
    plain = {"cpuset": [], "memory": 4096}
    return {
        "cells": [
            {"id": number, "pcpuset": cpus, "siblings": [[cpu] for cpu in cpus], **plain, **cell}
            for number, cpus in enumerate(pinned_spec)
        ]
    }


@pytest.fixture
def cloud(sqlite_settings, make_app):
    """Two hosts of four CPUs for pinning: cn1 has a single node, cn2 has two nodes."""
    options = {"filter_scheduler.enabled_filters": ["NUMATopologyFilter"]}
    app = make_app(sqlite_settings.with_overrides(options))
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [
            make_report("cn1", numa_topology=build_numa_nodes([0, 1, 2, 3], [])),
            make_report("cn2", numa_topology=build_numa_nodes([0, 1], [2, 3])),
            make_report("cn3"),
        ],
    )
    return app


def build_request_for_pinned_cpus(*instances, vcpus, **extra_specs):
    keys = {f"hw:{key}": value for key, value in extra_specs.items()}
    request = make_flavor(vcpus=vcpus, extra_specs={"hw:cpu_policy": "dedicated", **keys})
    return make_spec(*map(make_uuid, instances), flavor=request)


@pytest.mark.parametrize(
    ("vcpus", "extra_specs", "hosts"),
    [(4, {}, ["cn1"]), (4, {"numa_nodes": "2"}, ["cn2"]), (3, {}, ["cn1"])],
)
def test_host_with_enough_capacity_per_numa_node_is_selected(cloud, vcpus, extra_specs, hosts):
    result = select_hosts(cloud, build_request_for_pinned_cpus(1, vcpus=vcpus, **extra_specs))
    assert get_selected_hosts(result) == hosts
    assert result["selections"][0][0]["limits"] == {
        "numa_topology": {
            "cpu_allocation_ratio": 4.0,
            "ram_allocation_ratio": 1.0,
            "network_metadata": None,
        }
    }
