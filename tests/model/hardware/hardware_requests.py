# SPDX-License-Identifier: Apache-2.0
"""Hardware requests of flavors and images."""

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware.request import RequestedHardware
from placement_sched.model.image import Image


def build_flavor(extra_specs, vcpus=4, memory_mb=4096):
    return Flavor(name="f", vcpus=vcpus, memory_mb=memory_mb, extra_specs=extra_specs)


def read_hardware(extra_specs, properties=(), **flavor):
    """Return the requested hardware of a flavor and of an image with properties from glance."""
    image = Image.from_document({"properties": dict(properties)})
    return RequestedHardware(build_flavor(extra_specs, **flavor), image)


def read_hardware_error(read, *keys):
    """Return the error of reading a value, which names all these keys."""
    with pytest.raises(Invalid) as error:
        read()
    missing = [key for key in keys if f"'{key}'" not in error.value.detail]
    assert not missing, error.value.detail
    return error.value.detail
