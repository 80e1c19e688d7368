"""Virtio queues."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.scheduler.hardware.virtio import packed_ring
from tests.scheduler.hardware.asked import flavor_of, image_of

KEY, NAME = "hw:virtio_packed_ring", "hw_virtio_packed_ring"


@pytest.mark.parametrize(
    ("by_flavor", "by_image", "packed"),
    [
        ({}, {}, False),
        ({KEY: "true"}, {}, True),
        ({}, {NAME: "yes"}, True),
        ({KEY: "false"}, {NAME: "no"}, False),
    ],
)
def test_packed_ring_is_what_either_says(by_flavor, by_image, packed):
    assert packed_ring(flavor_of(by_flavor), image_of(by_image)) is packed


def test_packed_ring_refuses_a_yes_beside_a_no():
    with pytest.raises(Invalid, match=f"{KEY}.*{NAME}"):
        packed_ring(flavor_of({KEY: "true"}), image_of({NAME: "false"}))
