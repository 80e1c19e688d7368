# SPDX-License-Identifier: Apache-2.0
"""Validators of extra specs: shipped, of operators and of installed packages.

Extra specs of virtual hardware and quotas.

Extra specs of resources, traits, aggregates and host states.
"""

import sys

import os_resource_classes
import os_traits
import pytest

from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.scheduler import extra_specs as validators
from placement_sched.scheduler.extra_specs import ExtraSpecValidator, check, list_validators


@pytest.mark.parametrize(
    "key", ["mine", "acme:x", "hw", "HW:x", "trait", "resource:VCPU", "in_tree:x"]
)
def test_extra_specs_without_a_validator_are_valid(key):
    check(key, "whatever")


UNKNOWN_EXTRA_SPEC_KEYS = (
    "accel:x",
    "hw:",
    "hw:cpu_polcy",
    "hw:numa_cpus.x",
    "hw_rng:x",
    "os:x",
    "pci_passthrough:x",
    "quota:x",
    "vmware:x",
    "aggregate_instance_extra_specs:",
    "capabilities:cpu_info:",
    "capabilities:nonsense",
    "capabilities:stats:x-y",
    "resources:vcpu",
    "resources:NO_SUCH",
    "scheduler:prefer_trait",
    "trait:CUSTOM_a",
    "trait:NO_SUCH",
    "trait:",
)


@pytest.mark.parametrize("key", UNKNOWN_EXTRA_SPEC_KEYS)
def test_unknown_extra_spec_key_is_reported(key):
    with pytest.raises(Invalid) as error:
        check(key, "1")
    expected = f"Validation failed; extra spec '{key}' does not appear to be a valid extra spec."
    assert error.value.detail == expected


def test_every_validator_has_a_unique_name_and_a_description():
    names = [entry.name for entry in list_validators()]
    assert sorted(set(names)) == names
    assert all(item.description.endswith(".") for item in list_validators())


@pytest.fixture
def install_package(tmp_path, monkeypatch):
    """Give a function that installs a package whose module ``acme_specs`` is this text."""

    def clear_caches():
        validators.list_validators.cache_clear()
        validators._index_validators.cache_clear()
        sys.modules.pop("acme_specs", None)

    def install(text, entry="acme_specs"):
        (tmp_path / "acme_specs.py").write_text(text)
        info = tmp_path / "acme-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{validators.GROUP}]\nacme = {entry}\n")
        monkeypatch.syspath_prepend(tmp_path)
        clear_caches()

    yield install
    clear_caches()


ACME_VALIDATORS_MODULE_TEXT = """
from placement_sched.scheduler import extra_specs


def register():
    return [
        extra_specs.ExtraSpecValidator(
            name="acme:racks",
            description="How many racks.",
            value={"type": int, "min": 1, "description": "A number."},
        ),
        extra_specs.ExtraSpecValidator("acme:rack.{row}", "A rack.", {"type": str}, [
            {"name": "row", "pattern": "[a-z]", "description": "The row."},
        ]),
    ]
"""


def test_extra_specs_of_an_installed_package_are_validated(install_package):
    install_package(ACME_VALIDATORS_MODULE_TEXT)
    check("acme:racks", "1")
    check("acme:rack.b", "x")
    check("hw:cpu_policy", "shared")
    for key, value in (("acme:racks", "0"), ("acme:rack.B", "x"), ("acme:other", "x")):
        with pytest.raises(Invalid, match="Validation failed"):
            check(key, value)


@pytest.mark.parametrize(
    ("text", "entry", "words"),
    [
        ("", "no_such_module", "cannot be loaded"),
        ("", "acme_specs", "cannot be loaded"),
        ("def register():\n    return 1 / 0\n", "acme_specs", "division by zero"),
        ("def register():\n    return ['x']\n", "acme_specs", "'x' is not an ExtraSpecValidator"),
    ],
)
def test_error_names_the_entry_point_of_an_invalid_package(install_package, text, entry, words):
    install_package(text, entry)
    entry_point = r"entry point acme \(.*\) of placement_sched\.extra_spec_validators"
    with pytest.raises(ConfigurationError, match=f"{entry_point}.*{words}"):
        list_validators()


def build_validator(name="acme:x", parameters=None, **value):
    return ExtraSpecValidator(name, "What it is.", value, parameters)


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        *(
            (build_validator(type=bool), value)
            for value in ("true", "False", "YES", " on ", "t", "0", "n")
        ),
        (build_validator(type=int), "-5"),
        (build_validator(type=int, min=0, max=0), "0"),
        (build_validator(type=str), "anything\nat all"),
        (build_validator(type=str, enum=("a",)), "a"),
        (build_validator(type=str, pattern="[0-9]+"), "12"),
    ],
)
def test_validator_accepts_valid_values(entry, value):
    entry.check(value)


@pytest.mark.parametrize(
    ("entry", "value", "words"),
    [
        (build_validator(type=bool), "", "'' is not a valid boolean-like value."),
        (build_validator(type=bool), "maybe", "'maybe' is not a valid boolean-like value."),
        (build_validator(type=int), "x", "'x' is not a valid integer value."),
        (build_validator(type=int), "1.0", "'1.0' is not a valid integer value."),
        (build_validator(type=int, min=1), "0", "'0' is less than the min value of '1'."),
        (build_validator(type=int, max=1), "2", "'2' is greater than the max value of '1'."),
        (build_validator(type=str, enum=["a", "b"]), "A", "'A' is not one of: a, b."),
        (build_validator(type=str, pattern="[0-9]+"), "1,", "'1,' is not of the format '[0-9]+'."),
    ],
)
def test_validator_rejects_an_invalid_value_with_the_expected_type_or_range(entry, value, words):
    with pytest.raises(Invalid) as error:
        entry.check(value)
    assert error.value.detail == f"Validation failed; {words}"


