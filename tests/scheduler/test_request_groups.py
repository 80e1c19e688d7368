# SPDX-License-Identifier: Apache-2.0
"""Request groups of flavor, image and ports.

Aggregates with the traits of a request.
"""

import re

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.request_groups import (
    build_groups,
    collect_required_traits,
    compute_flavor_amounts,
    get_tagged_aggregates_mode,
    map_tagged_aggregates,
)
from tests.support.states import build_aggregates, build_settings, build_spec

PINNED_CPUS = {"hw:cpu_policy": "dedicated"}
PORT_REQUEST_GROUP = {"requester_id": "port", "resources": {"NET_BW_EGR_KILOBIT_PER_SEC": 1000}}
FLAVOR_FIELDS = {"vcpus": 4, "memory_mb": 512, "root_gb": 1}


#: The only group of a flavor without extra specs.
DEFAULT_GROUP = {"": "DISK_GB:1 MEMORY_MB:512 VCPU:1"}


def list_group_amounts(extra_specs=None, properties=None, **fields):
    """Return the amounts of each group as texts, by suffix."""
    groups = build_groups(build_spec(extra_specs, properties, **fields))
    return {
        group.suffix: " ".join(
            f"{name}:{amount}" for name, amount in sorted(group.resources.items())
        )
        for group in groups
    }


def list_flavor_amounts(extra_specs, properties=None, **flavor):
    return list_group_amounts(
        None, properties, flavor=FLAVOR_FIELDS | flavor | {"extra_specs": extra_specs}
    )[""]


@pytest.mark.parametrize(
    ("flavor", "fields", "disk"),
    [
        ({"root_gb": 10}, {}, 10),
        ({"root_gb": 10, "ephemeral_gb": 5}, {}, 15),
        ({"root_gb": 10, "swap": 1}, {}, 11),
        ({"root_gb": 10, "swap": 1024}, {}, 11),
        ({"root_gb": 10, "swap": 1025}, {}, 12),
        ({"root_gb": 10, "ephemeral_gb": 5, "swap": 512}, {"is_bfv": True}, 6),
        ({"root_gb": 10}, {"is_bfv": True}, None),
    ],
    ids=str,
)
def test_requested_disk_is_root_ephemeral_and_swap_without_a_volume(flavor, fields, disk):
    result = list_group_amounts(flavor={"vcpus": 1, "memory_mb": 1} | flavor, **fields)[""]
    assert result == (f"DISK_GB:{disk} " if disk else "") + "MEMORY_MB:1 VCPU:1"


@pytest.mark.parametrize(
    ("extra_specs", "expected"),
    [
        ({}, "DISK_GB:1 MEMORY_MB:512 VCPU:4"),
        ({"resources:VCPU": "2"}, "DISK_GB:1 MEMORY_MB:512 VCPU:2"),
        ({"resources:VCPU": "0"}, "DISK_GB:1 MEMORY_MB:512"),
        ({"resources:PCPU": "4"}, "DISK_GB:1 MEMORY_MB:512 PCPU:4"),
        ({"resources:VGPU": "1"}, "DISK_GB:1 MEMORY_MB:512 VCPU:4 VGPU:1"),
        ({"resources:MEMORY_MB": "1", "resources:DISK_GB": "0"}, "MEMORY_MB:1 VCPU:4"),
        (PINNED_CPUS, "DISK_GB:1 MEMORY_MB:512 PCPU:4"),
        (PINNED_CPUS | {"hw:emulator_threads_policy": "isolate"}, "DISK_GB:1 MEMORY_MB:512 PCPU:5"),
        (PINNED_CPUS | {"hw:emulator_threads_policy": "share"}, "DISK_GB:1 MEMORY_MB:512 PCPU:4"),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1-2"},
            "DISK_GB:1 MEMORY_MB:512 PCPU:2 VCPU:2",
        ),
        (
            {
                "hw:cpu_policy": "mixed",
                "hw:cpu_dedicated_mask": "^0",
                "hw:emulator_threads_policy": "isolate",
            },
            "DISK_GB:1 MEMORY_MB:512 PCPU:4 VCPU:1",
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0-2"},
            "DISK_GB:1 MEMORY_MB:512 PCPU:1 VCPU:3",
        ),
        ({"hw:cpu_policy": "shared"}, "DISK_GB:1 MEMORY_MB:512 VCPU:4"),
        (
            {"hw:pmem": "a,b,a"},
            "CUSTOM_PMEM_NAMESPACE_A:2 CUSTOM_PMEM_NAMESPACE_B:1 DISK_GB:1 MEMORY_MB:512 VCPU:4",
        ),
    ],
    ids=str,
)
def test_requested_amounts_are_those_of_the_flavor_unless_extra_specs_change_them(
    extra_specs, expected
):
    assert list_flavor_amounts(extra_specs) == expected


