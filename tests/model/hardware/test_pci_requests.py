# SPDX-License-Identifier: Apache-2.0
"""PCI devices that an instance requests (nova 34 observed)."""

import json
import re

import pytest

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_PCI_REQUESTS, MAX_PCI_SPEC_KEYS
from placement_sched.model.hardware.pci_requests import (
    Alias,
    InstancePCIRequest,
    InstancePCIRequests,
    build_placement_terms,
    list_alias_problems,
    parse_aliases,
)
from tests.model.hardware.hardware_requests import read_hardware, read_hardware_error

NIC_SPEC = {"vendor_id": "8086", "product_id": "1520", "live_migratable": "true"}


def test_pci_requests_are_read_from_a_document():
    requests = InstancePCIRequests.from_document(
        {
            "requests": [
                {"count": 2, "spec": [NIC_SPEC], "alias_name": "nic", "numa_policy": "legacy"},
                {"count": 1, "spec": None, "request_id": "r", "requester_id": "p"},
            ]
        }
    )
    first, second = requests.requests
    assert first == InstancePCIRequest(
        count=2, spec=(NIC_SPEC,), alias_name="nic", numa_policy="legacy"
    )
    assert second == InstancePCIRequest(count=1, request_id="r", requester_id="p")


@pytest.mark.parametrize(
    ("requests", "message"),
    [
        ([{"count": 1}] * (MAX_PCI_REQUESTS + 1), "the request has 65 PCI requests, more than 64"),
        ([{"count": 1, "spec": [{}] * (MAX_PCI_SPEC_KEYS + 1)}], "501 keys in the specs"),
        ([{"count": 1, "spec": [{"a": "1", "b": "2"}] * 10}] * 51, "1020 keys in the specs"),
    ],
    ids=["requests", "specs", "keys"],
)
def test_too_many_pci_requests_or_keys_are_rejected(requests, message):
    with pytest.raises(Invalid, match=message):
        InstancePCIRequests.from_document({"requests": requests})
    keys = {f"key{number}": "1" for number in range(MAX_PCI_SPEC_KEYS // MAX_PCI_REQUESTS)}
    largest = [{"count": 1, "spec": [keys]}] * MAX_PCI_REQUESTS
    parsed = InstancePCIRequests.from_document({"requests": largest})
    assert len(parsed.requests) == MAX_PCI_REQUESTS


def test_pci_request_has_the_attributes_of_nova():
    from_port, from_alias = InstancePCIRequest(count=1), InstancePCIRequest(count=1, alias_name="a")
    assert from_port.source == InstancePCIRequest.NEUTRON_PORT == 1
    assert from_alias.source == InstancePCIRequest.FLAVOR_ALIAS == 0
    assert InstancePCIRequest(count=1, spec=(NIC_SPEC,)).is_live_migratable()
    assert not InstancePCIRequest(count=1, spec=(NIC_SPEC, {})).is_live_migratable()
    assert InstancePCIRequests()


NIC_AND_GPU_ALIASES = parse_aliases(
    [
        '{"name": "nic", "vendor_id": "8086", "product_id": "1520"}',
        '{"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "numa_policy": "required"}',
    ],
    in_placement=False,
)
PCI_AFFINITY_KEY, PCI_AFFINITY_PROPERTY = (
    "hw:pci_numa_affinity_policy",
    "hw_pci_numa_affinity_policy",
)


def read_pci_requests(value, properties=(), aliases=NIC_AND_GPU_ALIASES, **extra_specs):
    extra_specs = {"pci_passthrough:alias": value, **extra_specs}
    return read_hardware(extra_specs, properties).build_pci_requests(aliases)


def test_pci_requests_have_the_values_of_their_aliases():
    assert read_hardware({}).build_pci_requests(NIC_AND_GPU_ALIASES) == ()
    nic, gpu = read_pci_requests("nic:2, gpu: 1")
    assert (nic.alias_name, nic.count, nic.numa_policy) == ("nic", 2, "legacy")
    assert nic.spec == ({"vendor_id": "8086", "product_id": "1520"},)
    assert (gpu.alias_name, gpu.count, gpu.numa_policy) == ("gpu", 1, "required")
    assert gpu.spec == ({"vendor_id": "10de", "product_id": "1db4"},)


def test_ids_of_pci_requests_are_unique_and_reproducible():
    ids = [request.request_id for request in read_pci_requests("nic:1,nic:1,gpu:1")]
    assert len(set(ids)) == len(ids)
    assert ids == [request.request_id for request in read_pci_requests("nic:2,nic:3,gpu:4")]


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "policy"),
    [
        ({}, {}, None),
        ({PCI_AFFINITY_KEY: "socket"}, {}, "socket"),
        ({}, {PCI_AFFINITY_PROPERTY: "preferred"}, "preferred"),
        ({PCI_AFFINITY_KEY: "socket"}, {PCI_AFFINITY_PROPERTY: "socket"}, "socket"),
    ],
)
def test_requested_affinity_policy_takes_precedence_over_the_alias(by_flavor, by_image, policy):
    requests = read_pci_requests("gpu:1", by_image, **by_flavor)
    assert [request.numa_policy for request in requests] == [policy or "required"]


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "named"),
    [
        ({PCI_AFFINITY_KEY: "far"}, {}, (PCI_AFFINITY_KEY,)),
        (
            {PCI_AFFINITY_KEY: "socket"},
            {PCI_AFFINITY_PROPERTY: "legacy"},
            (PCI_AFFINITY_KEY, PCI_AFFINITY_PROPERTY),
        ),
    ],
)
def test_unknown_or_different_pci_affinity_policies_are_rejected(by_flavor, by_image, named):
    read_hardware_error(lambda: read_pci_requests("gpu:1", by_image, **by_flavor), *named)


