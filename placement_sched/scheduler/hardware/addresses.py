"""The width of physical addresses. Source: nova's documentation, "Extra Specs"."""

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import agreed_one_of


def address_mode(flavor: Flavor, image: Image) -> str | None:
    """Return how the width is made, ``passthrough`` or ``emulate``; None where neither says so.

    Raises :class:`~placement_sched.errors.Invalid` for another value, or for two.
    """
    return agreed_one_of(flavor, image, "maxphysaddr_mode", ("passthrough", "emulate"))
