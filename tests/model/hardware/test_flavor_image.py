# SPDX-License-Identifier: Apache-2.0
"""What a flavor and an image may both set."""

import pytest

from tests.model.hardware.asked import hardware_of, refused

KEY, NAME = "hw:tpm_version", "hw_tpm_version"
FLAVOR, IMAGE = f"flavor extra spec '{KEY}'", f"image property '{NAME}'"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "value", "where"),
    [
        ({}, {}, None, FLAVOR),
        ({KEY: "2.0"}, {}, "2.0", FLAVOR),
        ({}, {NAME: "2.0"}, "2.0", IMAGE),
        ({KEY: "2.0"}, {NAME: "2.0"}, "2.0", FLAVOR),
        ({KEY: ""}, {NAME: "2.0"}, "2.0", IMAGE),
        ({KEY: ""}, {}, None, FLAVOR),
    ],
)
def test_agreed_value_is_that_of_either(extra_specs, properties, value, where):
    both = hardware_of(extra_specs, properties)
    assert both.agreed_value("tpm_version") == value
    assert both.source("tpm_version") == where


def test_two_values_are_refused_naming_both_keys():
    both = hardware_of({KEY: "2.0"}, {NAME: "1.2"})
    why = f"{FLAVOR} is '2.0', {IMAGE} is '1.2': they must be equal"
    assert refused(lambda: both.agreed_value("tpm_version")) == why


def test_source_has_the_prefix_of_the_namespace():
    both = hardware_of({}, {"os_secure_boot": "required"})
    assert both.source("secure_boot", "os") == "image property 'os_secure_boot'"


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "flag"),
    [
        (None, None, None),
        ("yes", None, True),
        ("junk", None, False),
        (None, "true", True),
        (None, "false", False),
        ("1", "on", True),
        ("no", "0", False),
    ],
)
def test_agreed_flag_is_that_of_either(by_flavor, by_image, flag):
    extra_specs = {} if by_flavor is None else {"hw:locked_memory": by_flavor}
    properties = {} if by_image is None else {"hw_locked_memory": by_image}
    assert hardware_of(extra_specs, properties).agreed_flag("locked_memory") is flag


@pytest.mark.parametrize(("by_flavor", "by_image"), [("true", "false"), ("", "true")])
def test_flags_that_differ_are_refused(by_flavor, by_image):
    both = hardware_of({"hw:locked_memory": by_flavor}, {"hw_locked_memory": by_image})
    refused(lambda: both.agreed_flag("locked_memory"), "hw:locked_memory", "hw_locked_memory")


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
def test_stateless_firmware_counts_with_uefi_only(properties, stateless):
    assert hardware_of({}, properties).has_stateless_firmware is stateless
