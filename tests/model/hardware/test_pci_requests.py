# SPDX-License-Identifier: Apache-2.0
"""PCI devices that an instance requests (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_PCI_REQUESTS, MAX_PCI_SPEC_KEYS
from placement_sched.model.hardware.pci_requests import (
    InstancePCIRequest,
    InstancePCIRequests,
    aliases_of,
    placement_terms,
)
from tests.model.hardware.asked import hardware_of, refused

SPEC = {"vendor_id": "8086", "product_id": "1520", "live_migratable": "true"}


def test_requests_are_read_from_a_document():
    requests = InstancePCIRequests.from_document(
        {
            "requests": [
                {"count": 2, "spec": [SPEC], "alias_name": "nic", "numa_policy": "legacy"},
                {"count": 1, "spec": None, "request_id": "r", "requester_id": "p"},
            ]
        }
    )
    by_alias, by_port = requests.requests
    assert by_alias == InstancePCIRequest(
        count=2, spec=(SPEC,), alias_name="nic", numa_policy="legacy"
    )
    assert by_port == InstancePCIRequest(count=1, request_id="r", requester_id="p")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ([{"count": 1}] * (MAX_PCI_REQUESTS + 1), "65 PCI requests, at most 64"),
        ([{"count": 1, "spec": [{}] * (MAX_PCI_SPEC_KEYS + 1)}], "501 keys in the specs"),
        ([{"count": 1, "spec": [{"a": "1", "b": "2"}] * 10}] * 51, "1020 keys in the specs"),
    ],
    ids=["requests", "specs", "keys"],
)
def test_more_requests_than_hosts_can_be_asked_in_a_moment_are_refused(asked, said):
    with pytest.raises(Invalid, match=said):
        InstancePCIRequests.from_document({"requests": asked})


def test_as_many_requests_as_hosts_can_be_asked_in_a_moment_are_read():
    keys = {f"key{number}": "1" for number in range(MAX_PCI_SPEC_KEYS // MAX_PCI_REQUESTS)}
    asked = [{"count": 1, "spec": [keys]}] * MAX_PCI_REQUESTS
    assert len(InstancePCIRequests.from_document({"requests": asked}).requests) == MAX_PCI_REQUESTS


def test_request_without_an_alias_comes_from_a_port():
    assert InstancePCIRequest(count=1).source == InstancePCIRequest.NEUTRON_PORT == 1
    assert (
        InstancePCIRequest(count=1, alias_name="a").source == InstancePCIRequest.FLAVOR_ALIAS == 0
    )


def test_request_is_live_migratable_if_all_its_devices_are():
    assert InstancePCIRequest(count=1, spec=(SPEC,)).is_live_migratable()
    assert not InstancePCIRequest(count=1, spec=(SPEC, {})).is_live_migratable()


def test_requests_are_true_even_without_any():
    assert InstancePCIRequests()


ALIASES = aliases_of(
    [
        '{"name": "nic", "vendor_id": "8086", "product_id": "1520"}',
        '{"name": "gpu", "vendor_id": "10de", "product_id": "1db4", "numa_policy": "required"}',
    ],
    in_placement=False,
)
KEY, NAME = "hw:pci_numa_affinity_policy", "hw_pci_numa_affinity_policy"


def asking(value, properties=(), **extra_specs):
    extra_specs = {"pci_passthrough:alias": value, **extra_specs}
    return hardware_of(extra_specs, properties).pci_requests(ALIASES)


def test_requests_are_none_unless_the_flavor_asks():
    assert hardware_of({}).pci_requests(ALIASES) == ()


def test_requests_are_as_their_aliases_say():
    assert [
        (request.alias_name, request.count, request.numa_policy, request.spec)
        for request in asking("nic:2, gpu: 1")
    ] == [
        ("nic", 2, "legacy", ({"vendor_id": "8086", "product_id": "1520"},)),
        ("gpu", 1, "required", ({"vendor_id": "10de", "product_id": "1db4"},)),
    ]


def test_requests_have_ids_of_their_own_and_the_same_each_time():
    ids = [request.request_id for request in asking("nic:1,nic:1,gpu:1")]
    assert len(set(ids)) == len(ids)
    assert ids == [request.request_id for request in asking("nic:2,nic:3,gpu:4")]


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "policy"),
    [
        ({}, {}, None),
        ({KEY: "socket"}, {}, "socket"),
        ({}, {NAME: "preferred"}, "preferred"),
        ({KEY: "socket"}, {NAME: "socket"}, "socket"),
    ],
)
def test_affinity_policy_wins_over_those_of_the_aliases(by_flavor, by_image, policy):
    requests = asking("gpu:1", by_image, **by_flavor)
    assert [request.numa_policy for request in requests] == [policy or "required"]


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "named"),
    [({KEY: "far"}, {}, (KEY,)), ({KEY: "socket"}, {NAME: "legacy"}, (KEY, NAME))],
)
def test_unknown_or_different_affinity_policies_are_refused(by_flavor, by_image, named):
    refused(lambda: asking("gpu:1", by_image, **by_flavor), *named)


@pytest.mark.parametrize(
    "value", ["", "nic", "nic:", "nic:x", "nic:1,", "nic:1:2", "tpu:1", ":1", "nic:-1", "nic:99999"]
)
def test_invalid_requests_are_refused_naming_the_key(value):
    with pytest.raises(Invalid, match=r"^flavor extra spec 'pci_passthrough:alias': "):
        asking(value)


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
def test_placement_terms_are_names_that_placement_takes(spec, resource_class, traits):
    request = InstancePCIRequest(count=1, alias_name="a", spec=(spec,))
    assert placement_terms(request) == (resource_class, traits)


@pytest.mark.parametrize(
    "spec", [(), ({}, {}), ({},), ({"vendor_id": "8086"},), ({"resource_class": None},)]
)
def test_placement_terms_refuse_what_is_not_one_kind_of_device(spec):
    with pytest.raises(Invalid, match="PCI request 'a' has"):
        placement_terms(InstancePCIRequest(count=1, alias_name="a", spec=spec))


@pytest.mark.parametrize("spec", [{"resource_class": 5}, {"resource_class": "x", "traits": ["a"]}])
def test_placement_terms_refuse_what_is_not_a_string(spec):
    with pytest.raises(Invalid, match=r"PCI request 'a': .* must be a string"):
        placement_terms(InstancePCIRequest(count=1, alias_name="a", spec=(spec,)))
