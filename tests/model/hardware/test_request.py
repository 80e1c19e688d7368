# SPDX-License-Identifier: Apache-2.0
"""NUMA cells of a request (nova 34 observed)."""

import pytest

from placement_sched.model.hardware.numa import (
    PAGES_ANY,
    PAGES_LARGE,
    PAGES_SMALL,
    InstanceNUMACell,
    InstanceNUMATopology,
)
from tests.model.hardware.hardware_requests import read_hardware, read_hardware_error

FOUR_CPUS, NO_CPUS = frozenset(range(4)), frozenset()
PINNED_CELL_FIELDS = {"cpuset": NO_CPUS, "pcpuset": FOUR_CPUS, "cpu_policy": "dedicated"}


def build_cell_of_whole_instance(**fields):
    """Return a single node with the whole instance."""
    return InstanceNUMACell(**{"id": 0, "cpuset": FOUR_CPUS, "memory": 4096, **fields})


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({}, {}),
        ({"hw:mem_page_size": "0"}, {}),
        ({"hw:pmem": ","}, {}),
        ({"resources:VCPU": "4"}, {}),
        ({"hw:emulator_threads_policy": "share"}, {}),
    ],
)
def test_numa_topology_is_none_without_a_numa_request(extra_specs, properties):
    assert read_hardware(extra_specs, properties).numa_topology is None


@pytest.mark.parametrize(
    ("extra_specs", "properties", "node"),
    [
        ({"hw:numa_nodes": "1"}, {}, build_cell_of_whole_instance()),
        ({"hw:pmem": "6GB"}, {}, build_cell_of_whole_instance()),
        ({"hw:mem_page_size": "large"}, {}, build_cell_of_whole_instance(pagesize=PAGES_LARGE)),
        (
            {"hw:cpu_policy": "dedicated"},
            {"hw_cpu_thread_policy": "require"},
            build_cell_of_whole_instance(**PINNED_CELL_FIELDS, cpu_thread_policy="require"),
        ),
        (
            {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0-1"},
            {},
            build_cell_of_whole_instance(
                cpuset=frozenset({0, 1}), pcpuset=frozenset({2, 3}), cpu_policy="mixed"
            ),
        ),
        (
            {"resources:PCPU": "4", "trait:HW_CPU_HYPERTHREADING": "forbidden"},
            {},
            build_cell_of_whole_instance(**PINNED_CELL_FIELDS, cpu_thread_policy="isolate"),
        ),
    ],
)
def test_topology_of_one_numa_node_is_read_from_hardware_keys(extra_specs, properties, node):
    result = read_hardware(extra_specs, properties).numa_topology
    assert result == InstanceNUMATopology(cells=(node,))


def test_numa_topology_spreads_pinned_cpus_over_its_nodes():
    extra_specs = {
        "hw:numa_nodes": "2",
        "hw:cpu_policy": "mixed",
        "hw:cpu_dedicated_mask": "1-2",
        "hw:emulator_threads_policy": "isolate",
    }
    mixed = {"memory": 2048, "cpu_policy": "mixed"}
    assert read_hardware(extra_specs).numa_topology == InstanceNUMATopology(
        cells=(
            InstanceNUMACell(id=0, cpuset=frozenset({0}), pcpuset=frozenset({1}), **mixed),
            InstanceNUMACell(id=1, cpuset=frozenset({3}), pcpuset=frozenset({2}), **mixed),
        ),
        emulator_threads_policy="isolate",
    )


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({"hw:cpu_policy": "shared"}, {"hw_cpu_policy": "dedicated"}),
        ({"hw:cpu_thread_policy": "isolate"}, {"hw_cpu_thread_policy": "require"}),
        ({"hw:mem_page_size": "small"}, {"hw_mem_page_size": "large"}),
        ({"hw:locked_memory": "true"}, {"hw_locked_memory": "false"}),
        ({"hw:mem_encryption": "true"}, {"hw_mem_encryption": "false"}),
        ({"hw:numa_nodes": "1"}, {"hw_numa_nodes": "1"}),
    ],
)
def test_contradictory_hardware_keys_are_rejected(extra_specs, properties):
    hardware = read_hardware(extra_specs, properties)
    read_hardware_error(lambda: hardware.numa_topology, *extra_specs, *properties)


