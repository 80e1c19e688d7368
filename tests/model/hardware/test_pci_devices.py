# SPDX-License-Identifier: Apache-2.0
"""PCI device pools of a host (nova 34 observed)."""

from collections import Counter
from types import SimpleNamespace

import pytest

from placement_sched.explain.phrases import describe_rejection
from placement_sched.model.hardware.pci_devices import (
    DeviceRequest,
    Devices,
    PciPools,
    ReportedPools,
    TooFewDevices,
    build_devices,
    build_shortage,
)
from placement_sched.model.hardware.pci_requests import InstancePCIRequest, InstancePCIRequests
from tests.model.hardware.numa_nodes import build_instance_cell
from tests.model.hardware.pci_stats import FakePciStats

PROVIDER_A, PROVIDER_B, PROVIDER_C = "provider-a", "provider-b", "provider-c"


def build_pool(count=1, numa_node=None, **more):
    ids = {"vendor_id": "8086", "product_id": "1520"}
    return {**ids, "numa_node": numa_node, "count": count, **more}


def build_pci_request(count=1, *specs, **fields):
    named = {"alias_name": "nic", "request_id": "r", **fields}
    return InstancePCIRequest(count=count, spec=specs or ({},), **named)


def build_pci_request_of_port(count=1, *specs):
    return build_pci_request(count, *specs, alias_name=None, requester_id="port-1")


def build_topology(*sockets):
    return {"cells": [{"id": cell, "socket": socket} for cell, socket in enumerate(sockets)]}


def build_cells(*ids):
    return [SimpleNamespace(id=first) for first in ids]


def find_remaining_pools(pools, requests, mappings=None, numa_cells=None, host=None):
    """Return name and count of the remaining pools, or the reason of the rejection."""
    host_pools = PciPools.from_report(pools, host)
    is_supported = host_pools.support_requests(requests, mappings, numa_cells)
    assert host_pools.free == sum(each["count"] for each in pools)
    if not is_supported:
        with pytest.raises(TooFewDevices) as failure:
            host_pools.apply_requests(requests, mappings, numa_cells)
        return describe_rejection(failure.value.rejection).partition("requested: ")[2]
    host_pools.apply_requests(requests, mappings, numa_cells)
    assert host_pools.free == sum(each["count"] for each in host_pools.pools)
    return [(each.get("name"), each["count"]) for each in host_pools.pools]


@pytest.mark.parametrize(
    ("fields", "specs", "fits"),
    [
        ({}, [{}], True),
        ({}, [{"product_id": "1521"}], False),
        ({"vendor_id": "ABcd"}, [{"vendor_id": "abCD"}], True),
        ({}, [{"physical_network": "net1"}], False),
        ({"physical_network": "net1"}, [{"physical_network": "NET1"}], True),
        ({"physical_network": None}, [{"physical_network": "net1"}], False),
        ({}, [{"physical_network": None}], True),
        ({"physical_network": ""}, [{"physical_network": None}], False),
        ({"numa_node": 0}, [{"numa_node": "0"}], False),
        ({}, [{"trusted": True}], False),
        ({"trusted": "true"}, [{"trusted": True}], True),
        # Placement has matched these keys already.
        ({}, [{"resource_class": "CUSTOM_NIC", "traits": "CUSTOM_FAST"}], True),
        ({"resource_class": "CUSTOM_GPU"}, [{"resource_class": "CUSTOM_NIC"}], True),
        # Lists, which plugins may report, never match.
        ({"tags": ["a"]}, [{"tags": "a"}], False),
        ({"tags": ["a"]}, [{"tags": "a"}, {"vendor_id": "8086"}], True),
        # Remote managed devices must be requested.
        ({"remote_managed": "true"}, [{}], False),
        ({"remote_managed": "1"}, [{}], False),
        ({"remote_managed": "false"}, [{}], True),
        ({"remote_managed": "True"}, [{"remote_managed": "true"}], True),
        ({"remote_managed": "true"}, [{"remote_managed": "yes"}], False),
        ({"remote_managed": "false"}, [{"remote_managed": "false"}], True),
        ({"live_migratable": "true"}, [{"live_migratable": "true"}], True),
        ({"live_migratable": "True"}, [{"live_migratable": "true"}], False),
        ({}, [{"live_migratable": "true"}], False),
        ({"live_migratable": "false"}, [{"live_migratable": "false"}], True),
        ({}, [{"live_migratable": "true"}, {}], True),
    ],
)
def test_all_values_of_a_pci_device_spec_must_match_the_pool(fields, specs, fits):
    assert (
        PciPools.from_report([build_pool(**fields)]).support_requests(
            [build_pci_request(1, *specs)]
        )
        is fits
    )


