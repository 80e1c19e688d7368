"""Nothing that a request asks for is silently ignored."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.not_yet import check
from tests.scheduler.states import a_spec


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"requested_resources": [{"resources": {}}]}, "requested_resources"),
        ({"request_level_params": {"root_required": ["A"]}}, "request_level_params"),
        ({"request_level_params": {"same_subtree": [["_1"]]}}, "request_level_params"),
        ({"numa_topology": {"cells": []}}, "numa_topology"),
        ({"pci_requests": {"requests": []}}, "pci_requests"),
    ],
)
def test_field_is_refused_by_name(fields, key):
    with pytest.raises(Invalid, match=f"request_spec.{key} is not served"):
        check(a_spec(**fields))


@pytest.mark.parametrize(
    "key",
    [
        "resources1:VCPU",
        "resources_NET:VCPU",
        "trait1:HW_CPU_X86_AVX",
        "in_tree1:uuid",
        "group_policy",
        "hw:numa_nodes",
        "hw:numa_cpus.0",
        "hw:cpu_policy",
        "hw:cpu_thread_policy",
        "hw:mem_page_size",
        "hw:mem_encryption",
        "hw:emulator_threads_policy",
        "pci_passthrough:alias",
        "accel:device_profile",
        "resources1:VCPU\n",
        "hw:sound_model",
        "os:secure_boot",
    ],
)
def test_extra_spec_is_refused_by_name(key):
    with pytest.raises(Invalid, match=f"flavor.extra_specs.{key}"):
        check(a_spec({key: "1"}))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hw_cpu_policy", "dedicated"),
        ("hw_numa_nodes", "2"),
        ("hw_mem_page_size", "large"),
        ("hw_mem_encryption", "true"),
        ("hw_cpu_thread_policy", "isolate"),
        ("hw_firmware_stateless", "true"),
        ("hw_sound_model", "virtio"),
        ("os_secure_boot", "required"),
    ],
)
def test_image_property_is_refused_by_name(name, value):
    with pytest.raises(Invalid, match=f"image.properties.{name}"):
        check(a_spec(properties={name: value}))


@pytest.mark.parametrize(
    ("extra_specs", "properties", "fields"),
    [
        ({}, {}, {}),
        ({"resources:VCPU": "2", "trait:A": "required", "hw:cpu_policy": "shared"}, {}, {}),
        ({"hw:watchdog_action": "reset", "quota:cpu_shares": "5", "capabilities:x": "1"}, {}, {}),
        ({"hw:mem_encryption": "false"}, {"hw_mem_encryption": "no"}, {}),
        ({"os:secure_boot": "optional"}, {"os_secure_boot": "disabled"}, {}),
        ({}, {"hw_firmware_stateless": "false"}, {}),
        ({}, {"hw_cpu_policy": "shared", "hw_disk_bus": "scsi"}, {}),
        ({}, {}, {"numa_topology": None, "pci_requests": None, "requested_resources": []}),
        ({}, {}, {"instance_group": {"policy": "affinity"}, "scheduler_hints": {"group": "x"}}),
        ({}, {}, {"scheduler_hints": {"same_host": ["x"]}, "request_level_params": {}}),
    ],
)
def test_what_is_served_or_asks_for_nothing_passes(extra_specs, properties, fields):
    check(a_spec(extra_specs, properties, **fields))