def test_empty_thread_policy_or_too_many_vcpus_are_rejected():
    hardware = read_hardware({"hw:numa_nodes": "1", "hw:cpu_thread_policy": ""})
    assert "'hw:cpu_thread_policy' is empty" in read_hardware_error(lambda: hardware.numa_topology)
    hardware = read_hardware({"hw:cpu_policy": "dedicated"}, vcpus=2_000_000_000)
    assert "2000000000 vcpus" in read_hardware_error(lambda: hardware.numa_topology)


NUMA_KEY, NUMA_PROPERTY = "hw:numa_nodes", "hw_numa_nodes"


def read_numa_nodes(extra_specs, properties=(), **flavor):
    """Return CPUs and memory of each node."""
    topology = read_hardware(extra_specs, properties, **flavor).numa_topology
    return topology and [(set(cell.cpuset), cell.memory) for cell in topology.cells]


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "count"),
    [
        ({}, {}, None),
        ({NUMA_KEY: ""}, {}, None),
        ({NUMA_KEY: "2"}, {}, 2),
        ({}, {NUMA_PROPERTY: "4"}, 4),
    ],
)
def test_number_of_numa_nodes_is_read_from_flavor_or_image(by_flavor, by_image, count):
    result = read_numa_nodes(by_flavor, by_image)
    assert (result and len(result)) == count


@pytest.mark.parametrize("value", ["0", "-1", "02", "two", "999999999", "9" * 5000])
def test_invalid_or_repeated_number_of_numa_nodes_is_rejected(value):
    read_hardware_error(lambda: read_numa_nodes({NUMA_KEY: value}, {}), NUMA_KEY)
    read_hardware_error(lambda: read_numa_nodes({}, {NUMA_PROPERTY: "0"}), NUMA_PROPERTY)
    read_hardware_error(
        lambda: read_numa_nodes({NUMA_KEY: "2"}, {NUMA_PROPERTY: "2"}), NUMA_KEY, NUMA_PROPERTY
    )


def build_numa_node_keys(cpus, memory, prefix="hw:numa"):
    """Return the keys that spread CPUs and memory over nodes."""
    keys = {f"{prefix}_cpus.{node}": text for node, text in enumerate(cpus)}
    return keys | {f"{prefix}_mem.{node}": text for node, text in enumerate(memory)}


def test_numa_nodes_have_equal_cpus_and_memory_by_default():
    assert read_numa_nodes({NUMA_KEY: "2"}) == [({0, 1}, 2048), ({2, 3}, 2048)]
    for vcpus in (0, 4):
        assert read_numa_nodes({NUMA_KEY: "1"}, vcpus=vcpus) == [(set(range(vcpus)), 4096)]
    extra_specs = build_numa_node_keys(["0,2-3", "1"], ["1024", "3072"]) | {"hw:numa_mem.3": "junk"}
    assert read_numa_nodes({NUMA_KEY: "2", **extra_specs}) == [({0, 2, 3}, 1024), ({1}, 3072)]
    properties = build_numa_node_keys(["0", "1-3"], ["4096", "0"], "hw_numa")
    assert read_numa_nodes({NUMA_KEY: "2"}, properties) == [({0}, 4096), ({1, 2, 3}, 0)]


@pytest.mark.parametrize(
    ("extra_specs", "properties", "named"),
    [
        ({NUMA_KEY: "3"}, {}, (NUMA_KEY, "hw:numa_cpus.N", "hw:numa_mem.N")),
        ({}, {NUMA_PROPERTY: "3"}, (NUMA_PROPERTY,)),
        (build_numa_node_keys(["0-3"], []), {}, ("hw:numa_cpus.N", "hw:numa_mem.N", NUMA_KEY)),
        (build_numa_node_keys([], ["4096"]), {}, ("hw:numa_cpus.N", "hw_numa_mem.N")),
        (build_numa_node_keys(["0-3"], ["4096"]), {}, ("hw:numa_cpus.N", NUMA_KEY)),
        (build_numa_node_keys(["0-1", "2-4"], ["2048", "2048"]), {}, ("hw:numa_cpus.N",)),
        (build_numa_node_keys(["0-2", "2-3"], ["2048", "2048"]), {}, ("hw:numa_cpus.N",)),
        (build_numa_node_keys(["0-1", "2-3"], ["2048", "2047"]), {}, ("hw:numa_mem.N",)),
        (build_numa_node_keys(["0-1", "2-3"], ["-1", "4097"]), {}, ("hw:numa_mem.N",)),
        (build_numa_node_keys(["0-1", "x"], ["2048", "2048"]), {}, ("hw:numa_cpus.1",)),
        (
            build_numa_node_keys([], ["1"]),
            build_numa_node_keys([], ["1"], "hw_numa"),
            ("hw:numa_mem.0", "hw_numa_mem.0"),
        ),
    ],
)
def test_cpus_and_memory_of_numa_nodes_must_add_up(extra_specs, properties, named):
    number = {} if NUMA_KEY in extra_specs or NUMA_PROPERTY in properties else {NUMA_KEY: "2"}
    read_hardware_error(lambda: read_numa_nodes(number | extra_specs, properties), *named)


