# SPDX-License-Identifier: Apache-2.0
"""``nova.objects.fields``: enumerations of values."""

import re
from collections.abc import Callable, Collection, Mapping
from functools import cache
from typing import Any, ClassVar

from placement_sched.extensions.nova_plugins import exception
from placement_sched.extensions.nova_plugins.missing import build_missing_error
from placement_sched.model import names
from placement_sched.model.image import CHOICES, READERS

#: The image property whose spellings each enumeration has, and values that it does not list.
_ENUMERATIONS: Mapping[str, tuple[str, Collection[str]]] = {
    "Architecture": ("hw_architecture", names.ARCHITECTURES),
    "CPUAllocationPolicy": ("hw_cpu_policy", ()),
    "CPUThreadAllocationPolicy": ("hw_cpu_thread_policy", ()),
    "FirmwareType": ("hw_firmware_type", ()),
    "HVType": ("img_hv_type", names.HYPERVISOR_TYPES),
    "MonitorMetricType": ("", names.MONITOR_METRICS),
    "OSType": ("os_type", ("linux", "windows")),
    "PCINUMAAffinityPolicy": ("hw_pci_numa_affinity_policy", ()),
    "SecureBoot": ("os_secure_boot", ()),
    "VMMode": ("hw_vm_mode", names.VM_MODES),
    "WatchdogAction": ("hw_watchdog_action", ()),
}


class Enumeration:
    """Base class of the enumerations, whose values are constants of a class."""

    VIRTUOZZO = "vz"  # the only constant whose name is not the value in upper case
    ALL: ClassVar[tuple[str, ...]] = ()
    _read: ClassVar[Callable[[Any], Any]] = str

    @classmethod
    def canonicalize(cls, name: str | None) -> str | None:
        """Return the value that a text means, or raise nova's Invalid."""
        try:
            return None if name is None else str(cls._read(name))
        except (ValueError, TypeError) as error:
            raise exception.Invalid(f"{name!r} is invalid: {error}") from None


@cache
def __getattr__(name: str) -> type[Enumeration]:
    if name not in _ENUMERATIONS:
        raise build_missing_error(f"nova.objects.fields.{name}")
    image_property, own_values = _ENUMERATIONS[name]
    values = sorted(own_values or CHOICES[image_property])
    constants = {re.sub(r"\W", "_", value).upper(): value for value in values}
    reader = staticmethod(READERS.get(image_property, str))
    return type(name, (Enumeration,), {**constants, "ALL": tuple(values), "_read": reader})
