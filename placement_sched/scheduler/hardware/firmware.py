"""The firmware that an instance starts with.

Sources: nova's documentation, "Secure Boot", "UEFI" and "Extra Specs" (``os:secure_boot``);
glance's "Useful image properties".
"""

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import agreed_one_of


def secure_boot(flavor: Flavor, image: Image) -> str | None:
    """Return ``required``, ``disabled`` or ``optional``; None where neither says so.

    Raises :class:`~placement_sched.errors.Invalid` for another value, or for two.
    """
    known = ("required", "disabled", "optional")
    return agreed_one_of(flavor, image, "secure_boot", known, prefix="os")


def needs_stateless_firmware(image: Image) -> bool:
    """Return whether firmware that keeps nothing is asked for; it counts with UEFI only."""
    properties = image.properties
    return properties.get("hw_firmware_type") == "uefi" and bool(
        properties.get("hw_firmware_stateless")
    )
