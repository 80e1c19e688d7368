"""Local disks that are encrypted.

Source: nova's documentation, "Extra Specs" (``hw:ephemeral_encryption``).
"""

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import agreed_flag, agreed_one_of

_FORMATS = ("plain", "luks", "luksv2")


def is_encrypted(flavor: Flavor, image: Image) -> bool:
    """Return whether encrypted local disks are asked for.

    Raises :class:`~placement_sched.errors.Invalid` where one says yes and the other no.
    """
    return bool(agreed_flag(flavor, image, "ephemeral_encryption"))


def encryption_format(flavor: Flavor, image: Image) -> str | None:
    """Return ``plain``, ``luks`` or ``luksv2``; None where neither names a format.

    Raises :class:`~placement_sched.errors.Invalid` for another value, or for two.
    """
    return agreed_one_of(flavor, image, "ephemeral_encryption_format", _FORMATS)
