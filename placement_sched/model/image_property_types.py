"""How a raw image property becomes the value that nova's ImageMetaProps keeps.

Source: the "Useful image properties" page of glance's administrator guide, and nova 34 observed.
"""

from collections.abc import Callable, Collection, Mapping
from types import MappingProxyType
from typing import Any

from oslo_utils.strutils import bool_from_string
from oslo_utils.versionutils import VersionPredicate

from placement_sched.model.cpu_set import cpus_from
from placement_sched.model.hypervisor_names import (
    ARCHITECTURE_ALIASES,
    ARCHITECTURES,
    HYPERVISOR_TYPE_ALIASES,
    HYPERVISOR_TYPES,
    VM_MODE_ALIASES,
    VM_MODES,
)

#: Returns the value kept; raises ``ValueError`` or ``TypeError`` for one that cannot be.
Reader = Callable[[Any], Any]


def text(value: Any) -> str:
    """Return the value as text; raises ``TypeError`` for null, lists and objects."""
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError("a text is needed")


def integer(value: Any) -> int:
    """Return the value as a whole number, which may be given as text."""
    return int(value)


def boolean(value: Any) -> bool:
    """Return whether the value reads as yes; what reads as neither is no, as in nova."""
    if value is None:
        raise TypeError("a yes or no is needed")
    return bool(bool_from_string(value))


def cpus(value: Any) -> frozenset[int]:
    """Return the CPUs that a text like ``0-3,^2`` names."""
    return cpus_from(text(value))


def objects(value: Any) -> list[Mapping[str, Any]]:
    """Return the value, which must be a list of objects."""
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return list(value)
    raise TypeError("a list of objects is needed")


def version_predicate(value: Any) -> str:
    """Return the value, which must be like ``>=4.2`` or ``>=4.2,<6``."""
    predicate = text(value)
    VersionPredicate(predicate)
    return predicate


def one_of(values: Collection[str], aliases: Mapping[str, str] | None = None) -> Reader:
    """Return a reader that takes exactly these values, and ``aliases`` (in full) for them."""
    known = {value: value for value in values} | dict(aliases or {})

    def read(value: Any) -> str:
        if isinstance(value, str) and value in known:
            return known[value]
        raise ValueError(f"not one of {', '.join(sorted(values))}")

    return read


def any_case_of(values: Collection[str], aliases: Mapping[str, str] | None = None) -> Reader:
    """Return a reader like :func:`one_of` for which case does not count."""
    exact = one_of(values, {key.lower(): value for key, value in (aliases or {}).items()})

    def read(value: Any) -> Any:
        return exact(value.lower() if isinstance(value, str) else value)

    return read


architecture = any_case_of(ARCHITECTURES, {**ARCHITECTURE_ALIASES, "x86_32": "i686"})
hypervisor = any_case_of(HYPERVISOR_TYPES, HYPERVISOR_TYPE_ALIASES)
vm_mode = any_case_of(VM_MODES, VM_MODE_ALIASES)
operating_system = any_case_of(("linux", "windows"))
bus = one_of(("fdc", "ide", "sata", "scsi", "usb", "virtio", "xen", "lxc", "uml"))
scsi_model = any_case_of(
    ("buslogic", "ibmvscsi", "lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi", "vmpvscsi"),
    MappingProxyType({"lsilogicsas": "lsisas1068", "paravirtual": "vmpvscsi"}),
)
vif_model = any_case_of(
    (
        "virtio",
        "ne2k_pci",
        "pcnet",
        "rtl8139",
        "e1000",
        "e1000e",
        "netfront",
        "spapr-vlan",
        "lan9118",
        "sriov",
        "vmxnet",
        "vmxnet3",
        "igb",
    ),
    MappingProxyType(
        {
            "virtuale1000": "e1000",
            "virtuale1000e": "e1000e",
            "virtualpcnet32": "pcnet",
            "virtualsriovethernetcard": "sriov",
            "virtualvmxnet": "vmxnet",
            "virtualvmxnet3": "vmxnet3",
        }
    ),
)
