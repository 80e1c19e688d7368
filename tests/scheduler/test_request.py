# SPDX-License-Identifier: Apache-2.0
"""What is derived of a request that leaves NUMA nodes and PCI devices out."""

import json

import pytest

from placement_sched.errors import (
    ConfigurationError,
    Invalid,
    TooComplex,
    UnknownResourceClassOrTrait,
)
from placement_sched.scheduler.policies.registry import pci_aliases
from placement_sched.scheduler.request import derive_defaults
from placement_sched.scheduler.request_groups import groups_of
from placement_sched.scheduler.resource_request import find_unknown_names
from tests.support.states import a_spec, settings_with

GPU = {"name": "gpu", "vendor_id": "10de", "product_id": "1db4"}
FPGA = {"name": "fpga", "resource_class": "CUSTOM_FPGA", "traits": "custom_fast,HW_NUMA_ROOT"}
ALIASES = [json.dumps(GPU), json.dumps(FPGA)]
REQUEST = {"count": 1, "alias_name": "gpu", "request_id": "r", "spec": [GPU]}


def settings(**options):
    return settings_with(pci__alias=ALIASES, filter_scheduler__pci_in_placement=True, **options)


def groups(extra_specs=None, document=None, **options):
    """Return class and traits of each group of a PCI device, by suffix."""
    document = document or {}
    spec = derive_defaults(a_spec(extra_specs, **document), document, settings(**options))
    made = groups_of(spec)
    return {
        suffix: (*made[suffix].resources.items(), *sorted(made[suffix].required))
        for suffix in made.suffixes
    }


def test_pinned_cpus_make_a_numa_node():
    spec = derive_defaults(a_spec({"hw:cpu_policy": "dedicated"}), {}, settings_with())
    (cell,) = spec.numa_topology.cells
    assert (cell.pcpuset, cell.memory) == (frozenset({0}), 512)


@pytest.mark.parametrize("given", [None, {"cells": [{"cpuset": [0], "memory": 512}]}])
def test_topology_that_is_given_is_taken_as_it_is(given):
    # What nova's API would refuse of the flavor, it has let through before.
    extra_specs = {"hw:cpu_policy": "dedicated", "resources:VCPU": "1"}
    document = {"numa_topology": given}
    spec = derive_defaults(a_spec(extra_specs, **document), document, settings_with())
    assert (spec.numa_topology is None) is (given is None)
    with pytest.raises(
        Invalid, match=r"resources:VCPU.*hw:cpu_policy|hw:cpu_policy.*resources:VCPU"
    ):
        derive_defaults(a_spec(extra_specs), {}, settings_with())


def test_pci_devices_are_groups_only_where_placement_has_them():
    extra_specs = {"pci_passthrough:alias": "gpu:1"}
    outside = settings_with(pci__alias=[json.dumps(GPU)])
    spec = derive_defaults(a_spec(extra_specs), {}, outside)
    assert [one.alias_name for one in spec.pci_requests.requests] == ["gpu"]
    assert spec.requested_resources == ()
    assert len(groups(extra_specs)) == 1


def test_each_pci_device_is_a_group_of_its_own():
    made = groups({"pci_passthrough:alias": "gpu:2,fpga:1"})
    assert sorted(made.values()) == [
        (("CUSTOM_FPGA", 1), "CUSTOM_FAST", "HW_NUMA_ROOT"),
        (("CUSTOM_PCI_10DE_1DB4", 1),),
        (("CUSTOM_PCI_10DE_1DB4", 1),),
    ]
    assert sorted(suffix.rpartition("-")[2] for suffix in made) == ["0", "0", "1"]
    assert made == groups({"pci_passthrough:alias": "gpu:2,fpga:1"}), "the same each time"


def test_pci_requests_that_are_given_are_taken_as_they_are():
    extra_specs = {"pci_passthrough:alias": "gpu:5"}
    assert groups(extra_specs, {"pci_requests": None}) == {}
    given = groups(extra_specs, {"pci_requests": {"requests": [REQUEST]}})
    assert given == {"r-0": (("CUSTOM_PCI_10DE_1DB4", 1),)}


def test_devices_of_ports_are_not_asked_of_placement():
    port = REQUEST | {"alias_name": None, "requester_id": "port"}
    assert groups(document={"pci_requests": {"requests": [port]}}) == {}


def test_request_with_several_specs_cannot_be_asked_of_placement():
    several = REQUEST | {"spec": [GPU, GPU]}
    with pytest.raises(
        Invalid, match=r"not 2 \(at \$.request_spec.pci_requests.requests\[0\].spec"
    ):
        groups(document={"pci_requests": {"requests": [several]}})


def test_more_devices_than_groups_are_allowed_are_refused_at_once():
    many = REQUEST | {"count": 2_000_000_000}
    with pytest.raises(TooComplex, match="2000000000 PCI devices, each a request group"):
        groups(document={"pci_requests": {"requests": [many]}})


def test_alias_that_cannot_be_is_found_at_start():
    with pytest.raises(ConfigurationError, match=r"\[pci\] alias"):
        pci_aliases(settings_with(pci__alias=["{"]))


@pytest.mark.parametrize(
    ("requests", "told"),
    [
        ([REQUEST, REQUEST], r"duplicate request group 'r-0'.*pci_requests.requests\[1\]"),
        ([REQUEST | {"request_id": "not a suffix"}], r"pci_requests.requests\[0\]"),
        ([REQUEST | {"spec": [{}]}], r"pci_requests.requests\[0\]"),
    ],
    ids=["one id twice", "no suffix", "no device"],
)
def test_device_that_cannot_be_asked_for_is_told_by_its_place(requests, told):
    with pytest.raises(Invalid, match=told):
        groups(document={"pci_requests": {"requests": requests}})


def test_class_of_an_alias_that_is_not_there_is_told_by_flavor_and_alias():
    spec = derive_defaults(a_spec({"pci_passthrough:alias": "gpu:1"}), {}, settings())
    unknown = UnknownResourceClassOrTrait("", kind="resource class", names=["CUSTOM_PCI_10DE_1DB4"])
    assert find_unknown_names(spec, unknown).detail == (
        "No such resource class: CUSTOM_PCI_10DE_1DB4 "
        "(flavor extra spec 'pci_passthrough:alias', [pci] alias 'gpu')"
    )