class _ComparisonCountingPciSpec(dict):
    """A spec that counts how often it is compared with a pool."""

    compared = 0

    def items(self):
        self.compared += 1
        return super().items()


@pytest.mark.parametrize("number", [1, 40])
def test_pci_device_specs_are_compared_once_with_equal_pools(number):
    specs = [_ComparisonCountingPciSpec({f"key{key}": "1"}) for key in range(number)]
    pci_request = build_pci_request(1, *specs)
    for host in range(10):
        pools = [build_pool(host, **({"key0": "2"} if host % 2 else {}))]
        assert not PciPools.from_report(pools).support_requests([pci_request])
    assert {spec.compared for spec in specs} == {2}


@pytest.mark.parametrize(
    ("kind", "requested", "fits"),
    [
        ("type-PCI", None, True),
        ("type-VF", None, True),
        ("type-PF", None, False),
        ("vdpa", None, False),
        ("type-PF", "type-PF", True),
        (None, "type-VF", False),
    ],
)
@pytest.mark.parametrize("make", [build_pci_request, build_pci_request_of_port])
def test_physical_functions_and_vdpa_devices_must_be_requested(make, kind, requested, fits):
    free, spec = {"dev_type": kind} if kind else {}, {"dev_type": requested} if requested else {}
    assert PciPools.from_report([build_pool(**free)]).support_requests([make(1, spec)]) is fits


POOLS_ON_DIFFERENT_NUMA_NODES = [
    build_pool(1, None, name="nowhere"),
    build_pool(1, 1, name="one"),
    build_pool(1, 0, name="zero"),
    build_pool(1, 2, name="two"),
]


@pytest.mark.parametrize(
    ("policy", "nodes", "names"),
    [
        # Pools that remain after requests for 1, 2, 3 and 4 devices. None is a rejection.
        (None, None, ["one zero two", "zero two", "two", ""]),
        ("legacy", (0,), ["nowhere one two", "one two", None, None]),
        ("legacy", (5,), ["one zero two", None, None, None]),
        ("required", (0,), ["nowhere one two", None, None, None]),
        ("required", (0, 1), ["nowhere zero two", "nowhere two", None, None]),
        ("preferred", (0,), ["nowhere one two", "one two", "two", ""]),
        ("socket", (0,), ["nowhere one two", "nowhere two", None, None]),
        ("socket", (2,), ["nowhere one zero", None, None, None]),
        ("socket", None, ["one zero two", "zero two", "two", ""]),
    ],
)  # fmt: skip
def test_numa_affinity_policy_decides_which_pci_devices_are_taken(policy, nodes, names):
    numa_cells = None if nodes is None else build_cells(*nodes)
    results = []
    for count in range(1, 5):
        pools = PciPools.from_report(POOLS_ON_DIFFERENT_NUMA_NODES, build_topology(0, 0, 1))
        requests = [build_pci_request(count, numa_policy=policy)]
        fits = pools.support_requests(requests, None, numa_cells)
        if fits:
            pools.apply_requests(requests, None, numa_cells)
        results.append(" ".join(first["name"] for first in pools.pools) if fits else None)
    assert results == names


@pytest.mark.parametrize("host", [build_topology(0, 0, None), build_topology(0, None), None])
def test_socket_affinity_policy_needs_the_sockets_of_all_numa_nodes(host):
    requests = [build_pci_request(numa_policy="socket")]
    assert not PciPools.from_report([build_pool(1, 1)], host).support_requests(
        requests, None, build_cells(0)
    )
    assert PciPools.from_report([build_pool(1, 0)], host).support_requests(
        requests, None, build_cells(0)
    )


POOLS_OF_PROVIDERS = [
    build_pool(2, name="a", rp_uuid=PROVIDER_A),
    build_pool(2, name="b", rp_uuid=PROVIDER_B),
    build_pool(2, name="-"),
]


