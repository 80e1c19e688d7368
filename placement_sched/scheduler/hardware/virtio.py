"""Virtio queues. Source: nova's documentation, "Extra Specs" (``hw:virtio_packed_ring``)."""

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import agreed_flag


def packed_ring(flavor: Flavor, image: Image) -> bool:
    """Return whether packed queues are asked for.

    Raises :class:`~placement_sched.errors.Invalid` where one says yes and the other no.
    """
    return bool(agreed_flag(flavor, image, "virtio_packed_ring"))