TPM_TIS, TPM_CRB = "COMPUTE_SECURITY_TPM_TIS", "COMPUTE_SECURITY_TPM_CRB"
TPM_1_2, TPM_2_0 = "COMPUTE_SECURITY_TPM_1_2", "COMPUTE_SECURITY_TPM_2_0"
TPM_SECURITY_KEY, PMEM_PREFIX = "hw:tpm_secret_security", "CUSTOM_PMEM_NAMESPACE"
#: A property, its key, two of its values, and valid values of flavor or image.
DEVICE_SETTINGS_WITH_VALUES = [
    ("address_mode", "hw:maxphysaddr_mode", "emulate", "passthrough"),
    ("ephemeral_encryption_format", "hw:ephemeral_encryption_format", "plain", "luksv2"),
    ("pci_affinity_policy", "hw:pci_numa_affinity_policy", "socket", "preferred"),
    ("secure_boot", "os:secure_boot", "required", "optional"),
    ("sound_model", "hw:sound_model", "virtio", "ich9"),
]
BOOLEAN_DEVICE_SETTINGS = [
    ("has_ephemeral_encryption", "hw:ephemeral_encryption"),
    ("has_packed_ring", "hw:virtio_packed_ring"),
]


def read_device_value(name, extra_specs, properties=()):
    return getattr(read_hardware(extra_specs, properties).devices, name)


@pytest.mark.parametrize(("name", "key", "value", "other"), DEVICE_SETTINGS_WITH_VALUES)
def test_device_value_is_read_from_flavor_or_image_and_checked(name, key, value, other):
    image_key = key.replace(":", "_")
    assert read_device_value(name, {}) is None
    assert (
        read_device_value(name, {key: value})
        == read_device_value(name, {}, {image_key: value})
        == value
    )
    for by_flavor in (value, ""):
        assert read_device_value(name, {key: by_flavor}, {image_key: value}) == value
    read_hardware_error(
        lambda: read_device_value(name, {key: value}, {image_key: other}), key, image_key
    )
    assert "expected" in read_hardware_error(lambda: read_device_value(name, {key: "junk"}), key)


def test_error_for_an_invalid_device_value_lists_the_valid_values():
    message = read_hardware_error(
        lambda: read_device_value("secure_boot", {"os:secure_boot": "yes"})
    )
    assert message == (
        "flavor extra spec 'os:secure_boot': expected required or disabled or optional, got 'yes'"
    )


@pytest.mark.parametrize(("name", "key"), BOOLEAN_DEVICE_SETTINGS)
def test_boolean_device_value_is_read_from_flavor_or_image(name, key):
    image_key = key.replace(":", "_")
    assert (
        read_device_value(name, {})
        is read_device_value(name, {key: "false"}, {image_key: "no"})
        is False
    )
    assert (
        read_device_value(name, {key: "true"})
        is read_device_value(name, {}, {image_key: "yes"})
        is True
    )
    assert read_device_value(name, {key: "1"}, {image_key: "on"}) is True
    assert read_device_value(name, {key: "junk"}) is False
    read_hardware_error(
        lambda: read_device_value(name, {key: "no"}, {image_key: "yes"}), key, image_key
    )


@pytest.mark.parametrize(
    ("extra_specs", "amounts"),
    [
        ({}, {}),
        ({"hw:pmem": " , "}, {}),
        ({"hw:pmem": "6gb"}, {f"{PMEM_PREFIX}_6GB": 1}),
        ({"hw:pmem": "6GB, a-b,6gb,"}, {f"{PMEM_PREFIX}_6GB": 2, f"{PMEM_PREFIX}_A_B": 1}),
    ],
)
def test_pmem_namespaces_are_counted_by_resource_class(extra_specs, amounts):
    assert read_device_value("pmem_namespaces", extra_specs) == amounts


