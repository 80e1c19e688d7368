# SPDX-License-Identifier: Apache-2.0
"""Weigher of PCI devices, as nova 34 weighs the same hosts."""

from types import SimpleNamespace

import pytest

from placement_sched.model.hardware.pci_devices import PciPools
from placement_sched.scheduler.weights.pci import PCIWeigher
from tests.scheduler.weights.weighing import find_raw_weights, weigh_hosts
from tests.support.states import build_host_state, build_spec

PCI_DEVICE_SPEC = build_spec(
    pci_requests={"requests": [{"count": 1, "spec": [{}], "alias_name": "nic"}]}
)


def build_pci_host(name, *counts, **attributes):
    ids = {"vendor_id": "8086", "product_id": "1520", "numa_node": None}
    pools = PciPools.from_report([{**ids, "count": count} for count in counts])
    return build_host_state(name, pci_stats=pools, **attributes)


HOSTS = [
    build_pci_host("cn1", 4),
    build_pci_host("cn2"),
    build_pci_host("cn3", 1, 1),
    build_pci_host("cn4", 0),
]


@pytest.mark.parametrize("spec", [build_spec(), PCI_DEVICE_SPEC])
def test_host_with_the_fewest_free_pci_devices_is_best(spec):
    weights = [("cn2", 1.0), ("cn4", 1.0), ("cn3", 0.5), ("cn1", 0.0)]
    assert weigh_hosts(PCIWeigher, HOSTS, spec) == weights


@pytest.mark.parametrize(
    ("counts", "weight"),
    [((), 100), ((0,), 100), ((1,), 99), ((30, 40), 30), ((98,), 2), ((99,), 1), ((50, 5000), 1)],
)
def test_raw_weight_of_many_free_pci_devices_has_a_minimum(counts, weight):
    raw = find_raw_weights(PCIWeigher, [build_pci_host("cn1", *counts), build_pci_host("cn2")])[
        "cn1"
    ]
    assert raw == weight


def test_free_pci_devices_are_counted_without_pools_and_after_earlier_instances():
    weights = find_raw_weights(PCIWeigher, [build_host_state("cn1"), build_pci_host("cn2", 3)])
    assert weights == {"cn1": 100, "cn2": 97}
    # Pools of a third-party plugin.
    other = build_host_state("cn1", pci_stats=SimpleNamespace(pools=[{"count": 2}, {"count": 3}]))
    assert find_raw_weights(PCIWeigher, [other, build_pci_host("cn2")]) == {"cn1": 95, "cn2": 100}
    # An earlier instance of the request.
    state = build_pci_host("cn1", 5)
    state.consume_from_request(PCI_DEVICE_SPEC)
    assert find_raw_weights(PCIWeigher, [state, build_pci_host("cn2")])["cn1"] == 96
