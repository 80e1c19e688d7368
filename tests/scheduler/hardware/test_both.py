"""What flavor and image may both say."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.both import agreed, agreed_flag, place
from tests.scheduler.hardware.asked import flavor_of, image_of

FLAVOR = "flavor extra spec 'hw:tpm_version'"
IMAGE = "image property 'hw_tpm_version'"

SAID = [
    ({}, {}, None, FLAVOR),
    ({"hw:tpm_version": "2.0"}, {}, "2.0", FLAVOR),
    ({}, {"hw_tpm_version": "2.0"}, "2.0", IMAGE),
    ({"hw:tpm_version": "2.0"}, {"hw_tpm_version": "2.0"}, "2.0", FLAVOR),
    ({"hw:tpm_version": ""}, {"hw_tpm_version": "2.0"}, "2.0", IMAGE),
    ({"hw:tpm_version": ""}, {}, None, FLAVOR),
]


@pytest.mark.parametrize(("extra_specs", "properties", "value", "where"), SAID)
def test_agreed_is_what_either_says(extra_specs, properties, value, where):
    flavor, image = flavor_of(extra_specs), image_of(properties)
    assert agreed(flavor, image, "tpm_version") == value
    assert place(flavor, image, "tpm_version") == where


def test_agreed_refuses_two_values_naming_both_keys():
    flavor, image = flavor_of({"hw:tpm_version": "2.0"}), image_of({"hw_tpm_version": "1.2"})
    with pytest.raises(Invalid) as refused:
        agreed(flavor, image, "tpm_version")
    assert refused.value.detail == (
        "flavor extra spec 'hw:tpm_version' says '2.0', image property 'hw_tpm_version' says "
        "'1.2': they must say the same"
    )


def test_place_has_the_prefix_of_the_namespace():
    assert place(flavor_of({}), image_of({"os_secure_boot": "required"}), "secure_boot", "os") == (
        "image property 'os_secure_boot'"
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
def test_agreed_flag_is_what_either_says(by_flavor, by_image, flag):
    flavor = flavor_of({} if by_flavor is None else {"hw:locked_memory": by_flavor})
    image = image_of({} if by_image is None else {"hw_locked_memory": by_image})
    assert agreed_flag(flavor, image, "locked_memory") is flag


@pytest.mark.parametrize(("by_flavor", "by_image"), [("true", "false"), ("", "true")])
def test_agreed_flag_refuses_a_yes_beside_a_no(by_flavor, by_image):
    flavor = flavor_of({"hw:locked_memory": by_flavor})
    image = image_of({"hw_locked_memory": by_image})
    with pytest.raises(Invalid, match=r"'hw:locked_memory' says .*'hw_locked_memory' says"):
        agreed_flag(flavor, image, "locked_memory")
