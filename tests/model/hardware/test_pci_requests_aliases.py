# SPDX-License-Identifier: Apache-2.0
"""PCI aliases (nova 34 observed)."""

import json

import pytest

from placement_sched.errors import ConfigurationError
from placement_sched.model.hardware.pci_requests import Alias, aliases_of

IDS = {"vendor_id": "8086", "product_id": "1520"}
VF = {**IDS, "device_type": "type-VF"}


def read(*specs, in_placement=False):
    """Return the aliases of these objects."""
    return aliases_of([json.dumps(spec) for spec in specs], in_placement=in_placement)


def test_aliases_are_none_where_none_is_configured():
    assert read() == {}


@pytest.mark.parametrize("in_placement", [False, True])
def test_alias_keeps_what_is_said_of_the_device(in_placement):
    every = {
        "name": " nic ",
        **VF,
        "capability_type": "pci",
        "numa_policy": "required",
        "resource_class": "nic",
        "traits": "a,b",
        "live_migratable": "Yes",
    }
    spec = {
        **IDS,
        "dev_type": "type-VF",
        "capability_type": "pci",
        "resource_class": "nic",
        "traits": "a,b",
        "live_migratable": "true",
    }
    assert read(every, in_placement=in_placement) == {
        "nic": Alias(name="nic", numa_policy="required", specs=(spec,))
    }


def test_alias_is_legacy_unless_it_says_how_near():
    assert read({"name": "a", **IDS})["a"].numa_policy == "legacy"


def test_aliases_of_one_name_are_alternatives():
    other = {**VF, "product_id": "10ed"}
    alias = read({"name": "a", **VF}, {"name": "b", **IDS}, {"name": "a", **other})["a"]
    assert [spec["product_id"] for spec in alias.specs] == ["1520", "10ed"]


def test_alias_in_placement_may_have_a_resource_class_for_ids():
    assert read({"name": "a", "resource_class": "x"}, in_placement=True)


@pytest.mark.parametrize(
    ("specs", "in_placement", "why"),
    [
        ([{**IDS}], False, "no name"),
        ([[]], False, "not a JSON object"),
        ([{"name": "", **IDS}], False, "name cannot be"),
        ([{"name": 1, **IDS}], False, "name cannot be 1"),
        ([{"name": "a", "vendor_id": "808"}], False, "vendor_id cannot be '808'"),
        ([{"name": "a", **IDS, "device_type": "vdpa"}], False, "device_type cannot be 'vdpa'"),
        ([{"name": "a", **IDS, "numa_policy": "far"}], False, "numa_policy cannot be 'far'"),
        ([{"name": "a", **IDS, "capability_type": "usb"}], False, "capability_type cannot be"),
        ([{"name": "a", **IDS, "live_migratable": "perhaps"}], False, "'perhaps' is not a boolean"),
        ([{"name": "a", **IDS, "live_migratable": True}], False, "live_migratable cannot be True"),
        ([{"name": "a", **IDS, "device_id": "1"}], False, "unknown key 'device_id'"),
        ([{"name": "a", "vendor_id": "8086"}], False, "must have vendor_id and product_id$"),
        ([{"name": "a", "resource_class": "x"}], False, "must have vendor_id and product_id$"),
        ([{"name": "a", "product_id": "1520"}], True, "product_id or a resource_class"),
        ([{"name": "a", **VF}, {"name": "a", **VF}], True, "it has several lines"),
        ([{"name": "a", **VF}, {"name": "a", **VF, "numa_policy": "socket"}], False, "numa_policy"),
        (
            [{"name": "a", **VF}, {"name": "a", **VF, "device_type": "type-PF"}],
            False,
            "device_type",
        ),
        ([{"name": "a", **IDS}, {"name": "a", **IDS}], False, "device_type"),
    ],
)
def test_invalid_aliases_are_refused_with_the_reason(specs, in_placement, why):
    with pytest.raises(ConfigurationError, match=rf"^\[pci\] alias .*{why}"):
        read(*specs, in_placement=in_placement)


@pytest.mark.parametrize("text", ["", "{", "nic", "[" * 100_000])
def test_alias_that_is_not_json_is_refused(text):
    with pytest.raises(ConfigurationError, match=r"^\[pci\] alias .*it is not valid JSON"):
        aliases_of([text], in_placement=False)