@pytest.mark.parametrize(
    "value", ["", "nic", "nic:", "nic:x", "nic:1,", "nic:1:2", "tpu:1", ":1", "nic:-1", "nic:99999"]
)
def test_invalid_pci_requests_are_rejected_with_their_key(value):
    with pytest.raises(Invalid, match=r"^flavor extra spec 'pci_passthrough:alias': "):
        read_pci_requests(value)


@pytest.mark.parametrize(
    ("spec", "resource_class", "traits"),
    [
        ({"vendor_id": "8086", "product_id": "10ed"}, "CUSTOM_PCI_8086_10ED", set()),
        ({"resource_class": "pgpu"}, "PGPU", set()),
        ({"resource_class": "custom_gpu"}, "CUSTOM_GPU", set()),
        ({"resource_class": "a.b", "vendor_id": "1", "product_id": "2"}, "CUSTOM_A_B", set()),
        (
            {"resource_class": "x", "traits": "HW_NIC_SRIOV,big,custom_red"},
            "CUSTOM_X",
            {"HW_NIC_SRIOV", "CUSTOM_BIG", "CUSTOM_RED"},
        ),
        ({"resource_class": "x", "traits": ""}, "CUSTOM_X", set()),
    ],
)
def test_pci_spec_is_converted_to_placement_class_and_traits(spec, resource_class, traits):
    request = InstancePCIRequest(count=1, alias_name="a", spec=(spec,))
    assert build_placement_terms(request) == (resource_class, traits)


@pytest.mark.parametrize(
    ("specs", "message"),
    [
        ((), "PCI request 'a' has"),
        (({}, {}), "PCI request 'a' has"),
        (({},), "PCI request 'a' has"),
        (({"vendor_id": "8086"},), "PCI request 'a' has"),
        (({"resource_class": None},), "PCI request 'a' has"),
        (({"resource_class": 5},), "PCI request 'a': .* must be a string"),
        (({"resource_class": "x", "traits": ["a"]},), "PCI request 'a': .* must be a string"),
    ],
)
def test_pci_spec_without_a_resource_class_is_rejected_for_placement(specs, message):
    with pytest.raises(Invalid, match=message):
        build_placement_terms(InstancePCIRequest(count=1, alias_name="a", spec=specs))


PCI_IDS = {"vendor_id": "8086", "product_id": "1520"}
VF_SPEC = {**PCI_IDS, "device_type": "type-VF"}


def read_pci_aliases(*specs, in_placement=False):
    return parse_aliases([json.dumps(spec) for spec in specs], in_placement=in_placement)


def test_pci_alias_list_is_empty_by_default():
    assert read_pci_aliases() == {}


@pytest.mark.parametrize("in_placement", [False, True])
def test_pci_alias_has_the_keys_of_its_device(in_placement):
    every = {
        "name": " nic ",
        **VF_SPEC,
        "capability_type": "pci",
        "numa_policy": "required",
        "resource_class": "nic",
        "traits": "a,b",
        "live_migratable": "Yes",
    }
    spec = {
        **PCI_IDS,
        "dev_type": "type-VF",
        "capability_type": "pci",
        "resource_class": "nic",
        "traits": "a,b",
        "live_migratable": "true",
    }
    aliases = read_pci_aliases(every, in_placement=in_placement)
    assert aliases == {"nic": Alias(name="nic", numa_policy="required", specs=(spec,))}