@pytest.mark.parametrize(
    ("mappings", "count", "names"),
    [
        # Pools with fewer tags come first.
        (None, 3, [("a", 1), ("b", 2)]),
        ({"": [PROVIDER_A], "another-0": [PROVIDER_A]}, 1, [("-", 1), ("a", 2), ("b", 2)]),
        ({"r-0": [PROVIDER_B]}, 1, [("-", 2), ("a", 2), ("b", 1)]),
        ({"r-0": [PROVIDER_A], "r-1": [PROVIDER_A]}, 2, [("-", 2), ("b", 2)]),
        ({"r-0": [PROVIDER_A], "r-1": [PROVIDER_B]}, 2, [("-", 2), ("a", 1), ("b", 1)]),
        ({"r-0": [PROVIDER_A], "r-1": [PROVIDER_A], "r-2": [PROVIDER_A]}, 3,
         "6 free, 0 of the allocation candidate's providers (3 of provider-a)"),
        ({"r-0": [PROVIDER_C]}, 1,
         "6 free, 0 of the allocation candidate's providers (1 of provider-c)"),
        # Requests whose ids have the same prefix use different devices.
        ({"r-0": [PROVIDER_A], "rr-0": [PROVIDER_B], "r-x-0": [PROVIDER_B]}, 1,
         [("-", 2), ("a", 1), ("b", 2)]),
    ],
)  # fmt: skip
def test_pci_devices_are_taken_from_providers_of_the_candidate(mappings, count, names):
    assert find_remaining_pools(POOLS_OF_PROVIDERS, [build_pci_request(count)], mappings) == names


def test_candidate_providers_take_precedence_over_those_of_the_request():
    with_providers = build_pci_request(1, {"rp_uuids": PROVIDER_B})
    assert find_remaining_pools(POOLS_OF_PROVIDERS, [with_providers]) == [
        ("-", 2),
        ("a", 2),
        ("b", 1),
    ]
    remaining = find_remaining_pools(POOLS_OF_PROVIDERS, [with_providers], {"r-0": [PROVIDER_A]})
    assert remaining == [("-", 2), ("a", 1), ("b", 2)]
    remaining = find_remaining_pools(
        POOLS_OF_PROVIDERS, [build_pci_request_of_port(1)], {"r-0": [PROVIDER_B]}
    )
    assert remaining == [("-", 1), ("a", 2), ("b", 2)]


def test_provider_with_several_pci_pools_is_rejected():
    pools = [
        build_pool(2, rp_uuid=PROVIDER_A, x="1"),
        build_pool(2, rp_uuid=PROVIDER_A, x="2"),
        build_pool(2, rp_uuid=PROVIDER_B),
    ]
    rejection = (
        "6 free, 2 of the allocation candidate's providers (1 of provider-b), but devices of "
    )
    assert find_remaining_pools(pools, [build_pci_request()], {"r-0": [PROVIDER_B]}).startswith(
        rejection
    )
    assert find_remaining_pools(pools, [build_pci_request()], {}) == [
        (None, 1),
        (None, 2),
        (None, 2),
    ]


def test_candidate_providers_are_ignored_for_pools_near_numa_cells():
    pools = [build_pool(1, 0, rp_uuid=PROVIDER_A), build_pool(5, 1, rp_uuid=PROVIDER_B)]
    requests, mappings = [build_pci_request(numa_policy="preferred")], {"r-0": [PROVIDER_A]}
    assert isinstance(find_remaining_pools(pools, requests, mappings, build_cells(1)), str)
    assert find_remaining_pools(pools, requests, mappings) == [(None, 5)]


def test_pci_requests_are_served_in_their_order():
    assert find_remaining_pools([build_pool(3)], [build_pci_request(2), build_pci_request(1)]) == []
    assert (
        find_remaining_pools([build_pool(3)], [build_pci_request(2), build_pci_request(2)])
        == "1 free"
    )
    pools = PciPools.from_report([build_pool(3)])
    with pytest.raises(TooFewDevices, match="too few PCI devices are free"):
        pools.apply_requests([build_pci_request(2), build_pci_request(2)])
    assert pools.free == 1


