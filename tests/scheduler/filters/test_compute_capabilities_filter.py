# SPDX-License-Identifier: Apache-2.0
"""ComputeCapabilitiesFilter, as nova 34 decides the same cases."""

import json

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.filters.compute_capabilities_filter import ComputeCapabilitiesFilter
from tests.support.states import a_host, a_spec

CPU_INFO = {
    "arch": "x86_64",
    "model": "Nehalem",
    "topology": {"cores": 4, "threads": 2},
    "features": ["aes", "mmx"],
    "x": {"y": "z"},
    "f": 1.5,
    "b": True,
}
HOST = a_host(
    free_ram_mb=900,
    cpu_info=json.dumps(CPU_INFO),
    num_io_ops=2,
    stats={"foo": "7", "bar": '{"q": "r"}'},
)


def refusal(host=HOST, **extra_specs):
    plugin = ComputeCapabilitiesFilter()
    plugin.check(a_spec(extra_specs))
    found = plugin.refusal(host, a_spec(extra_specs))
    assert plugin.host_passes(host, a_spec(extra_specs)) is (found is None)
    return found and found.reason


@pytest.mark.parametrize(
    ("key", "wanted"),
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
    ],
)
def test_host_that_has_what_is_asked_passes(key, wanted):
    assert refusal(**{key: wanted}) is None


@pytest.mark.parametrize(
    ("key", "wanted", "reason"),
    [
        ("foo", "8", "foo: '8' requested, 7 found"),
        ("capabilities:foo", ">= 8", "capabilities:foo: '>= 8' requested, 7 found"),
        ("free_ram_mb", ">= 901", "free_ram_mb: '>= 901' requested, 900 found"),
        ("free_ram_mb", "", "free_ram_mb: '' requested, 900 found"),
        ("capabilities:nope", "1", "capabilities:nope: '1' requested, the host has none"),
        (
            "capabilities:cpu_info:features",
            "aes",
            "capabilities:cpu_info:features: 'aes' requested, ['aes', 'mmx'] found",
        ),
        (
            "capabilities:cpu_info:b",
            "true",
            "capabilities:cpu_info:b: 'true' requested, True found",
        ),
        (
            "capabilities:numa_topology",
            "None",
            "capabilities:numa_topology: 'None' requested, the host has none",
        ),
    ],
)
def test_host_that_lacks_what_is_asked_is_refused_with_both_sides(key, wanted, reason):
    assert refusal(**{key: wanted}) == reason


@pytest.mark.parametrize(
    "path",
    [
        "",
        ":",
        "cpu_info:nope",
        "cpu_info:x:y:z",
        "cpu_info:arch:q",
        "cpu_info:features:0",
        "free_ram_mb:x",
        "foo:x",
        "nope:x",
    ],
)
def test_path_that_leads_nowhere_refuses_the_host(path):
    assert refusal(**{f"capabilities:{path}": "z"})


@pytest.mark.parametrize("key", ["nope", "capabilities", "hw:foo", "bar:q", "trait:X", "quota:cpu"])
def test_keys_that_are_about_something_else_refuse_nobody(key):
    assert refusal(**{key: "junk"}) is None


@pytest.mark.parametrize("cpu_info", ["not json", "null", "[1]", "5", None])
def test_cpu_info_without_the_key_refuses_the_host(cpu_info):
    host = a_host(cpu_info=cpu_info)
    assert refusal(host, **{"capabilities:cpu_info:model": "Nehalem"})


@pytest.mark.parametrize(
    ("cpu_info", "wanted", "reason"),
    [
        ({"maxphysaddr": {"mode": "emulate", "bits": 42}}, "42", None),
        ({"maxphysaddr": {"mode": "emulate", "bits": 46}}, "42", None),
        ({"maxphysaddr": {"bits": 40}}, "42", "hw:maxphysaddr_bits: '>= 42' requested, 40 found"),
        ({"maxphysaddr": {}}, "42", "hw:maxphysaddr_bits: '>= 42' requested, the host has none"),
        ({"arch": "x86_64"}, "1", "hw:maxphysaddr_bits: '>= 1' requested, the host has none"),
    ],
    ids=["as many", "more", "fewer", "no bits", "not told"],
)
def test_bits_of_addresses_are_asked_of_the_cpus(cpu_info, wanted, reason):
    host = a_host(cpu_info=json.dumps(cpu_info))
    assert refusal(host, **{"hw:maxphysaddr_bits": wanted}) == reason


def test_bits_of_addresses_that_are_no_number_are_refused_before_any_host():
    with pytest.raises(Invalid, match="hw:maxphysaddr_bits"):
        ComputeCapabilitiesFilter().check(a_spec({"hw:maxphysaddr_bits": "many"}))


def test_all_extra_specs_must_be_satisfied():
    assert refusal(foo="7", num_io_ops="<= 1") == "num_io_ops: '<= 1' requested, 2 found"


def test_host_text_that_cannot_be_compared_as_a_number_is_an_error():
    with pytest.raises(ValueError, match="QEMU"):
        refusal(hypervisor_type=">= 5")


@pytest.mark.parametrize("key", ["free_ram_mb", "capabilities:whatever"])
def test_request_that_makes_no_sense_is_refused_before_any_host(key):
    with pytest.raises(Invalid, match=key):
        ComputeCapabilitiesFilter().check(a_spec({key: ">= many"}))


def test_values_of_keys_for_others_are_not_checked():
    ComputeCapabilitiesFilter().check(a_spec({"hw:foo": ">= many", "quota": ">= many"}))


def test_stat_that_nova_would_not_compare_is_an_error_at_the_host():
    with pytest.raises(Invalid, match="many"):
        ComputeCapabilitiesFilter().refusal(HOST, a_spec({"foo": ">= many"}))
