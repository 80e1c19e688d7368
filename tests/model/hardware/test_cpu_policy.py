# SPDX-License-Identifier: Apache-2.0
"""Values that flavor and image may both set, and CPU policies (nova 34 observed)."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.hardware.cpu_policy import Pinning
from tests.model.hardware.hardware_requests import read_hardware, read_hardware_error

CPU_REJECTED = "rejected"
HYPERTHREADING_TRAIT = "trait:HW_CPU_HYPERTHREADING"
ISOLATED_EMULATOR_THREADS = {"hw:emulator_threads_policy": "isolate"}
DEDICATED_CPU_SPECS = {"hw:cpu_policy": "dedicated"}
CPU_POLICY_KEY, CPU_MASK_KEY = "hw:cpu_policy", "hw:cpu_dedicated_mask"
REALTIME_CPU_SPECS = {"hw:cpu_realtime": "yes", "hw:cpu_realtime_mask": "^0"}


def read_cpu_value(name, key, by_flavor, by_image=None):
    """Return the CPU request of a key, or assert that the error names both keys."""
    extra_specs = {} if by_flavor is None else {f"hw:{key}": by_flavor}
    properties = {} if by_image is None else {f"hw_{key}": by_image}
    keys = [f"'hw:{key}'"] + [f"'hw_{key}'"] * (by_image is not None)
    try:
        return getattr(read_hardware(extra_specs, properties).cpus, name)
    except Invalid as rejection:
        return CPU_REJECTED if all(name in rejection.detail for name in keys) else rejection.detail


def read_cpu_pinning(extra_specs, properties=(), **flavor):
    return read_hardware(extra_specs, properties, **flavor).cpus.pinning


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "policy"),
    [
        (None, None, None),
        ("", None, None),
        (None, "dedicated", "dedicated"),
        ("", "shared", "shared"),
        ("dedicated", None, "dedicated"),
        ("dedicated", "shared", "dedicated"),
        ("mixed", "shared", "mixed"),
        ("mixed", "dedicated", CPU_REJECTED),
        ("shared", "mixed", CPU_REJECTED),
        ("DEDICATED", None, CPU_REJECTED),
    ],
)
def test_image_may_not_relax_the_cpu_policy_of_the_flavor(by_flavor, by_image, policy):
    assert read_cpu_value("policy", "cpu_policy", by_flavor, by_image) == policy


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "policy"),
    [
        (None, None, None),
        (None, "isolate", "isolate"),
        ("prefer", "isolate", "prefer"),
        ("require", "require", "require"),
        ("isolate", "require", CPU_REJECTED),
        ("", "prefer", CPU_REJECTED),
        ("", None, None),
        ("junk", None, CPU_REJECTED),
    ],
)
def test_image_thread_policy_may_differ_only_from_flavor_policy_prefer(by_flavor, by_image, policy):
    assert read_cpu_value("thread_policy", "cpu_thread_policy", by_flavor, by_image) == policy


@pytest.mark.parametrize(
    ("value", "policy"),
    [(None, None), ("", None), ("share", "share"), ("isolate", "isolate"), ("other", CPU_REJECTED)],
)
def test_emulator_threads_policy_is_read_from_the_flavor(value, policy):
    assert read_cpu_value("emulator_threads", "emulator_threads_policy", value) == policy


@pytest.mark.parametrize(
    ("mask", "pinned"),
    [
        (None, None),
        ("", None),
        ("0-1", {0, 1}),
        ("^0", {1, 2, 3}),
        ("0-3", CPU_REJECTED),
        ("0,4", CPU_REJECTED),
        ("junk", CPU_REJECTED),
    ],
)
def test_dedicated_cpu_mask_must_select_some_of_the_cpus(mask, pinned):
    assert read_cpu_value("dedicated", "cpu_dedicated_mask", mask) == pinned


@pytest.mark.parametrize(
    ("extra_specs", "properties", "expected"),
    [
        ({}, {"hw_cpu_realtime_mask": "^0"}, None),
        ({"hw:cpu_realtime": "no", "hw:cpu_realtime_mask": "junk"}, {}, None),
        (REALTIME_CPU_SPECS, {}, {1, 2, 3}),
        (REALTIME_CPU_SPECS, {"hw_cpu_realtime_mask": "1"}, {1}),
        ({"hw:cpu_realtime": "yes", "hw:emulator_threads_policy": "share"}, {}, {0, 1, 2, 3}),
    ],
)
def test_realtime_mask_of_the_image_takes_precedence(extra_specs, properties, expected):
    assert read_hardware(extra_specs, properties).cpus.realtime == expected


@pytest.mark.parametrize(
    ("extra_specs", "properties", "names"),
    [
        ({}, {}, "'hw:emulator_threads_policy'"),
        ({}, {"hw_cpu_realtime_mask": "0-3"}, "'hw_cpu_realtime_mask'"),
        ({"hw:cpu_realtime_mask": "0-4"}, {}, "'hw:cpu_realtime_mask'"),
        ({"hw:emulator_threads_policy": "x"}, {}, "'hw:emulator_threads_policy'"),
    ],
)
def test_invalid_realtime_masks_are_rejected(extra_specs, properties, names):
    cpus = read_hardware({"hw:cpu_realtime": "true", **extra_specs}, properties).cpus
    assert names in read_hardware_error(lambda: cpus.realtime)


@pytest.mark.parametrize(
    ("extra_specs", "policy"),
    [
        ({}, None),
        ({CPU_POLICY_KEY: "mixed", CPU_MASK_KEY: "1", "resources:PCPU": "0"}, "mixed"),
        ({"resources:VCPU": "1"}, "shared"),
        ({"resources:PCPU": "4"}, "dedicated"),
        ({"resources1:PCPU": "1", "resources:PCPU": "3"}, "dedicated"),
        ({"resources:PCPU": "5", **ISOLATED_EMULATOR_THREADS}, "dedicated"),
        ({"resources:PCPU": "many", "resources_a:PCPU": "1"}, None),
    ],
)
def test_cpu_policy_is_derived_from_the_requested_resource_classes(extra_specs, policy):
    assert read_cpu_pinning(extra_specs).cpu_policy == policy


@pytest.mark.parametrize(
    ("extra_specs", "properties", "names"),
    [
        ({"resources:PCPU": "4"}, {"hw_cpu_policy": "dedicated"}, ("hw_cpu_policy",)),
        ({"resources:VCPU": "4", "hw:cpu_policy": "shared"}, {}, ("hw:cpu_policy",)),
        ({"resources:PCPU": "4", "resources:VCPU": "4"}, {}, ("resources:VCPU",)),
        ({"resources:PCPU": "3"}, {}, ("resources:PCPU",)),
        ({"resources1:PCPU": "7"}, {}, ("resources1:PCPU",)),
        ({"resources1:VCPU": "2", "resources2:PCPU": "2"}, {}, ("resources2:PCPU",)),
        (DEDICATED_CPU_SPECS | {"resources1:VCPU": "2"}, {}, ("resources1:VCPU",)),
        ({"resources:PCPU": "4", **ISOLATED_EMULATOR_THREADS}, {}, ("hw:emulator_threads_policy",)),
    ],
)
def test_requested_cpu_classes_must_match_cpu_policy_and_vcpus(extra_specs, properties, names):
    read_hardware_error(lambda: read_cpu_pinning(extra_specs, properties), *names, *extra_specs)


@pytest.mark.parametrize(
    ("extra_specs", "properties", "policy"),
    [
        ({}, {}, None),
        ({"hw:cpu_thread_policy": "prefer"}, {}, "prefer"),
        ({HYPERTHREADING_TRAIT: "required"}, {}, "require"),
        ({"trait1:HW_CPU_HYPERTHREADING": "forbidden"}, {}, "isolate"),
        ({}, {HYPERTHREADING_TRAIT: "required"}, "require"),
        ({HYPERTHREADING_TRAIT: "forbidden"}, {HYPERTHREADING_TRAIT: "required"}, "isolate"),
        ({HYPERTHREADING_TRAIT: "perhaps"}, {}, None),
    ],
)
def test_thread_policy_is_derived_from_the_hyperthreading_trait(extra_specs, properties, policy):
    assert read_cpu_pinning(DEDICATED_CPU_SPECS | extra_specs, properties).thread_policy == policy


@pytest.mark.parametrize(
    ("extra_specs", "properties"),
    [
        ({"hw:cpu_thread_policy": "prefer", HYPERTHREADING_TRAIT: "required"}, {}),
        (
            {
                "hw:cpu_thread_policy": "isolate",
                HYPERTHREADING_TRAIT.replace(":", "1:"): "required",
            },
            {},
        ),
        ({"hw:cpu_thread_policy": "require"}, {HYPERTHREADING_TRAIT: "required"}),
    ],
)
def test_thread_policy_and_hyperthreading_trait_exclude_each_other(extra_specs, properties):
    message = read_hardware_error(
        lambda: read_cpu_pinning(DEDICATED_CPU_SPECS | extra_specs, properties),
        [*extra_specs, *properties][-1],
    )
    assert "cpu_thread_policy' and " in message


@pytest.mark.parametrize(
    ("extra_specs", "policy", "pinned"),
    [
        ({}, None, set()),
        ({CPU_POLICY_KEY: "shared"}, "shared", set()),
        ({CPU_POLICY_KEY: "dedicated"}, "dedicated", {0, 1, 2, 3}),
        ({CPU_POLICY_KEY: "mixed", CPU_MASK_KEY: "1-2"}, "mixed", {1, 2}),
        ({CPU_POLICY_KEY: "mixed", **REALTIME_CPU_SPECS}, "mixed", {1, 2, 3}),
    ],
)
def test_set_of_pinned_cpus_is_determined_by_the_cpu_policy(extra_specs, policy, pinned):
    result = read_cpu_pinning(extra_specs)
    assert (result.cpu_policy, result.pinned) == (policy, pinned)
    assert result.is_requested is bool(pinned)


def test_pinning_has_the_thread_and_emulator_policies():
    result = read_cpu_pinning(
        DEDICATED_CPU_SPECS | ISOLATED_EMULATOR_THREADS, {"hw_cpu_thread_policy": "prefer"}, vcpus=1
    )
    assert result == Pinning(
        cpu_policy="dedicated",
        thread_policy="prefer",
        emulator_threads="isolate",
        pinned=frozenset({0}),
    )


@pytest.mark.parametrize(
    ("extra_specs", "names"),
    [
        ({"hw:cpu_thread_policy": "prefer"}, ("hw:cpu_thread_policy", CPU_POLICY_KEY)),
        ({"hw:emulator_threads_policy": "isolate"}, ("hw:emulator_threads_policy", CPU_POLICY_KEY)),
        ({CPU_MASK_KEY: "1"}, (CPU_MASK_KEY, CPU_POLICY_KEY)),
        (REALTIME_CPU_SPECS, ("hw:cpu_realtime", CPU_POLICY_KEY)),
        ({CPU_POLICY_KEY: "mixed"}, (CPU_POLICY_KEY, CPU_MASK_KEY, "hw:cpu_realtime")),
        (
            {CPU_POLICY_KEY: "mixed", CPU_MASK_KEY: "1", **REALTIME_CPU_SPECS},
            (CPU_POLICY_KEY, CPU_MASK_KEY, "hw:cpu_realtime"),
        ),
    ],
)
def test_extra_specs_that_contradict_the_cpu_policy_are_rejected(extra_specs, names):
    read_hardware_error(lambda: read_cpu_pinning(extra_specs), *names)


TPM_VERSION_KEY, TPM_VERSION_PROPERTY = "hw:tpm_version", "hw_tpm_version"
TPM_NAME_IN_FLAVOR, TPM_NAME_IN_IMAGE = (
    f"flavor extra spec '{TPM_VERSION_KEY}'",
    f"image property '{TPM_VERSION_PROPERTY}'",
)


def test_different_values_of_flavor_and_image_are_rejected_with_both_keys():
    both = read_hardware({TPM_VERSION_KEY: "2.0"}, {TPM_VERSION_PROPERTY: "1.2"})
    message = f"{TPM_NAME_IN_FLAVOR} is '2.0', {TPM_NAME_IN_IMAGE} is '1.2': they must be equal"
    assert read_hardware_error(lambda: both.find_agreed_value("tpm_version")) == message
    both = read_hardware({}, {"os_secure_boot": "required"})
    assert both.find_source("secure_boot", "os") == "image property 'os_secure_boot'"
    for flavor, image in (("true", "false"), ("", "true")):
        both = read_hardware({"hw:locked_memory": flavor}, {"hw_locked_memory": image})
        read_hardware_error(
            lambda b=both: b.find_agreed_flag("locked_memory"),
            "hw:locked_memory",
            "hw_locked_memory",
        )


@pytest.mark.parametrize(
    ("properties", "stateless"),
    [
        ({}, False),
        ({"hw_firmware_stateless": "yes"}, False),
        ({"hw_firmware_stateless": "yes", "hw_firmware_type": "bios"}, False),
        ({"hw_firmware_stateless": "no", "hw_firmware_type": "uefi"}, False),
        ({"hw_firmware_stateless": "yes", "hw_firmware_type": "uefi"}, True),
    ],
)
def test_stateless_firmware_needs_uefi(properties, stateless):
    assert read_hardware({}, properties).has_stateless_firmware is stateless
