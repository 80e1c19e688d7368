"""The firmware that an instance starts with."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.firmware import needs_stateless_firmware, secure_boot
from tests.scheduler.hardware.asked import flavor_of, image_of


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "policy"),
    [
        ({}, {}, None),
        ({"os:secure_boot": "required"}, {}, "required"),
        ({}, {"os_secure_boot": "optional"}, "optional"),
        ({"os:secure_boot": "disabled"}, {"os_secure_boot": "disabled"}, "disabled"),
    ],
)
def test_secure_boot_is_what_either_says(by_flavor, by_image, policy):
    assert secure_boot(flavor_of(by_flavor), image_of(by_image)) == policy


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "named"),
    [
        ({"os:secure_boot": "yes"}, {}, "'os:secure_boot': expected required or disabled"),
        (
            {"os:secure_boot": "required"},
            {"os_secure_boot": "disabled"},
            "'os:secure_boot' says 'required', image property 'os_secure_boot' says 'disabled'",
        ),
    ],
)
def test_secure_boot_refuses_another_value_or_two(by_flavor, by_image, named):
    with pytest.raises(Invalid, match=named):
        secure_boot(flavor_of(by_flavor), image_of(by_image))


@pytest.mark.parametrize(
    ("properties", "needed"),
    [
        ({}, False),
        ({"hw_firmware_stateless": "yes"}, False),
        ({"hw_firmware_stateless": "yes", "hw_firmware_type": "bios"}, False),
        ({"hw_firmware_stateless": "no", "hw_firmware_type": "uefi"}, False),
        ({"hw_firmware_stateless": "yes", "hw_firmware_type": "uefi"}, True),
    ],
)
def test_stateless_firmware_counts_with_uefi_only(properties, needed):
    assert needs_stateless_firmware(image_of(properties)) is needed
