# SPDX-License-Identifier: Apache-2.0
"""NUMA nodes from reports to the instances of a request."""

import pytest

from tests.scheduler.test_scheduler import select
from tests.support.scheduling import flavor, get_selected_hosts, instance, report, spec


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
            report("cn1", numa_topology=build_numa_nodes([0, 1, 2, 3], [])),
            report("cn2", numa_topology=build_numa_nodes([0, 1], [2, 3])),
            report("cn3"),
        ],
    )
    return app


def build_request_for_pinned_cpus(*instances, vcpus, **extra_specs):
    keys = {f"hw:{key}": value for key, value in extra_specs.items()}
    request = flavor(vcpus=vcpus, extra_specs={"hw:cpu_policy": "dedicated", **keys})
    return spec(*map(instance, instances), flavor=request)


@pytest.mark.parametrize(
    ("vcpus", "extra_specs", "hosts"),
    [(4, {}, ["cn1"]), (4, {"numa_nodes": "2"}, ["cn2"]), (3, {}, ["cn1"])],
)
def test_host_with_enough_capacity_per_numa_node_is_selected(cloud, vcpus, extra_specs, hosts):
    answer = select(cloud, build_request_for_pinned_cpus(1, vcpus=vcpus, **extra_specs))
    assert get_selected_hosts(answer) == hosts
    assert answer["selections"][0][0]["limits"] == {
        "numa_topology": {
            "cpu_allocation_ratio": 4.0,
            "ram_allocation_ratio": 1.0,
            "network_metadata": None,
        }
    }