@pytest.mark.parametrize(
    ("extra_specs", "properties", "traits", "security"),
    [
        ({}, {}, (), None),
        ({"hw:tpm_model": "junk", TPM_SECURITY_KEY: "junk"}, {"hw_tpm_model": "tpm-crb"}, (), None),
        ({"hw:tpm_version": "1.2"}, {}, (TPM_TIS, TPM_1_2), "user"),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "tpm-crb"}, {}, (TPM_CRB, TPM_2_0), "user"),
        ({TPM_SECURITY_KEY: "host"}, {"hw_tpm_version": "2.0"}, (TPM_TIS, TPM_2_0), "host"),
        (
            {"hw:tpm_version": "2.0", TPM_SECURITY_KEY: "deployment"},
            {},
            (TPM_TIS, TPM_2_0),
            "deployment",
        ),
    ],
)
def test_tpm_traits_and_security_depend_on_tpm_version(extra_specs, properties, traits, security):
    assert read_device_value("tpm_traits", extra_specs, properties) == traits
    assert read_device_value("tpm_secret_security", extra_specs, properties) == security


@pytest.mark.parametrize(
    ("extra_specs", "properties", "names"),
    [
        ({"hw:tpm_version": "3"}, {}, ["hw:tpm_version"]),
        ({"hw:tpm_version": "2.0", "hw:tpm_model": "x"}, {}, ["hw:tpm_model"]),
        ({"hw:tpm_version": "1.2"}, {"hw_tpm_version": "2.0"}, ["hw_tpm_version"]),
        ({"hw:tpm_version": "1.2"}, {"hw_tpm_model": "tpm-crb"}, ["hw:tpm_version"]),
        ({"hw:tpm_version": "2.0", TPM_SECURITY_KEY: "moon"}, {}, [TPM_SECURITY_KEY]),
    ],
)
def test_tpm_with_unknown_or_different_values_is_rejected(extra_specs, properties, names):
    read_hardware_error(
        lambda: read_device_value("tpm_secret_security", extra_specs, properties), *names
    )


PAGE_SIZE_KEY, PAGE_SIZE_PROPERTY = "hw:mem_page_size", "hw_mem_page_size"
LOCKED_MEMORY_KEY, LOCKED_MEMORY_PROPERTY = "hw:locked_memory", "hw_locked_memory"


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "size"),
    [
        ({}, {}, None),
        ({PAGE_SIZE_KEY: "small"}, {}, PAGES_SMALL),
        ({PAGE_SIZE_KEY: "large"}, {}, PAGES_LARGE),
        ({PAGE_SIZE_KEY: "any"}, {}, PAGES_ANY),
        ({PAGE_SIZE_KEY: "0"}, {}, 0),
        ({PAGE_SIZE_KEY: "2MB"}, {}, 2048),
        ({PAGE_SIZE_KEY: "1GiB"}, {}, 1048576),
        ({PAGE_SIZE_KEY: "4Kb"}, {}, 0.5),
        ({PAGE_SIZE_KEY: "large"}, {PAGE_SIZE_PROPERTY: "2MB"}, 2048),
        ({PAGE_SIZE_KEY: "any"}, {PAGE_SIZE_PROPERTY: "small"}, PAGES_SMALL),
    ],
)
def test_memory_page_size_is_in_kib_or_a_keyword(by_flavor, by_image, size):
    assert read_hardware(by_flavor, by_image).memory.page_size == size


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "names"),
    [
        ({PAGE_SIZE_KEY: "huge"}, {}, (PAGE_SIZE_KEY,)),
        ({PAGE_SIZE_KEY: "9" * 400 + "TB"}, {}, (PAGE_SIZE_KEY,)),
        ({PAGE_SIZE_KEY: "Large"}, {PAGE_SIZE_PROPERTY: "2048"}, (PAGE_SIZE_KEY,)),
        ({PAGE_SIZE_KEY: "large"}, {PAGE_SIZE_PROPERTY: "x"}, (PAGE_SIZE_PROPERTY,)),
        ({}, {PAGE_SIZE_PROPERTY: "2048"}, (PAGE_SIZE_KEY, PAGE_SIZE_PROPERTY)),
        (
            {PAGE_SIZE_KEY: "2048"},
            {PAGE_SIZE_PROPERTY: "2048"},
            (PAGE_SIZE_KEY, PAGE_SIZE_PROPERTY),
        ),
    ],
)
def test_invalid_memory_page_sizes_are_rejected(by_flavor, by_image, names):
    read_hardware_error(lambda: read_hardware(by_flavor, by_image).memory.page_size, *names)


