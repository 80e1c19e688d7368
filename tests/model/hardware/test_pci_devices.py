# SPDX-License-Identifier: Apache-2.0
"""PciPools, as nova 34's PciDeviceStats decides the same cases."""

from types import SimpleNamespace

import pytest

from placement_sched.errors import Conflict
from placement_sched.model.hardware.pci_devices import Devices, PciPools, ReportedPools, devices_of
from placement_sched.model.hardware.pci_requests import InstancePCIRequest, InstancePCIRequests
from tests.model.hardware.pci_stats import Stats
from tests.support.numa_nodes import asked

A, B, C = "provider-a", "provider-b", "provider-c"


def pool(count=1, numa_node=None, **more):
    ids = {"vendor_id": "8086", "product_id": "1520"}
    return {**ids, "numa_node": numa_node, "count": count, **more}


def request(count=1, *specs, **fields):
    named = {"alias_name": "nic", "request_id": "r", **fields}
    return InstancePCIRequest(count=count, spec=specs or ({},), **named)


def port(count=1, *specs):
    return request(count, *specs, alias_name=None, requester_id="port-1")


def topology(*sockets):
    return {"cells": [{"id": cell, "socket": socket} for cell, socket in enumerate(sockets)]}


def cells(*ids):
    return [SimpleNamespace(id=one) for one in ids]


def left(pools, requests, mappings=None, numa_cells=None, host=None):
    """Return name and count of the pools that are left, or why the requests are refused."""
    here = PciPools.of(pools, host)
    why = here.why_not(requests, mappings, numa_cells)
    assert here.support_requests(requests, mappings, numa_cells) is (why is None)
    assert here.free == sum(one["count"] for one in pools)
    if why is not None:
        with pytest.raises(Conflict, match="requested"):
            here.apply_requests(requests, mappings, numa_cells)
        return why.reason.partition("requested; ")[2]
    here.apply_requests(requests, mappings, numa_cells)
    assert here.free == sum(one["count"] for one in here.pools)
    return [(one.get("name"), one["count"]) for one in here.pools]


@pytest.mark.parametrize(
    ("has", "spec", "fits"),
    [
        ({}, {}, True),
        ({}, {"vendor_id": "8086", "product_id": "1520"}, True),
        ({}, {"product_id": "1521"}, False),
        ({"vendor_id": "ABcd"}, {"vendor_id": "abCD"}, True),
        ({}, {"physical_network": "net1"}, False),
        ({"physical_network": "net1"}, {"physical_network": "NET1"}, True),
        ({"physical_network": None}, {"physical_network": "net1"}, False),
        ({"physical_network": "net1"}, {"physical_network": None}, False),
        ({}, {"physical_network": None}, True),
        ({"physical_network": ""}, {"physical_network": None}, False),
        ({"numa_node": 0}, {"numa_node": "0"}, False),
        ({"numa_node": 0}, {"numa_node": 0}, False),
        ({}, {"trusted": True}, False),
        ({"trusted": "true"}, {"trusted": True}, True),
        # What placement has seen to is not asked of the pool again.
        ({}, {"resource_class": "CUSTOM_NIC", "traits": "CUSTOM_FAST"}, True),
        ({"resource_class": "CUSTOM_GPU"}, {"resource_class": "CUSTOM_NIC"}, True),
        ({}, {"rp_uuid": "another"}, True),
    ],
)
def test_every_value_of_a_spec_must_be_the_pools(has, spec, fits):
    assert PciPools.of([pool(**has)]).support_requests([request(1, spec)]) is fits


def test_one_spec_of_several_will_do_and_none_will_not():
    pools = [pool(1, product_id="1"), pool(1, product_id="2"), pool(1, product_id="3")]
    either = ({"product_id": "2"}, {"product_id": "3"})
    assert PciPools.of(pools).support_requests([request(2, *either)])
    assert not PciPools.of(pools).support_requests([request(3, *either)])
    without = InstancePCIRequest(count=1, spec=(), alias_name="nic")
    assert not PciPools.of(pools).support_requests([without])


class _Spec(dict):
    """A spec that counts how often it is compared with a pool."""

    compared = 0

    def items(self):
        self.compared += 1
        return super().items()


