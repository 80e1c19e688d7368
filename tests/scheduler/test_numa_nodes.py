# SPDX-License-Identifier: Apache-2.0
"""NUMA nodes from a host's report to the instances of one request."""

import pytest

from tests.support.scheduling import flavor, hosts_of, instance, report, spec


def topology(*pinned, **cell):
    """Return nodes with these CPUs for pinning each, and 4096 MB."""
    plain = {"cpuset": [], "memory": 4096}
    return {
        "cells": [
            {"id": number, "pcpuset": cpus, "siblings": [[cpu] for cpu in cpus], **plain, **cell}
            for number, cpus in enumerate(pinned)
        ]
    }


@pytest.fixture
def cloud(sqlite_settings, make_app):
    """Two hosts of four CPUs for pinning: of cn1 all are at one node, of cn2 two at each."""
    options = {"filter_scheduler.enabled_filters": ["NUMATopologyFilter"]}
    app = make_app(sqlite_settings.with_overrides(options))
    app.post_json(
        "/scheduler/v1/compute_nodes",
        [
            report("cn1", numa_topology=topology([0, 1, 2, 3], [])),
            report("cn2", numa_topology=topology([0, 1], [2, 3])),
            report("cn3"),
        ],
    )
    return app


def pinned(*instances, vcpus, **extra_specs):
    keys = {f"hw:{key}": value for key, value in extra_specs.items()}
    asked = flavor(vcpus=vcpus, extra_specs={"hw:cpu_policy": "dedicated", **keys})
    return spec(*map(instance, instances), flavor=asked)


def select(app, request_spec, status=200, **more):
    body = {"request_spec": request_spec, **more}
    return app.post_json("/scheduler/v1/select_destinations", body, status=status).json


def explained(app, request_spec):
    answer = app.post_json("/scheduler/v1/explain", {"request_spec": request_spec}).json
    (told,) = answer["funnel"]["filters"]
    assert told["name"] == "NUMATopologyFilter"
    return {one["host"]: one["reason"] for one in told["rejected"]}


@pytest.mark.parametrize(
    ("vcpus", "extra_specs", "hosts"),
    [(4, {}, ["cn1"]), (4, {"numa_nodes": "2"}, ["cn2"]), (3, {}, ["cn1"])],
)
def test_instance_goes_where_its_nodes_have_room(cloud, vcpus, extra_specs, hosts):
    answer = select(cloud, pinned(1, vcpus=vcpus, **extra_specs))
    assert hosts_of(answer) == hosts
    assert answer["selections"][0][0]["limits"] == {
        "numa_topology": {
            "cpu_allocation_ratio": 4.0,
            "ram_allocation_ratio": 1.0,
            "network_metadata": None,
        }
    }


def test_instances_of_one_request_get_cpus_of_their_own(cloud):
    answer = select(cloud, pinned(1, 2, 3, 4, vcpus=2), claim=False)
    assert sorted(hosts_of(answer)) == ["cn1", "cn1", "cn2", "cn2"]
    assert select(cloud, pinned(1, 2, 3, 4, 5, vcpus=2), status=409, claim=False)["errors"]


def test_why_not_is_told_with_numbers(cloud):
    assert explained(cloud, pinned(1, vcpus=3)) == {
        "cn2": "NUMA node 0 of the instance fits on no NUMA node of the host: NUMA nodes 0, 1: 3 "
        "dedicated "
        "CPUs requested, 2 of 2 dedicated CPUs free",
        "cn3": "1 NUMA node requested, the host reports no NUMA topology",
    }


def test_networks_bind_an_instance_to_nodes(cloud):
    networks = {"network_metadata": {"physnets": ["net-a"], "tunneled": False}}
    for number, name in enumerate(("cn1", "cn2"), start=1):
        cells = topology([0, 1], [2, 3])
        cells["cells"][number - 1]["network_metadata"] = {"physnets": ["net-a"]}
        cells["cells"][0]["pinned_cpus"] = [0, 1]
        cloud.post_json("/scheduler/v1/compute_nodes", [report(name, numa_topology=cells)])
    asked = {**pinned(1, vcpus=2), **networks}
    assert hosts_of(select(cloud, asked, claim=False)) == ["cn2"]
    assert explained(cloud, asked)["cn1"] == (
        "the NUMA nodes with enough capacity lack requested networks: net-a at NUMA node 0"
    )
