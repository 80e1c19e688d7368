# SPDX-License-Identifier: Apache-2.0
"""Flavors as plugins see them.

Sets of virtual CPUs.
"""

import pytest

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_CPU_SET_CHARACTERS, MAX_CPUS
from placement_sched.model.flavor import (
    Flavor,
    list_cpus,
    parse_cpu_mask,
    parse_cpu_set,
    parse_cpus,
)
from tests.model.hardware.hardware_requests import build_flavor


def test_flavor_is_parsed_from_a_document():
    flavor = Flavor.from_document(
        {"name": "m1", "vcpus": 1, "memory_mb": 2, "root_gb": 3, "extra_specs": {"a": "b"}}
    )
    assert (flavor.name, flavor.vcpus, flavor.memory_mb, flavor.root_gb) == ("m1", 1, 2, 3)
    assert (flavor.ephemeral_gb, flavor.swap, flavor.extra_specs) == (0, 0, {"a": "b"})


@pytest.mark.parametrize(("swap", "expected"), [("", 0), (None, 0), (5, 5), ("5", 5)])
def test_empty_swap_of_a_flavor_is_zero(swap, expected):
    assert Flavor.from_document({"swap": swap}).swap == expected


def test_flavor_attributes_are_read_as_items():
    flavor = Flavor(vcpus=4)
    assert flavor["vcpus"] == flavor.get("vcpus") == 4
    assert flavor.get("nope", "x") == "x"
    assert ("extra_specs" in flavor, "nope" in flavor) == (True, False)
    with pytest.raises(KeyError):
        flavor["nope"]


def test_required_traits_of_all_request_groups_are_collected():
    flavor = Flavor(
        extra_specs={
            "trait:A": "required",
            "trait1:B": "required",
            "trait_NET:C": "required",
            "trait:D": "forbidden",
            "traits:E": "required",
            "xtrait:F": "required",
            "trait:": "required",
        }
    )
    # "traits:E" is the group of the suffix "s".
    assert flavor.required_traits == {"A", "B", "C", "E"}


CPU_SET_EXAMPLES = [
    ("0", {0}),
    ("0-3", {0, 1, 2, 3}),
    (" 1 , 3 ", {1, 3}),
    ("1,,2,", {1, 2}),
    ("0-5,^3", {0, 1, 2, 4, 5}),
    ("^3,0-5", {0, 1, 2, 4, 5}),
    ("0-9,^2-7,4", {0, 1, 8, 9}),
    ("^1", set()),
    ("", set()),
    ("2 - 4", {2, 3, 4}),
    ("^ 2,1-2", {1}),
    (f"{MAX_CPUS - 1}", {MAX_CPUS - 1}),
]


@pytest.mark.parametrize(("text", "cpus"), CPU_SET_EXAMPLES)
def test_cpu_set_of_numbers_ranges_and_exclusions_is_parsed(text, cpus):
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "1-",
        "-1",
        "3-1",
        "1-2-3",
        "^",
        "^^1",
        "1;2",
        "0x1",
        f"0-{MAX_CPUS}",
        "0-999999999999",
        "9" * 5000,
    ],
)
def test_invalid_part_of_a_cpu_set_is_rejected(text):
    with pytest.raises(ValueError, match=r"number|ends before|exceeds"):
        parse_cpus(text)


def test_cpu_set_text_has_a_maximum_length():
    text = ",".join(map(str, range(1024)))
    assert len(text) <= MAX_CPU_SET_CHARACTERS
    assert parse_cpus(text) == {*range(1024)}
    assert len(parse_cpus(("0-65535," * 3000)[:MAX_CPU_SET_CHARACTERS])) == MAX_CPUS
    message = f"has 24000 characters, and at most {MAX_CPU_SET_CHARACTERS} are"
    with pytest.raises(ValueError, match=message):
        parse_cpus("0-65535," * 3000)


def test_error_of_an_invalid_cpu_set_has_its_extra_spec():
    assert parse_cpu_set("0-2,^1") == {0, 2}
    with pytest.raises(Invalid, match="extra spec 'hw:x': '0-99999999' is not a set of CPUs"):
        parse_cpu_set("0-99999999", "extra spec 'hw:x'")


@pytest.mark.parametrize(
    ("mask", "cpus"),
    [
        ("1-2", {1, 2}),
        ("^0", {1, 2, 3}),
        (" ^0-1,7", {2, 3, 7}),
        ("7,^0", {7}),
        ("^9", {*range(4)}),
    ],
)
def test_cpu_mask_with_a_leading_caret_excludes_cpus(mask, cpus):
    assert parse_cpu_mask(build_flavor({}), mask, "x") == cpus
    assert parse_cpu_mask(build_flavor({}, vcpus=0), "^0", "x") == set()


def test_flavor_with_too_many_vcpus_is_rejected():
    with pytest.raises(Invalid, match="flavor has 2000000000 vcpus"):
        list_cpus(build_flavor({}, vcpus=2_000_000_000))