@pytest.mark.parametrize("number", [1, 40])
def test_specs_are_compared_once_with_pools_that_are_alike(number):
    specs = [_Spec({f"key{key}": "1"}) for key in range(number)]
    asking = request(1, *specs)
    for host in range(10):
        pools = [pool(host, pool_of=str(host), **({"key0": "2"} if host % 2 else {}))]
        assert not PciPools.of(pools).support_requests([asking])
    assert {spec.compared for spec in specs} == {2}


def test_pools_of_plugins_may_hold_lists():
    pools = [pool(1, tags=["a"])]
    assert PciPools.of(pools).support_requests([request(1, {"tags": "a"}, {"vendor_id": "8086"})])
    assert not PciPools.of(pools).support_requests([request(1, {"tags": "a"})])


@pytest.mark.parametrize(
    ("kind", "asked", "fits"),
    [
        ("type-PCI", None, True),
        ("type-VF", None, True),
        ("type-PF", None, False),
        ("vdpa", None, False),
        ("type-PF", "type-PF", True),
        ("vdpa", "vdpa", True),
        ("type-PF", "TYPE-PF", False),
        ("type-VF", "type-PF", False),
        (None, "type-VF", False),
    ],
)
@pytest.mark.parametrize("make", [request, port])
def test_physical_functions_and_vdpa_devices_are_for_who_names_them(make, kind, asked, fits):
    has, spec = {"dev_type": kind} if kind else {}, {"dev_type": asked} if asked else {}
    assert PciPools.of([pool(**has)]).support_requests([make(1, spec)]) is fits


@pytest.mark.parametrize(
    ("has", "asked", "fits"),
    [
        ("true", None, False),
        ("1", None, False),
        ("yes", None, False),
        ("false", None, True),
        ("odd", None, True),
        (None, None, True),
        ("True", "true", True),
        ("false", "true", False),
        ("true", "yes", False),
        ("false", "false", True),
        (None, "false", False),
    ],
)
def test_remote_managed_devices_are_for_requests_for_them(has, asked, fits):
    pools = [pool(remote_managed=has)]
    spec = {"remote_managed": asked} if asked else {}
    assert PciPools.of(pools).support_requests([request(1, spec)]) is fits


@pytest.mark.parametrize(
    ("has", "asked", "fits"),
    [
        ("true", ["true"], True),
        ("True", ["true"], False),
        ("false", ["true"], False),
        (None, ["true"], False),
        ("true", [None], True),
        ("false", ["false"], True),
        (None, ["true", None], True),
    ],
)
def test_device_that_is_to_move_with_its_instance_must_be_migratable(has, asked, fits):
    pools = [pool(**({"live_migratable": has} if has else {}))]
    specs = [{"live_migratable": one} if one else {} for one in asked]
    assert PciPools.of(pools).support_requests([request(1, *specs)]) is fits


FOUR = [pool(1, None, name="nowhere"), pool(1, 1, name="one"), pool(1, 0, name="zero"),
        pool(1, 2, name="two")]  # fmt: skip


@pytest.mark.parametrize(
    ("policy", "nodes", "names"),
    [
        # What is left after 1, 2, 3 and 4 devices were asked for; None where they are refused.
        (None, None, ["one zero two", "zero two", "two", ""]),
        ("required", (), ["one zero two", "zero two", "two", ""]),
        (None, (0,), ["nowhere one two", "one two", None, None]),
        ("legacy", (0,), ["nowhere one two", "one two", None, None]),
        ("legacy", (5,), ["one zero two", None, None, None]),
        ("required", (0,), ["nowhere one two", None, None, None]),
        ("required", (0, 1), ["nowhere zero two", "nowhere two", None, None]),
        ("preferred", (0,), ["nowhere one two", "one two", "two", ""]),
        ("preferred", (5,), ["one zero two", "zero two", "two", ""]),
        ("socket", (0,), ["nowhere one two", "nowhere two", None, None]),
        ("socket", (2,), ["nowhere one zero", None, None, None]),
        ("socket", (5,), [None, None, None, None]),
        ("socket", None, ["one zero two", "zero two", "two", ""]),
    ],
)  # fmt: skip
def test_near_devices_are_taken_first_and_far_ones_as_the_policy_allows(policy, nodes, names):
    here = None if nodes is None else cells(*nodes)
    found = []
    for count in range(1, 5):
        pools = PciPools.of(FOUR, topology(0, 0, 1))
        asked = [request(count, numa_policy=policy)]
        fits = pools.support_requests(asked, None, here)
        if fits:
            pools.apply_requests(asked, None, here)
        found.append(" ".join(one["name"] for one in pools.pools) if fits else None)
    assert found == names


