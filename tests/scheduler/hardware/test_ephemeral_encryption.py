"""Local disks that are encrypted."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.ephemeral_encryption import encryption_format, is_encrypted
from tests.scheduler.hardware.asked import flavor_of, image_of

KEY, NAME = "hw:ephemeral_encryption", "hw_ephemeral_encryption"


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "encrypted", "kind"),
    [
        ({}, {}, False, None),
        ({KEY: "true"}, {}, True, None),
        ({}, {NAME: "yes"}, True, None),
        ({KEY: "true", f"{KEY}_format": "luks"}, {}, True, "luks"),
        ({KEY: "true"}, {f"{NAME}_format": "luksv2"}, True, "luksv2"),
    ],
)
def test_encryption_is_what_either_says(by_flavor, by_image, encrypted, kind):
    flavor, image = flavor_of(by_flavor), image_of(by_image)
    assert is_encrypted(flavor, image) is encrypted
    assert encryption_format(flavor, image) == kind


def test_is_encrypted_refuses_a_yes_beside_a_no():
    with pytest.raises(Invalid, match=f"{KEY}.*{NAME}"):
        is_encrypted(flavor_of({KEY: "no"}), image_of({NAME: "yes"}))


@pytest.mark.parametrize(
    ("by_flavor", "by_image"), [("rot13", {}), ("plain", {f"{NAME}_format": "luks"})]
)
def test_encryption_format_refuses_another_value_or_two(by_flavor, by_image):
    with pytest.raises(Invalid, match=f"{KEY}_format"):
        encryption_format(flavor_of({f"{KEY}_format": by_flavor}), image_of(by_image))
