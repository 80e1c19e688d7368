# SPDX-License-Identifier: Apache-2.0
"""Values that a flavor and an image may both set."""

import pytest

from tests.model.hardware.hardware_requests import hardware_of, read_error

KEY, NAME = "hw:tpm_version", "hw_tpm_version"
FLAVOR, IMAGE = f"flavor extra spec '{KEY}'", f"image property '{NAME}'"


@pytest.mark.parametrize(
    ("extra_specs", "properties", "value", "source"),
    [
        ({}, {}, None, FLAVOR),
        ({KEY: "2.0"}, {}, "2.0", FLAVOR),
        ({}, {NAME: "2.0"}, "2.0", IMAGE),
        ({KEY: "2.0"}, {NAME: "2.0"}, "2.0", FLAVOR),
        ({KEY: ""}, {NAME: "2.0"}, "2.0", IMAGE),
        ({KEY: ""}, {}, None, FLAVOR),
    ],
)
def test_value_of_flavor_or_image_is_used(extra_specs, properties, value, source):
    both = hardware_of(extra_specs, properties)
    assert both.agreed_value("tpm_version") == value
    assert both.source("tpm_version") == source


def test_different_values_are_rejected_with_both_keys():
    both = hardware_of({KEY: "2.0"}, {NAME: "1.2"})
    message = f"{FLAVOR} is '2.0', {IMAGE} is '1.2': they must be equal"
    assert read_error(lambda: both.agreed_value("tpm_version")) == message
    both = hardware_of({}, {"os_secure_boot": "required"})
    assert both.source("secure_boot", "os") == "image property 'os_secure_boot'"
    for flavor, image in (("true", "false"), ("", "true")):
        both = hardware_of({"hw:locked_memory": flavor}, {"hw_locked_memory": image})
        read_error(
            lambda b=both: b.agreed_flag("locked_memory"), "hw:locked_memory", "hw_locked_memory"
        )


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
def test_flag_of_flavor_or_image_is_used(by_flavor, by_image, flag):
    extra_specs = {} if by_flavor is None else {"hw:locked_memory": by_flavor}
    properties = {} if by_image is None else {"hw_locked_memory": by_image}
    assert hardware_of(extra_specs, properties).agreed_flag("locked_memory") is flag


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
    assert hardware_of({}, properties).has_stateless_firmware is stateless