def test_key_patterns_of_validators_match_complete_keys():
    entry = build_validator(
        "acme{group}:x.{num}",
        [
            {"name": "group", "pattern": "[a-z]*", "description": "A group."},
            {"name": "num", "pattern": r"\d+|any", "description": "A number."},
        ],
        type=str,
    )
    matching = ("acme:x.1", "acmeb:x.any")
    assert all(entry.name_pattern.fullmatch(key) for key in matching)
    assert not any(map(entry.name_pattern.fullmatch, ("acme:x.", "acme:xx1", "acmeB:x.1")))
    assert entry.namespace_pattern.fullmatch("acmeb")
    assert build_validator("plain", type=str).namespace_pattern is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"value": {}}, "the type of the value"),
        ({"value": {"type": list}}, "the type of the value"),
        ({"value": {"type": "str"}}, "the type of the value"),
        ({"value": {"type": str, "min": 1}}, "str has no min"),
        ({"value": {"type": int, "pattern": "x"}}, "int has no pattern"),
        ({"value": {"type": str, "pattern": "("}}, "acme:x"),
        ({"name": "acme:{y}"}, "acme:{y}: 'y'"),
        ({"name": "acme:{y}", "parameters": [{"name": "y"}]}, "'pattern'"),
        ({"name": "acme:{y}", "parameters": [{"name": "y", "pattern": "("}]}, "acme:{y}"),
    ],
)
def test_invalid_validator_definition_raises_a_value_error_with_the_reason(changes, words):
    value = {"name": "acme:x", "description": "What.", "value": {"type": str}, **changes}
    with pytest.raises(ValueError, match=words.replace("{", r"\{")):
        ExtraSpecValidator(**value)


#: Values that fit, by key.
VALID_HARDWARE_VALUES = {
    "accel:device_profile": "gpu",
    "hide_hypervisor_id": "yes",
    "hw:boot_menu": "true",
    "hw:cpu_dedicated_mask": "^0,1-3",
    "hw:cpu_policy": "mixed",
    "hw:cpu_sockets": "2",
    "hw:mem_page_size": "2MiB",
    "hw:numa_cpus.0": "0-3",
    "hw:numa_mem.12": "512",
    "hw:numa_nodes": "2",
    "hw:pmem": "A,B",
    "hw:redirected_usb_ports": "15",
    "hw_rng:allowed": "true",
    "hw_video:ram_max_mb": "0",
    "os:secure_boot": "required",
    "pci_passthrough:alias": "a1:2, b1:1",
    "quota:cpu_quota": "-1",
    "quota:cpu_shares": "10",
    "quota:vif_shares_level": "custom",
    "vmware:hw_version": "vmx-13",
}
#: Values that do not fit, by key.
INVALID_HARDWARE_VALUES = {
    "hide_hypervisor_id": "x",
    "hw:boot_menu": "maybe",
    "hw:cpu_dedicated_mask": "all",
    "hw:cpu_policy": "Shared",
    "hw:cpu_sockets": "0",
    "hw:mem_page_size": "huge",
    "hw:numa_mem.1": "0",
    "hw:redirected_usb_ports": "16",
    "hw_video:ram_max_mb": "-1",
    "os:secure_boot": "optional",
    "pci_passthrough:alias": "a1",
    "quota:cpu_shares": "-1",
    "quota:vif_shares_level": "most",
}


#: Values that fit, by key.
VALID_SCHEDULING_VALUES = {
    "aggregate_instance_extra_specs:ssd": "true",
    "aggregate_instance_extra_specs:a:b": "s== x",
    "capabilities:cpu_info:features": "<in> avx",
    "capabilities:stats": "x",
    "capabilities:vcpus": "> 1",
    "group_policy": "isolate",
    "resources:VCPU": "2",
    "resources:CUSTOM_GOLD": "1",
    "resources1:PCPU": "1",
    "resources_NET-1:SRIOV_NET_VF": "1",
    "trait:HW_CPU_X86_AVX2": "required",
    "trait:CUSTOM_WINDOWS_LICENSED": "forbidden",
    f"trait{'x' * 64}:CUSTOM_A": "required",
    "scheduler:prefer_traits": "HW_CPU_X86_AVX2, CUSTOM_A",
    "scheduler:avoid_traits": "CUSTOM_A",
    "scheduler:spread_by": "rack",
    "scheduler:max_skew": "1",
    "scheduler:spread_mode": "soft",
}
#: Values that do not fit, by key.
INVALID_SCHEDULING_VALUES = {
    "group_policy": "both",
    "resources:VCPU": "some",
    "scheduler:avoid_traits": "CUSTOM_A CUSTOM_B",
    "scheduler:max_skew": "0",
    "scheduler:prefer_traits": "fast",
    "scheduler:spread_by": " ",
    "scheduler:spread_mode": "firm",
    "trait:CUSTOM_A": "preferred",
}


@pytest.mark.parametrize("values", [VALID_HARDWARE_VALUES, VALID_SCHEDULING_VALUES])
def test_valid_extra_spec_values_are_accepted(values):
    for key, value in values.items():
        check(key, value)


@pytest.mark.parametrize(
    ("key", "value"), [*INVALID_HARDWARE_VALUES.items(), *INVALID_SCHEDULING_VALUES.items()]
)
def test_invalid_extra_spec_value_is_reported(key, value):
    with pytest.raises(Invalid, match=f"^Validation failed; '{value}' is "):
        check(key, value)


def test_every_standard_trait_and_resource_class_is_valid():
    for trait in os_traits.get_traits():
        check(f"trait:{trait}", "required")
    for name in os_resource_classes.STANDARDS:
        check(f"resources:{name}", "1")
