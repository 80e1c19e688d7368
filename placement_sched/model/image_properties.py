"""Image properties under the names and with the values that plugins know (nova's ImageMetaProps).

Glance keeps what users wrote: older names, any case, text for numbers. :func:`properties_from`
reads that once, so that every filter compares the same canonical values.
"""

from collections.abc import Iterator, Mapping
from itertools import takewhile
from types import MappingProxyType
from typing import Any

from placement_sched.errors import Invalid
from placement_sched.model import image_property_types as kind
from placement_sched.model.image_property_types import Reader, one_of

_BOOLEANS = (
    "hw_boot_menu hw_ephemeral_encryption hw_firmware_stateless hw_ipxe_boot hw_locked_memory"
    " hw_mem_encryption hw_pmu hw_qemu_guest_agent hw_time_hpet hw_vif_multiqueue_enabled"
    " hw_virtio_packed_ring img_bdm_v2 img_bittorrent img_cache_in_nova img_hide_hypervisor_id"
    " img_linked_clone img_use_agent os_require_quiesce os_skip_agent_inject_files_at_boot"
    " os_skip_agent_inject_ssh"
)
_INTEGERS = (
    "hw_cpu_cores hw_cpu_max_cores hw_cpu_max_sockets hw_cpu_max_threads hw_cpu_sockets"
    " hw_cpu_threads hw_device_id hw_maxphysaddr_bits hw_numa_nodes hw_redirected_usb_ports"
    " hw_serial_port_count hw_video_ram img_compression_level img_version"
)
_TEXTS = (
    "hw_auto_disk_config hw_cpu_realtime_mask hw_disk_type hw_ephemeral_encryption_secret_uuid"
    " hw_machine_type hw_mem_page_size img_owner_id img_root_device_name img_signature"
    " img_signature_certificate_uuid os_admin_user os_command_line os_distro"
)

READERS: Mapping[str, Reader] = MappingProxyType(
    {
        **dict.fromkeys(_BOOLEANS.split(), kind.boolean),
        **dict.fromkeys(_INTEGERS.split(), kind.integer),
        **dict.fromkeys(_TEXTS.split(), kind.text),
        "hw_architecture": kind.architecture,
        "hw_cdrom_bus": kind.bus,
        "hw_cpu_policy": one_of(("dedicated", "shared", "mixed")),
        "hw_cpu_thread_policy": one_of(("prefer", "isolate", "require")),
        "hw_disk_bus": kind.bus,
        "hw_emulation_architecture": kind.architecture,
        "hw_ephemeral_encryption_format": one_of(("plain", "luks", "luksv2")),
        "hw_firmware_type": one_of(("uefi", "bios")),
        "hw_floppy_bus": kind.bus,
        "hw_input_bus": one_of(("usb", "virtio")),
        "hw_maxphysaddr_mode": one_of(("passthrough", "emulate")),
        "hw_mem_encryption_model": one_of(("amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx")),
        "hw_pci_numa_affinity_policy": one_of(("required", "legacy", "preferred", "socket")),
        "hw_pointer_model": one_of(("usbtablet",)),
        "hw_rescue_bus": kind.bus,
        "hw_rescue_device": one_of(("cdrom", "disk", "floppy", "fs", "lun")),
        "hw_rng_model": one_of(("virtio",)),
        "hw_scsi_model": kind.scsi_model,
        "hw_sound_model": one_of(
            ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")
        ),
        "hw_tpm_model": one_of(("tpm-tis", "tpm-crb")),
        "hw_tpm_version": one_of(("1.2", "2.0")),
        "hw_usb_model": one_of(("none", "nec-xhci", "qemu-xhci")),
        "hw_video_model": one_of(
            ("cirrus", "qxl", "vga", "vmvga", "xen", "virtio", "gop", "none", "bochs")
        ),
        "hw_vif_model": kind.vif_model,
        "hw_viommu_model": one_of(("intel", "smmuv3", "virtio", "auto")),
        "hw_vm_mode": kind.vm_mode,
        "hw_watchdog_action": one_of(("none", "pause", "poweroff", "reset", "disabled")),
        "img_block_device_mapping": kind.objects,
        "img_config_drive": one_of(("optional", "mandatory")),
        "img_hv_requested_version": kind.version_predicate,
        "img_hv_type": kind.hypervisor,
        "img_mappings": kind.objects,
        "img_signature_hash_method": one_of(("SHA-224", "SHA-256", "SHA-384", "SHA-512")),
        "img_signature_key_type": one_of(
            (
                "DSA",
                "ECC_SECP384R1",
                "ECC_SECP521R1",
                "ECC_SECT409K1",
                "ECC_SECT409R1",
                "ECC_SECT571K1",
                "ECC_SECT571R1",
                "RSA-PSS",
            )
        ),
        "os_secure_boot": one_of(("required", "disabled", "optional")),
        "os_type": kind.operating_system,
    }
)