@pytest.mark.parametrize(
    ("extra_specs", "ports", "expected"),
    [
        (
            {"resources_NUMA0:VCPU": "2", "resources_NUMA0:MEMORY_MB": "256"},
            [],
            {"_NUMA0": "MEMORY_MB:256 VCPU:2", "": "DISK_GB:1"},
        ),
        (
            {},
            [{"requester_id": "p", "resources": {"VCPU": 3}}],
            {"p": "VCPU:3", "": "DISK_GB:1 MEMORY_MB:512"},
        ),
        ({"resources1:CUSTOM_A": "0"}, [], DEFAULT_GROUP),
        *(
            ({f"resources{suffix}:CUSTOM_A": "3"}, [], {suffix: "CUSTOM_A:3", **DEFAULT_GROUP})
            for suffix in ("1", "_", "-a", "_NUMA0", "Z" * 64)
        ),
        ({"resources" + "Z" * 65 + ":VCPU": "1"}, [], DEFAULT_GROUP),
        ({"resources 1:VCPU": "1"}, [], DEFAULT_GROUP),
        ({"xtrait:A": "1"}, [], DEFAULT_GROUP),
    ],
    ids=str,
)
def test_resource_classes_of_named_groups_are_not_in_the_group_of_the_flavor(
    extra_specs, ports, expected
):
    assert list_group_amounts(extra_specs, requested_resources=ports) == expected


UEFI_PROPERTIES = {"hw_firmware_type": "uefi"}
STATELESS_FIRMWARE_PROPERTIES = UEFI_PROPERTIES | {"hw_firmware_stateless": "true"}


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        (PINNED_CPUS | {"hw:cpu_thread_policy": "require"}, {}, "HW_CPU_HYPERTHREADING"),
        (PINNED_CPUS, {"hw_cpu_thread_policy": "isolate"}, "!HW_CPU_HYPERTHREADING"),
        (PINNED_CPUS | {"hw:cpu_thread_policy": "prefer"}, {}, ""),
        ({"hw:mem_encryption": "true"}, UEFI_PROPERTIES, "HW_CPU_X86_AMD_SEV"),
        ({"hw:tpm_version": "2.0"}, {}, "COMPUTE_SECURITY_TPM_2_0 COMPUTE_SECURITY_TPM_TIS"),
        ({"os:secure_boot": "required"}, {}, "COMPUTE_SECURITY_UEFI_SECURE_BOOT"),
        ({"os:secure_boot": "optional"}, {}, ""),
        ({"hw:maxphysaddr_mode": "passthrough"}, {}, "COMPUTE_ADDRESS_SPACE_PASSTHROUGH"),
        ({"hw:maxphysaddr_mode": "emulate"}, {}, "COMPUTE_ADDRESS_SPACE_EMULATED"),
        ({}, STATELESS_FIRMWARE_PROPERTIES, "COMPUTE_SECURITY_STATELESS_FIRMWARE"),
        ({"hw:pci_numa_affinity_policy": "socket"}, {}, "COMPUTE_SOCKET_PCI_NUMA_AFFINITY"),
        ({"hw:pci_numa_affinity_policy": "required"}, {}, ""),
        ({"trait:CUSTOM_A": "required", "trait:CUSTOM_B": "forbidden"}, {}, "CUSTOM_A !CUSTOM_B"),
        ({}, {"trait:CUSTOM_A": "required", "trait1:CUSTOM_B": "required"}, "CUSTOM_A"),
        # Placement strips the names in nova's query.
        (
            {"trait: CUSTOM_A": "required", "trait:CUSTOM_B\t": "forbidden"},
            {},
            "CUSTOM_A !CUSTOM_B",
        ),
        ({}, {"trait:\tCUSTOM_A ": "required", "trait: ": "required"}, "CUSTOM_A"),
    ],
    ids=str,
)
def test_hardware_extra_specs_and_image_properties_become_traits(extra_specs, properties, expected):
    plain = build_groups(build_spec(extra_specs, properties)).plain
    assert (plain.resources.get("MEM_ENCRYPTION_CONTEXT") == 1) == ("AMD_SEV" in expected)
    required = [*sorted(plain.required), *(f"!{name}" for name in sorted(plain.forbidden))]
    assert " ".join(required) == expected