UEFI = {"hw_firmware_type": "uefi"}
MEM_ENCRYPTION = {"hw:mem_encryption": "true"}
STATELESS_UEFI = {**UEFI, "hw_firmware_stateless": "true"}


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "locked"),
    [
        ({}, {}, None),
        ({}, {LOCKED_MEMORY_PROPERTY: "false"}, False),
        ({LOCKED_MEMORY_KEY: "true", PAGE_SIZE_KEY: "any"}, {}, True),
        ({PAGE_SIZE_KEY: "any"}, {LOCKED_MEMORY_PROPERTY: "true"}, True),
        (MEM_ENCRYPTION, UEFI, True),
        ({**MEM_ENCRYPTION, LOCKED_MEMORY_KEY: "false"}, UEFI, True),
        ({**MEM_ENCRYPTION, "hw:mem_encryption_model": "amd-sev-snp"}, STATELESS_UEFI, None),
    ],
)
def test_memory_is_locked_on_request_or_for_encryption(by_flavor, by_image, locked):
    assert read_hardware(by_flavor, by_image).memory.is_locked is locked


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "names"),
    [
        ({LOCKED_MEMORY_KEY: "true"}, {}, (LOCKED_MEMORY_KEY, PAGE_SIZE_KEY)),
        (
            {LOCKED_MEMORY_KEY: "true", PAGE_SIZE_KEY: "any"},
            {LOCKED_MEMORY_PROPERTY: "false"},
            (LOCKED_MEMORY_KEY, LOCKED_MEMORY_PROPERTY),
        ),
        (MEM_ENCRYPTION, {}, ("hw:mem_encryption", "hw_firmware_type")),
    ],
)
def test_locked_memory_needs_a_page_size_and_no_contradiction(by_flavor, by_image, names):
    read_hardware_error(lambda: read_hardware(by_flavor, by_image).memory.is_locked, *names)


ENCRYPTION_MODEL_KEY = "hw:mem_encryption_model"
INTEL_TDX = {**MEM_ENCRYPTION, ENCRYPTION_MODEL_KEY: "intel-tdx"}


@pytest.mark.parametrize(
    ("extra_specs", "properties", "trait"),
    [
        ({}, {}, None),
        ({"hw:mem_encryption": "false"}, {"hw_mem_encryption": "no"}, None),
        ({ENCRYPTION_MODEL_KEY: "junk"}, {"hw_mem_encryption_model": "amd-sev"}, None),
        (MEM_ENCRYPTION, UEFI, "HW_CPU_X86_AMD_SEV"),
        ({}, {**UEFI, "hw_mem_encryption": "yes"}, "HW_CPU_X86_AMD_SEV"),
        ({**MEM_ENCRYPTION, ENCRYPTION_MODEL_KEY: "amd-sev-es"}, UEFI, "HW_CPU_X86_AMD_SEV_ES"),
        (
            {**MEM_ENCRYPTION, ENCRYPTION_MODEL_KEY: "amd-sev-snp"},
            STATELESS_UEFI,
            "HW_CPU_X86_AMD_SEV_SNP",
        ),
        (INTEL_TDX, {**STATELESS_UEFI, "hw_video_model": "none"}, "HW_CPU_X86_INTEL_TDX"),
    ],
)
def test_memory_encryption_trait_depends_on_the_encryption_model(extra_specs, properties, trait):
    encryption = read_hardware(extra_specs, properties).memory.encryption
    assert (encryption and encryption.trait) == trait


@pytest.mark.parametrize(
    ("extra_specs", "properties", "names"),
    [
        (MEM_ENCRYPTION, {**UEFI, "hw_mem_encryption": "no"}, ("hw_mem_encryption",)),
        (MEM_ENCRYPTION, {}, ("hw:mem_encryption", "hw_firmware_type")),
        (
            MEM_ENCRYPTION,
            {**UEFI, "hw_machine_type": "pc"},
            ("hw:mem_encryption", "hw_machine_type"),
        ),
        (
            {**MEM_ENCRYPTION, ENCRYPTION_MODEL_KEY: "amd-sev-snp"},
            UEFI,
            ("hw:mem_encryption", "hw_firmware_stateless"),
        ),
        (INTEL_TDX, STATELESS_UEFI, ("hw:mem_encryption", "hw_video_model")),
        ({**MEM_ENCRYPTION, ENCRYPTION_MODEL_KEY: "junk"}, UEFI, (ENCRYPTION_MODEL_KEY,)),
    ],
)
def test_contradicting_memory_encryption_keys_are_rejected(extra_specs, properties, names):
    read_hardware_error(lambda: read_hardware(extra_specs, properties).memory.encryption, *names)