#: Properties that are numbered from 0 without a gap, one for each NUMA node: ``hw_numa_mem.0``.
#: What is kept is a list, in the order of the nodes.
NUMBERED: Mapping[str, Reader] = MappingProxyType(
    {"hw_numa_cpus": kind.cpus, "hw_numa_mem": kind.integer}
)
#: NUMA nodes that are looked for, in an image as in a flavor.
MOST_NUMA_NODES = 128

#: Names that images of earlier releases carry; today's name wins where an image has both.
LEGACY_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "architecture": "hw_architecture",
        "auto_disk_config": "hw_auto_disk_config",
        "bdm_v2": "img_bdm_v2",
        "bittorrent": "img_bittorrent",
        "block_device_mapping": "img_block_device_mapping",
        "cache_in_nova": "img_cache_in_nova",
        "hypervisor_type": "img_hv_type",
        "hypervisor_version_requires": "img_hv_requested_version",
        "ipxe_boot": "hw_ipxe_boot",
        "mappings": "img_mappings",
        "owner_id": "img_owner_id",
        "root_device_name": "img_root_device_name",
        "vm_mode": "hw_vm_mode",
        "vmware_disktype": "hw_disk_type",
        "vmware_image_version": "img_version",
        "vmware_linked_clone": "img_linked_clone",
        "vmware_ostype": "os_distro",
        "xenapi_device_id": "hw_device_id",
        "xenapi_image_compression_level": "img_compression_level",
        "xenapi_skip_agent_inject_files_at_boot": "os_skip_agent_inject_files_at_boot",
        "xenapi_skip_agent_inject_ssh": "os_skip_agent_inject_ssh",
        "xenapi_use_agent": "img_use_agent",
    }
)


class ImageProperties:
    """The properties that are set, read as ``properties.get("hw_architecture")``.

    ``properties.hw_architecture`` works for those that are set and is an ``AttributeError`` for
    others; ``"hw_architecture" in properties`` tells.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    def get(self, name: str, default: Any = None) -> Any:
        """Return the property of this name, or ``default`` where it is not set."""
        return self._values.get(name, default)

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether the property is set (the name that nova's objects have for it)."""
        return name in self._values

    def to_dict(self) -> dict[str, Any]:
        """Return the properties that are set."""
        return dict(self._values)

    def __getattr__(self, name: str) -> Any:
        # Copying asks for private names before there are values.
        values = {} if name.startswith("_") else self._values
        try:
            return values[name]
        except KeyError:
            raise AttributeError(f"the image has no property {name!r}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ImageProperties) and self._values == other._values

    def __hash__(self) -> int:
        return hash(frozenset(self._values))

    def __repr__(self) -> str:
        return f"ImageProperties({self._values})"


def properties_from(raw: Mapping[str, Any]) -> ImageProperties:
    """Return glance's raw properties under nova's names and with nova's values.

    Unknown names are left out. Raises :class:`Invalid` naming the property whose value cannot be.
    """
    values: dict[str, Any] = {}
    for name, value in _vmware_adapter(raw):
        values[name] = _read(name, name, value)
    for legacy, name in LEGACY_NAMES.items():
        if legacy in raw:
            values[name] = _read(legacy, name, raw[legacy])
    for name, value in raw.items():
        if name in READERS:
            values[name] = _read(name, name, value)
    values |= _numbered(raw)
    traits = [
        name.removeprefix("trait:")
        for name, value in raw.items()
        if name.startswith("trait:") and value == "required"
    ]
    return ImageProperties({**values, "traits_required": traits} if traits else values)


def _vmware_adapter(raw: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield what the VMware adapter type stands for: a disk bus, and the model of a SCSI one."""
    adapter = raw.get("vmware_adaptertype")
    if adapter == "ide":
        yield "hw_disk_bus", adapter
    elif adapter:
        yield "hw_disk_bus", "scsi"
        yield "hw_scsi_model", adapter


def _numbered(raw: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the lists of which each item is a property of its own."""
    lists = {name: [_read(key, name, raw[key]) for key in _keys(raw, name)] for name in NUMBERED}
    return {name: values for name, values in lists.items() if values}


def _keys(raw: Mapping[str, Any], name: str) -> Iterator[str]:
    """Yield the keys ``name.0``, ``name.1`` and so on up to the first that is not there."""
    return takewhile(raw.__contains__, (f"{name}.{node}" for node in range(MOST_NUMA_NODES)))


def _read(written: str, name: str, value: Any) -> Any:
    try:
        return (READERS.get(name) or NUMBERED[name])(value)
    except (TypeError, ValueError) as wrong:
        raise Invalid(f"image property {written!r} cannot be {value!r}: {wrong}") from None
