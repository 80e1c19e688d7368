# SPDX-License-Identifier: Apache-2.0
"""Host filter by PCI devices, as nova 34 decides."""

import pytest

from placement_sched.explain.phrases import describe_rejection
from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.scheduler.filters.pci_passthrough_filter import PciPassthroughFilter
from tests.support.states import build_host_state, build_spec

PROVIDER_A, PROVIDER_B = "provider-a", "provider-b"
CANDIDATE_OF_ROOT_PROVIDER = {"mappings": {"": ["root"]}}


def build_pci_pool(count, product_id="1520", **more):
    return {"vendor_id": "8086", "product_id": product_id, "numa_node": 0, "count": count, **more}


def build_pci_host(pools, *candidates):
    result = build_host_state(pci_stats=None if pools is None else PciPools.from_report(pools))
    result.allocation_candidates = candidates
    return result


def build_device_request(*counts, **fields):
    """Return a request for these numbers of devices of the aliases nic-0, nic-1, ..."""
    requests = [
        {
            "count": count,
            "alias_name": f"nic-{number}",
            "request_id": f"r{number}",
            "spec": [{"product_id": "1520"}],
            **fields,
        }
        for number, count in enumerate(counts)
    ]
    return build_spec(pci_requests={"requests": requests})


def find_filter_rejection(state, request_spec):
    result = PciPassthroughFilter().rejection(state, request_spec)
    return result and describe_rejection(result)


@pytest.mark.parametrize(
    "request_spec", [build_device_request(), build_spec(), build_spec(pci_requests=None)]
)
def test_every_host_passes_without_device_requests(request_spec):
    for state in (
        build_pci_host(None),
        build_pci_host([]),
        build_pci_host([build_pci_pool(1)], CANDIDATE_OF_ROOT_PROVIDER),
    ):
        assert PciPassthroughFilter().host_passes(state, request_spec)


@pytest.mark.parametrize(
    ("pools", "counts", "reason"),
    [
        ([build_pci_pool(2)], (2,), None),
        ([build_pci_pool(1), build_pci_pool(1, parent_ifname="eth0")], (1, 1), None),
        ([build_pci_pool(1)], (2,), "2 devices for PCI alias nic-0 requested: 1 free"),
        ([build_pci_pool(1), build_pci_pool(3, "9")], (2,),
         "2 devices for PCI alias nic-0 requested: 4 free, 1 with product_id 1520"),
        # The second alias gets the devices that the first alias leaves.
        ([build_pci_pool(3)], (2, 2), "2 devices for PCI alias nic-1 requested: 1 free"),
        ([], (1,), "1 device for PCI alias nic-0 requested: 0 free"),
        (None, (1, 2), "3 PCI devices requested, the host reports none"),
    ],
)  # fmt: skip
def test_host_needs_every_requested_pci_device(pools, counts, reason):
    assert (
        find_filter_rejection(
            build_pci_host(pools, CANDIDATE_OF_ROOT_PROVIDER), build_device_request(*counts)
        )
        == reason
    )


def test_rejection_has_the_numbers_of_requested_and_free_devices():
    rejection = PciPassthroughFilter().rejection(
        build_pci_host([build_pci_pool(1)], CANDIDATE_OF_ROOT_PROVIDER), build_device_request(2)
    )
    assert rejection.as_json() == {
        "kind": "pci_device",
        "cause": "devices",
        "alias": "nic-0",
        "conditions": [{"condition": "free", "devices": 1}],
        "requested": 2,
        "actual": 1,
    }
    assert (
        find_filter_rejection(
            build_pci_host([build_pci_pool(1)], CANDIDATE_OF_ROOT_PROVIDER),
            build_device_request(1, numa_policy="required"),
        )
        is None
    )


def test_allocation_candidates_without_free_devices_are_removed():
    first, second, third = (
        {"mappings": {"r0-0": [uuid]}} for uuid in (PROVIDER_A, PROVIDER_B, PROVIDER_A)
    )
    state = build_pci_host(
        [build_pci_pool(1, rp_uuid=PROVIDER_B), build_pci_pool(1, rp_uuid="c")],
        first,
        second,
        third,
    )
    (passed,) = PciPassthroughFilter().evaluate_hosts([state], build_device_request(1))
    assert passed.candidates == [second]
    assert state.allocation_candidates == [first, second, third]
    assert PciPassthroughFilter().host_passes(state, build_device_request(1))
    assert state.allocation_candidates == [second]


def test_host_without_a_fitting_allocation_candidate_is_rejected():
    candidates = [{"mappings": {"r0-0": [uuid]}} for uuid in (PROVIDER_A, PROVIDER_B)]
    state = build_pci_host([build_pci_pool(2, rp_uuid="c")], *candidates)
    reason = (
        "none of 2 allocation candidates fits, the first: 1 device for PCI alias nic-0 requested: "
        "2 free, 0 of the allocation candidate's providers (1 of provider-a)"
    )
    assert find_filter_rejection(state, build_device_request(1)) == reason
    assert state.allocation_candidates == candidates
    state.allocation_candidates = []
    later = find_filter_rejection(state, build_device_request(1))
    assert later == "no allocation candidate of the host remains"


def test_earlier_instances_of_the_request_use_pci_devices():
    state = build_pci_host([build_pci_pool(2)], CANDIDATE_OF_ROOT_PROVIDER)
    for _ in range(2):
        assert find_filter_rejection(state, build_device_request(1)) is None
        state.consume_from_request(build_device_request(1))
    reason = find_filter_rejection(state, build_device_request(1))
    assert reason == "1 device for PCI alias nic-0 requested: 0 free"
