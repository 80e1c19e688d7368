# SPDX-License-Identifier: Apache-2.0
"""Host filter by capabilities, as nova 34 decides."""

import json

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.filters.compute_capabilities_filter import ComputeCapabilitiesFilter
from tests.support.states import build_host_state, build_spec, find_rejection

REPORTED_CPU_INFO = {
    "arch": "x86_64",
    "model": "Nehalem",
    "topology": {"cores": 4, "threads": 2},
    "features": ["aes", "mmx"],
    "x": {"y": "z"},
    "f": 1.5,
    "b": True,
}
HOST_WITH_CAPABILITIES = build_host_state(
    free_ram_mb=900,
    cpu_info=json.dumps(REPORTED_CPU_INFO),
    num_io_ops=2,
    stats={"foo": "7", "bar": '{"q": "r"}'},
)


def find_filter_rejection(host=HOST_WITH_CAPABILITIES, **extra_specs):
    plugin = ComputeCapabilitiesFilter()
    plugin.check(build_spec(extra_specs))
    return find_rejection(plugin, host, build_spec(extra_specs))


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("free_ram_mb", "900"),
        ("free_ram_mb", ">= 900"),
        ("free_ram_mb", "s== 900"),
        ("free_ram_mb", "<in> 90"),
        ("free_ram_mb", "<or> 900 <or> 1"),
        ("capabilities:free_ram_mb", "900"),
        ("foo", "7"),
        ("capabilities:foo", "7"),
        ("capabilities:stats:foo", "7"),
        ("capabilities:stats:bar:q", "r"),
        ("capabilities:bar:q", "r"),
        ("capabilities:cpu_info:features", "<in> aes"),
        ("capabilities:cpu_info:features", "<all-in> aes mmx"),
        ("capabilities:cpu_info:topology:cores", "4"),
        ("capabilities:cpu_info:topology:cores", ">= 4"),
        ("capabilities:cpu_info:topology", "<in> cores"),
        ("capabilities:cpu_info:x:y", "z"),
        ("capabilities:cpu_info:b", "True"),
        ("capabilities:cpu_info:f", "1.5"),
        ("capabilities:cpu_info", "<in> Nehalem"),
        ("cpu_info", "<in> Nehalem"),
        ("hypervisor_type", "s== QEMU"),
        ("hypervisor_version", ">= 1005003"),
        ("host", "<in> cn"),
        ("capabilities:supported_instances", "<in> 'kvm'"),
        ("vcpus_total", "= 8"),
        ("scheduler:host", "cn9"),
    ],
)
def test_host_with_the_capability_passes(key, expected):
    assert find_filter_rejection(**{key: expected}) is None


@pytest.mark.parametrize(
    ("extra_specs", "reason"),
    [
        ({"foo": "8"}, "foo: '8' requested, 7 found"),
        ({"foo": "7", "num_io_ops": "<= 1"}, "num_io_ops: '<= 1' requested, 2 found"),
        ({"capabilities:foo": ">= 8"}, "capabilities:foo: '>= 8' requested, 7 found"),
        ({"free_ram_mb": ">= 901"}, "free_ram_mb: '>= 901' requested, 900 found"),
        ({"free_ram_mb": ""}, "free_ram_mb: '' requested, 900 found"),
        ({"capabilities:nope": "1"}, "capabilities:nope: '1' requested, the host has none"),
        (
            {"capabilities:cpu_info:features": "aes"},
            "capabilities:cpu_info:features: 'aes' requested, ['aes', 'mmx'] found",
        ),
        (
            {"capabilities:cpu_info:b": "true"},
            "capabilities:cpu_info:b: 'true' requested, True found",
        ),
        (
            {"capabilities:numa_topology": "None"},
            "capabilities:numa_topology: 'None' requested, the host has none",
        ),
    ],
)
def test_host_without_the_capability_is_rejected_with_the_requested_and_found_value(
    extra_specs, reason
):
    assert find_filter_rejection(**extra_specs) == reason


UNKNOWN_CAPABILITY_PATHS = (
    "",
    ":",
    "cpu_info:nope",
    "cpu_info:x:y:z",
    "cpu_info:arch:q",
    "cpu_info:features:0",
)


def test_flavor_without_the_unmatched_extra_specs_is_suggested():
    request = build_spec({"foo": "8", "capabilities:bar:q": "r", "hypervisor_type": "s== Xen"})
    (change,) = ComputeCapabilitiesFilter().suggested_changes(HOST_WITH_CAPABILITIES, request)
    suggested = (change.action, change.values)
    assert suggested == ("drop_extra_specs", {"keys": ["foo", "hypervisor_type"]})
    assert change.spec.flavor.extra_specs == {"capabilities:bar:q": "r"}


@pytest.mark.parametrize("path", [*UNKNOWN_CAPABILITY_PATHS, "free_ram_mb:x", "foo:x", "nope:x"])
def test_unknown_capability_path_rejects_the_host(path):
    assert find_filter_rejection(**{f"capabilities:{path}": "z"})


@pytest.mark.parametrize("key", ["nope", "capabilities", "hw:foo", "bar:q", "trait:X", "quota:cpu"])
def test_extra_specs_of_other_namespaces_reject_no_host(key):
    assert find_filter_rejection(**{key: "junk"}) is None


@pytest.mark.parametrize("cpu_info", ["not json", "null", "[1]", "5", None])
def test_cpu_info_without_the_key_rejects_the_host(cpu_info):
    host = build_host_state(cpu_info=cpu_info)
    assert find_filter_rejection(host, **{"capabilities:cpu_info:model": "Nehalem"})


@pytest.mark.parametrize(
    ("cpu_info", "expected", "reason"),
    [
        ({"maxphysaddr": {"mode": "emulate", "bits": 42}}, "42", None),
        ({"maxphysaddr": {"mode": "emulate", "bits": 46}}, "42", None),
        ({"maxphysaddr": {"bits": 40}}, "42", "hw:maxphysaddr_bits: '>= 42' requested, 40 found"),
        ({"maxphysaddr": {}}, "42", "hw:maxphysaddr_bits: '>= 42' requested, the host has none"),
        ({"arch": "x86_64"}, "1", "hw:maxphysaddr_bits: '>= 1' requested, the host has none"),
    ],
    ids=["equal bits", "more bits", "fewer bits", "no bits reported", "no maxphysaddr"],
)
def test_host_with_too_few_physical_address_bits_is_rejected(cpu_info, expected, reason):
    host = build_host_state(cpu_info=json.dumps(cpu_info))
    assert find_filter_rejection(host, **{"hw:maxphysaddr_bits": expected}) == reason


@pytest.mark.parametrize("key", ["free_ram_mb", "capabilities:whatever", "hw:maxphysaddr_bits"])
def test_invalid_number_in_extra_specs_is_an_error_before_hosts_are_filtered(key):
    with pytest.raises(Invalid, match=key):
        ComputeCapabilitiesFilter().check(build_spec({key: ">= many"}))
    ComputeCapabilitiesFilter().check(build_spec({"hw:foo": ">= many", "quota": ">= many"}))


def test_invalid_number_compared_with_a_stat_is_an_error_while_hosts_are_filtered():
    with pytest.raises(Invalid, match="many"):
        ComputeCapabilitiesFilter().rejection(
            HOST_WITH_CAPABILITIES, build_spec({"foo": ">= many"})
        )


def test_text_of_a_host_compared_with_a_number_is_an_error():
    with pytest.raises(ValueError, match="QEMU"):
        find_filter_rejection(hypervisor_type=">= 5")