@pytest.mark.parametrize("host", [topology(0, 0, None), topology(0, None), None])
def test_socket_is_not_relied_on_where_the_host_does_not_report_all(host):
    asked = [request(numa_policy="socket")]
    assert not PciPools.of([pool(1, 1)], host).support_requests(asked, None, cells(0))
    assert PciPools.of([pool(1, 0)], host).support_requests(asked, None, cells(0))


PLACED = [pool(2, name="a", rp_uuid=A), pool(2, name="b", rp_uuid=B), pool(2, name="-")]


@pytest.mark.parametrize(
    ("mappings", "count", "names"),
    [
        # Pools with fewer tags come first.
        (None, 3, [("a", 1), ("b", 2)]),
        ({}, 3, [("a", 1), ("b", 2)]),
        ({"": [A], "another-0": [A]}, 1, [("-", 1), ("a", 2), ("b", 2)]),
        ({"r-0": [B]}, 1, [("-", 2), ("a", 2), ("b", 1)]),
        ({"r-0": [A], "r-1": [A]}, 2, [("-", 2), ("b", 2)]),
        ({"r-0": [A], "r-1": [B]}, 2, [("-", 2), ("a", 1), ("b", 1)]),
        ({"r-0": [A], "r-1": [A], "r-2": [A]}, 3,
         "6 free, 0 of the allocation candidate's providers (3 of provider-a)"),
        ({"r-0": [C]}, 1, "6 free, 0 of the allocation candidate's providers (1 of provider-c)"),
        # Requests whose ids begin alike have devices of their own.
        ({"r-0": [A], "rr-0": [B], "r-x-0": [B]}, 1, [("-", 2), ("a", 1), ("b", 2)]),
    ],
)  # fmt: skip
def test_devices_are_those_of_the_allocation_candidate(mappings, count, names):
    assert left(PLACED, [request(count)], mappings) == names


def test_providers_may_stand_in_the_request_and_a_candidate_counts_before_them():
    written = request(1, {"rp_uuids": B})
    assert left(PLACED, [written]) == [("-", 2), ("a", 2), ("b", 1)]
    assert left(PLACED, [written], {"r-0": [A]}) == [("-", 2), ("a", 1), ("b", 2)]


def test_devices_of_ports_are_none_of_placements():
    assert left(PLACED, [port(1)], {"r-0": [B]}) == [("-", 1), ("a", 2), ("b", 2)]


def test_provider_of_several_pools_is_refused():
    pools = [pool(2, rp_uuid=A, x="1"), pool(2, rp_uuid=A, x="2"), pool(2, rp_uuid=B)]
    why = "6 free, 2 of the allocation candidate's providers (1 of provider-b), but devices of "
    assert left(pools, [request()], {"r-0": [B]}).startswith(why)
    assert left(pools, [request()], {}) == [(None, 1), (None, 2), (None, 2)]


def test_near_devices_that_suffice_hide_those_of_the_candidate_as_in_nova():
    pools = [pool(1, 0, rp_uuid=A), pool(5, 1, rp_uuid=B)]
    asked, mappings = [request(numa_policy="preferred")], {"r-0": [A]}
    assert isinstance(left(pools, asked, mappings, cells(1)), str)
    assert left(pools, asked, mappings) == [(None, 5)]


def test_requests_are_met_together_one_after_the_other():
    assert left([pool(3)], [request(2), request(1)]) == []
    assert left([pool(3)], [request(2), request(2)]) == "1 free"


