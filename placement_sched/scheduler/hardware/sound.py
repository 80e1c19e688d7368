"""The sound device. Source: nova's documentation, "Extra Specs" (``hw:sound_model``)."""

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.hardware.both import agreed_one_of

_MODELS = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")


def sound_model(flavor: Flavor, image: Image) -> str | None:
    """Return the model of the sound device; None where neither asks for one.

    Raises :class:`~placement_sched.errors.Invalid` for another value, or for two.
    """
    return agreed_one_of(flavor, image, "sound_model", _MODELS)