@pytest.mark.parametrize(
    ("extra_specs", "properties", "places"),
    [
        (
            {"trait:CUSTOM_A": "forbidden"},
            {"trait:CUSTOM_A": "required"},
            "flavor extra spec 'trait:CUSTOM_A' image property 'trait:CUSTOM_A'",
        ),
        (
            {"trait:HW_CPU_HYPERTHREADING": "required", "hw:cpu_thread_policy": "isolate"}
            | PINNED_CPUS,
            {},
            "extra spec 'trait:HW_CPU_HYPERTHREADING' extra spec 'hw:cpu_thread_policy'",
        ),
        (
            {"trait:COMPUTE_SECURITY_UEFI_SECURE_BOOT": "forbidden"},
            {"os_secure_boot": "required"},
            "'trait:COMPUTE_SECURITY_UEFI_SECURE_BOOT' image property 'os_secure_boot'",
        ),
    ],
    ids=["trait of flavor and image", "hyperthreading trait", "secure boot trait"],
)
def test_error_for_contradicting_traits_names_both_places(extra_specs, properties, places):
    with pytest.raises(Invalid) as error:
        build_groups(build_spec(extra_specs, properties))
    for place in re.findall(r"[a-z ]*'[^']+'", places):
        assert place.strip() in error.value.detail


def test_trait_may_be_required_by_one_group_and_forbidden_to_another():
    spec = {"trait1:CUSTOM_A": "required", "trait:CUSTOM_A": "forbidden"}
    groups = build_groups(build_spec(spec))
    assert (set(groups["1"].required), set(groups.plain.forbidden)) == ({"CUSTOM_A"},) * 2


def test_each_entry_of_requested_resources_is_a_request_group():
    group = PORT_REQUEST_GROUP | {
        "required_traits": ["CUSTOM_PHYSNET_A"],
        "forbidden_traits": ["CUSTOM_B"],
        "aggregates": ["11111111-1111-1111-1111-111111111111,22222222222222222222222222222222"],
        "forbidden_aggregates": ["33333333-3333-3333-3333-333333333333"],
        "in_tree": "44444444-4444-4444-4444-444444444444",
    }
    result = build_groups(build_spec(requested_resources=[group]))["port"].build()
    assert result.as_parameters() == [
        ("resourcesport", "NET_BW_EGR_KILOBIT_PER_SEC:1000"),
        ("requiredport", "CUSTOM_PHYSNET_A,!CUSTOM_B"),
        (
            "member_ofport",
            "in:11111111-1111-1111-1111-111111111111,22222222-2222-2222-2222-222222222222",
        ),
        ("member_ofport", "!in:33333333-3333-3333-3333-333333333333"),
        ("in_treeport", "44444444-4444-4444-4444-444444444444"),
    ]