def test_what_earlier_requests_took_stays_taken_where_a_later_one_fails():
    pools = PciPools.of([pool(3)])
    with pytest.raises(Conflict, match="2 devices for PCI alias nic requested; 1 free"):
        pools.apply_requests([request(2), request(2)])
    assert pools.free == 1


def test_request_for_no_device_wants_a_pool_of_its_kind_as_in_nova():
    assert left([pool(2)], [request(0)]) == [(None, 2)]
    assert left([pool(0)], [request(0)]) == []
    assert left([pool(2)], [request(0, {"vendor_id": "10de"})]) == "2 free, 0 with vendor_id 10de"


@pytest.mark.parametrize(
    ("pools", "asked", "has", "reason"),
    [
        ([], request(), 0, "1 device for PCI alias nic requested; 0 free"),
        ([pool(1, product_id="1"), pool(2)], request(3, {"product_id": "1520"}), 2,
         "3 devices for PCI alias nic requested; 3 free, 2 with product_id 1520"),
        ([pool(2)], request(1, {"a": "b"}, {"c": "d"}), 0,
         "1 device for PCI alias nic requested; 2 free, 0 with a b or c d"),
        ([pool(2, dev_type="type-PF")], request(), 0,
         ("1 device for PCI alias nic requested; 2 free, 0 without unrequested physical "
          "functions and vdpa devices")),
        ([pool(2, remote_managed="true")], port(), 0,
         ("1 device for port port-1 requested; 2 free, 0 without unrequested remote managed "
          "devices")),
        ([pool(2, live_migratable="True")], request(1, {"live_migratable": "true"}), 0,
         "1 device for PCI alias nic requested; 2 free, 0 live migratable"),
        ([pool(2, 3)], request(numa_policy="required"), 0,
         ("1 device for PCI alias nic requested; 2 free, 0 near enough to NUMA nodes 0, 1 (policy "
          "required)")),
    ],
)  # fmt: skip
def test_refusal_has_what_is_asked_and_what_is_there(pools, asked, has, reason):
    why = PciPools.of(pools).why_not([asked], None, cells(1, 0))
    assert why.reason == reason
    assert (why.asked, why.has) == (asked.count, has)


def test_pools_of_one_report_are_read_once_and_never_changed():
    given = (pool(1, name="tagged", trusted="true"), pool(2, name="plain"))
    reported = ReportedPools(given)
    one, other = PciPools(reported), PciPools(reported)
    assert [each["name"] for each in one] == ["plain", "tagged"]
    one.apply_requests([request(2)])
    other.pools[0]["count"] = 7
    assert (one.free, other.free) == (1, 8)
    assert PciPools(reported).free == reported.free == 3
    assert given[1]["count"] == 2
    assert reported.pools is reported.pools


def test_pools_are_true_even_where_there_are_none():
    assert PciPools.of([])
    assert PciPools.of([]).pools == list(PciPools.of([])) == []


REQUESTS = InstancePCIRequests(requests=(InstancePCIRequest(count=1),))


def test_devices_are_counted_by_node():
    near = Devices(Stats([(0, 2), (1, 1), (0, 1), (None, 5)])).near
    assert (dict(near), near[7]) == ({0: 3, 1: 1}, 0)


def test_requests_are_served_where_the_host_says_so():
    stats = Stats(near=[{0}])
    devices = Devices(stats, REQUESTS.requests, {"pci": ["p1"]})
    assert devices.can_serve([asked(0)])
    assert not devices.can_serve([asked(0), asked(1)])
    assert stats.asked == [(REQUESTS.requests, {"pci": ["p1"]})] * 2


def test_no_request_is_served_anywhere():
    stats = Stats()
    assert Devices(stats).can_serve([asked(0)])
    assert stats.asked == []


@pytest.mark.parametrize("stats", [None, (), ({"count": 1},)])
def test_host_that_reports_no_devices_has_none(stats):
    assert devices_of(stats, REQUESTS, None) is None


def test_request_without_devices_asks_for_none():
    stats = Stats()
    assert devices_of(stats, None, {}) == Devices(stats, (), {})
    assert devices_of(stats, REQUESTS, {}) == Devices(stats, REQUESTS.requests, {})
