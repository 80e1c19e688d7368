"""The sound device."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.sound import sound_model
from tests.scheduler.hardware.asked import flavor_of, image_of


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "model"),
    [
        ({}, {}, None),
        ({"hw:sound_model": "virtio"}, {}, "virtio"),
        ({}, {"hw_sound_model": "ich9"}, "ich9"),
    ],
)
def test_sound_model_is_what_either_says(by_flavor, by_image, model):
    assert sound_model(flavor_of(by_flavor), image_of(by_image)) == model


@pytest.mark.parametrize(
    ("by_flavor", "by_image"),
    [("organ", {}), ("virtio", {"hw_sound_model": "ich9"})],
)
def test_sound_model_refuses_another_value_or_two(by_flavor, by_image):
    with pytest.raises(Invalid, match="hw:sound_model"):
        sound_model(flavor_of({"hw:sound_model": by_flavor}), image_of(by_image))