def test_aggregates_of_a_group_may_be_lists_as_in_nova():
    uuids = ["11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"]
    joined, listed = (
        build_groups(
            build_spec(requested_resources=[PORT_REQUEST_GROUP | {"aggregates": [value]}])
        )["port"].aggregates
        for value in (",".join(uuids), uuids)
    )
    assert joined == listed


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        ([PORT_REQUEST_GROUP | {"requester_id": None}], "requested_resources[0].requester_id"),
        ([PORT_REQUEST_GROUP | {"requester_id": ""}], "requested_resources[0].requester_id"),
        ([PORT_REQUEST_GROUP | {"requester_id": "a b"}], "not 'a b'"),
        ([PORT_REQUEST_GROUP | {"requester_id": "a" * 65}], "1 to 64"),
        ([PORT_REQUEST_GROUP, PORT_REQUEST_GROUP], "requested_resources[1].requester_id"),
        ([{"requester_id": "a", "resources": {}}], "request group 'a' is empty"),
        (
            [PORT_REQUEST_GROUP | {"requester_id": "1"}],
            "duplicate request group '1', also from flavor extra spec",
        ),
        (
            [
                PORT_REQUEST_GROUP
                | {"required_traits": ["CUSTOM_A"], "forbidden_traits": ["CUSTOM_A"]}
            ],
            "[0].forbidden_traits and required by $.request_spec.requested_resources[0].required_",
        ),
    ],
    ids=str,
)
def test_error_for_an_invalid_requested_group_names_its_place(groups, expected):
    with pytest.raises(Invalid) as error:
        build_groups(build_spec({"resources1:CUSTOM_A": "1"}, requested_resources=groups))
    assert expected in error.value.detail


def test_amounts_of_a_flavor_are_those_of_all_its_groups():
    flavor = build_spec(
        {"resources1:CUSTOM_A": "2", "resources2:CUSTOM_A": "3"} | PINNED_CPUS
    ).flavor
    amounts = compute_flavor_amounts(flavor, boot_from_volume=False)
    assert amounts == (("CUSTOM_A", 5), ("DISK_GB", 1), ("MEMORY_MB", 512), ("PCPU", 1))


TRAIT_A, TRAIT_B = {"trait:CUSTOM_A": "required"}, {"trait:CUSTOM_B": "required"}


def test_required_traits_are_those_of_flavor_image_and_groups():
    port = {"requester_id": "port", "resources": {"X": 1}, "required_traits": ["CUSTOM_D"]}
    request = build_spec(
        TRAIT_A | {"trait1:CUSTOM_C": "required", "trait:CUSTOM_NOT": "forbidden"},
        TRAIT_B | {"trait7:CUSTOM_E": "required", "hw_tpm_version": "2.0"},
        requested_resources=[port],
        request_level_params={"root_required": ["CUSTOM_ROOT"]},
    )
    tpm = {"COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"}
    assert collect_required_traits(request) == {f"CUSTOM_{entry}" for entry in "ABCDE"} | tpm


def test_aggregates_are_listed_by_the_trait_that_reserves_them():
    world = build_aggregates(
        TRAIT_B, TRAIT_A | TRAIT_B, {"trait:CUSTOM_A": "forbidden"}, {"CUSTOM_A": "required"}
    )
    first, second = (aggregate.uuid for aggregate in world[:2])
    result = map_tagged_aggregates({"CUSTOM_B", "CUSTOM_A", "CUSTOM_C"}, world)
    assert list(result.items()) == [("CUSTOM_A", [second]), ("CUSTOM_B", [first, second])]


@pytest.mark.parametrize("value", ["off", "prefer", "require"])
def test_policy_of_required_aggregates_by_trait_is_off_unless_configured(value):
    assert get_tagged_aggregates_mode(build_settings()) == "off"
    assert (
        get_tagged_aggregates_mode(build_settings(scheduler__required_aggregates_by_trait=value))
        == value
    )
