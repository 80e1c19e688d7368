"""The width of physical addresses."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.addresses import address_mode
from tests.scheduler.hardware.asked import flavor_of, image_of

KEY, NAME = "hw:maxphysaddr_mode", "hw_maxphysaddr_mode"


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "mode"),
    [
        ({}, {}, None),
        ({KEY: "emulate"}, {}, "emulate"),
        ({}, {NAME: "passthrough"}, "passthrough"),
        ({KEY: "emulate"}, {NAME: "emulate"}, "emulate"),
    ],
)
def test_address_mode_is_what_either_says(by_flavor, by_image, mode):
    assert address_mode(flavor_of(by_flavor), image_of(by_image)) == mode


@pytest.mark.parametrize(
    ("by_flavor", "by_image"),
    [({KEY: "wide"}, {}), ({KEY: "emulate"}, {NAME: "passthrough"})],
)
def test_address_mode_refuses_another_value_or_two(by_flavor, by_image):
    with pytest.raises(Invalid, match=KEY):
        address_mode(flavor_of(by_flavor), image_of(by_image))
