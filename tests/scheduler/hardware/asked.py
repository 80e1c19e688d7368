"""Flavors and images by what they say of hardware."""

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image


def flavor_of(extra_specs, vcpus=4, memory_mb=4096):
    """Return a flavor with these extra specs."""
    return Flavor(name="f", vcpus=vcpus, memory_mb=memory_mb, extra_specs=extra_specs)


def image_of(properties):
    """Return an image with these properties, as glance has them."""
    return Image.from_document({"properties": properties})