def test_default_numa_policy_of_a_pci_alias_is_legacy():
    assert read_pci_aliases({"name": "a", **PCI_IDS})["a"].numa_policy == "legacy"


def test_pci_aliases_with_the_same_name_are_alternatives():
    other = {**VF_SPEC, "product_id": "10ed"}
    alias = read_pci_aliases(
        {"name": "a", **VF_SPEC}, {"name": "b", **PCI_IDS}, {"name": "a", **other}
    )["a"]
    assert [spec["product_id"] for spec in alias.specs] == ["1520", "10ed"]


def test_pci_alias_in_placement_may_have_a_resource_class_without_ids():
    assert read_pci_aliases({"name": "a", "resource_class": "x"}, in_placement=True)


@pytest.mark.parametrize(
    ("specs", "in_placement", "why"),
    [
        ([{**PCI_IDS}], False, "no name"),
        ([[]], False, "not a JSON object"),
        ([{"name": "", **PCI_IDS}], False, "name cannot be"),
        ([{"name": 1, **PCI_IDS}], False, "name cannot be 1"),
        ([{"name": "a", "vendor_id": "808"}], False, "vendor_id cannot be '808'"),
        ([{"name": "a", **PCI_IDS, "device_type": "vdpa"}], False, "device_type cannot be 'vdpa'"),
        ([{"name": "a", **PCI_IDS, "numa_policy": "far"}], False, "numa_policy cannot be 'far'"),
        ([{"name": "a", **PCI_IDS, "capability_type": "usb"}], False, "capability_type cannot be"),
        (
            [{"name": "a", **PCI_IDS, "live_migratable": "perhaps"}],
            False,
            "'perhaps' is not a boolean",
        ),
        (
            [{"name": "a", **PCI_IDS, "live_migratable": True}],
            False,
            "live_migratable cannot be True",
        ),
        ([{"name": "a", **PCI_IDS, "device_id": "1"}], False, "unknown key 'device_id'"),
        ([{"name": "a"}], False, "must have vendor_id and product_id, or a device_type$"),
        ([{"name": "a", "resource_class": "x"}], False, "and product_id, or a device_type$"),
        ([{"name": "a", "device_type": "type-VF"}], True, "product_id or a resource_class"),
        ([{"name": "a", "product_id": "1520"}], True, "product_id or a resource_class"),
        ([{"name": "a", **VF_SPEC}, {"name": "a", **VF_SPEC}], True, "it has several lines"),
        (
            [{"name": "a", **VF_SPEC}, {"name": "a", **VF_SPEC, "numa_policy": "socket"}],
            False,
            "numa_policy",
        ),
        (
            [{"name": "a", **VF_SPEC}, {"name": "a", **VF_SPEC, "device_type": "type-PF"}],
            False,
            "device_type",
        ),
        ([{"name": "a", **PCI_IDS}, {"name": "a", **PCI_IDS}], False, "device_type"),
    ],
)
def test_invalid_pci_alias_fails_only_requests_that_use_it(specs, in_placement, why):
    valid_spec = {"name": "other", **PCI_IDS}
    aliases = read_pci_aliases(*specs, valid_spec, in_placement=in_placement)
    (problem,) = list_alias_problems(aliases)
    assert re.search(rf"^\[pci\] alias .*{why}", problem)
    read_pci_requests("other:1", aliases=aliases)
    with pytest.raises(Invalid, match=r"^flavor extra spec 'pci_passthrough:alias': \[pci\] alias"):
        read_pci_requests("a:1", aliases=aliases)


@pytest.mark.parametrize("text", ["", "{", "nic", "[" * 100_000])
def test_pci_alias_that_is_not_json_has_a_problem(text):
    (problem,) = list_alias_problems(parse_aliases([text], in_placement=False))
    assert re.search(r"^\[pci\] alias .*it is not valid JSON", problem)


@pytest.mark.parametrize(
    "spec", [{"device_type": "type-VF"}, {"vendor_id": "8086"}, {"product_id": "1520"}]
)
def test_pci_alias_without_ids_selects_devices_of_its_type_as_in_nova_2025_1(spec):
    (request,) = read_pci_requests("a:1", aliases=read_pci_aliases({"name": "a", **spec}))
    assert request.compared_keys == {"device_type": {"dev_type"}}.get(next(iter(spec)), set(spec))