def test_request_for_zero_pci_devices_needs_a_matching_pool():
    assert find_remaining_pools([build_pool(2)], [build_pci_request(0)]) == [(None, 2)]
    assert find_remaining_pools([build_pool(0)], [build_pci_request(0)]) == []
    remaining = find_remaining_pools([build_pool(2)], [build_pci_request(0, {"vendor_id": "10de"})])
    assert remaining == "2 free, 0 with vendor_id 10de"


@pytest.mark.parametrize(
    ("pools", "requested", "free", "reason"),
    [
        ([], build_pci_request(), 0, "1 device for PCI alias nic requested: 0 free"),
        ([build_pool(1, product_id="1"), build_pool(2)],
         build_pci_request(3, {"product_id": "1520"}), 2,
         "3 devices for PCI alias nic requested: 3 free, 2 with product_id 1520"),
        ([build_pool(2)], build_pci_request(1, {"a": "b"}, {"c": "d"}), 0,
         "1 device for PCI alias nic requested: 2 free, 0 with a b or c d"),
        ([build_pool(2, dev_type="type-PF")], build_pci_request(), 0,
         ("1 device for PCI alias nic requested: 2 free, 0 without unrequested physical "
          "functions and vdpa devices")),
        ([build_pool(2, remote_managed="true")], build_pci_request_of_port(), 0,
         ("1 device for port port-1 requested: 2 free, 0 without unrequested remote managed "
          "devices")),
        ([build_pool(2, live_migratable="True")],
         build_pci_request(1, {"live_migratable": "true"}), 0,
         "1 device for PCI alias nic requested: 2 free, 0 live migratable"),
        ([build_pool(2, 3)], build_pci_request(numa_policy="required"), 0,
         ("1 device for PCI alias nic requested: 2 free, 0 near enough to NUMA nodes 0, 1 (policy "
          "required)")),
    ],
)  # fmt: skip
def test_rejection_has_requested_and_free_pci_devices(pools, requested, free, reason):
    demand = DeviceRequest(requested, Counter(), frozenset({0, 1}), {})
    rejection = build_shortage(PciPools.from_report(pools).current_pools, demand)
    assert describe_rejection(rejection) == reason
    assert (rejection.requested, rejection.actual) == (requested.count, free)


def test_reported_pci_pools_are_parsed_once_and_not_changed():
    reported_pools = (build_pool(1, name="tagged", trusted="true"), build_pool(2, name="plain"))
    reported = ReportedPools(reported_pools)
    first, second = PciPools(reported), PciPools(reported)
    assert [each["name"] for each in first] == ["plain", "tagged"]
    first.apply_requests([build_pci_request(2)])
    second.pools[0]["count"] = 7
    assert (first.free, second.free) == (1, 8)
    assert PciPools(reported).free == reported.free == 3
    assert reported_pools[1]["count"] == 2
    assert reported.pools is reported.pools


ONE_DEVICE_REQUEST = InstancePCIRequests(requests=(InstancePCIRequest(count=1),))


def test_pci_devices_are_counted_and_served_by_numa_node():
    stats = FakePciStats([(0, 2), (1, 1), (0, 1), (None, 5)], served_node_sets=[{0}])
    devices = Devices(stats, ONE_DEVICE_REQUEST.requests, {"pci": ["p1"]})
    assert (dict(devices.near), devices.near[7]) == ({0: 3, 1: 1}, 0)
    assert devices.can_serve([build_instance_cell(0)])
    assert not devices.can_serve([build_instance_cell(0), build_instance_cell(1)])
    assert stats.calls == [(ONE_DEVICE_REQUEST.requests, {"pci": ["p1"]})] * 2


@pytest.mark.parametrize("stats", [None, (), ({"count": 1},)])
def test_host_that_reports_no_pci_devices_has_none(stats):
    assert build_devices(stats, ONE_DEVICE_REQUEST, None) is None


def test_request_without_pci_devices_has_no_pci_requests():
    stats = FakePciStats()
    assert build_devices(stats, None, {}) == Devices(stats, (), {})
    assert build_devices(stats, ONE_DEVICE_REQUEST, {}) == Devices(
        stats, ONE_DEVICE_REQUEST.requests, {}
    )
    assert Devices(stats).can_serve([build_instance_cell(0)])
    assert stats.calls == []
    assert PciPools.from_report([])
    assert PciPools.from_report([]).pools == list(PciPools.from_report([])) == []
