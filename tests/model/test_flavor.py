# SPDX-License-Identifier: Apache-2.0
"""Flavors as plugins see them."""

import pytest

from placement_sched.model.flavor import Flavor


def test_flavor_is_parsed_from_a_document():
    flavor = Flavor.from_document(
        {"name": "m1", "vcpus": 1, "memory_mb": 2, "root_gb": 3, "extra_specs": {"a": "b"}}
    )
    assert (flavor.name, flavor.vcpus, flavor.memory_mb, flavor.root_gb) == ("m1", 1, 2, 3)
    assert (flavor.ephemeral_gb, flavor.swap, flavor.extra_specs) == (0, 0, {"a": "b"})


@pytest.mark.parametrize(("swap", "expected"), [("", 0), (None, 0), (5, 5), ("5", 5)])
def test_empty_swap_is_zero(swap, expected):
    assert Flavor.from_document({"swap": swap}).swap == expected


def test_flavor_supports_item_access():
    flavor = Flavor(vcpus=4)
    assert flavor["vcpus"] == flavor.get("vcpus") == 4
    assert flavor.get("nope", "x") == "x"
    assert ("extra_specs" in flavor, "nope" in flavor) == (True, False)
    with pytest.raises(KeyError):
        flavor["nope"]


def test_required_traits_of_all_groups_are_collected():
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
