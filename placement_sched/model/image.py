# SPDX-License-Identifier: Apache-2.0
"""Images in requests, and stored images of the image API.

Source: Image API reference, "Images".
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from itertools import takewhile
from typing import Any, Self

from oslo_utils.strutils import bool_from_string
from oslo_utils.versionutils import VersionPredicate

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_CPUS, MAX_NUMA_NODES
from placement_sched.model import names
from placement_sched.model.document import NovaObject
from placement_sched.model.flavor import TRAIT_KEY, parse_cpus

#: Converts a value, or raises ``ValueError`` or ``TypeError`` for an invalid value.
_Reader = Callable[[Any], Any]


def _read_text(value: Any) -> str:
    if isinstance(value, str | int | float):
        return str(value)
    raise TypeError("must be a string")


def _read_boolean(value: Any) -> bool:
    if value is None:
        raise TypeError("expected a boolean")
    # As in nova, a text that is not a boolean is false.
    return bool(bool_from_string(value))


def _read_objects(value: Any) -> list[Mapping[str, Any]]:
    if isinstance(value, list) and all(isinstance(item, dict) for item in value):
        return list(value)
    raise TypeError("must be a list of objects")


def _read_version_predicate(value: Any) -> str:
    predicate = _read_text(value)
    VersionPredicate(predicate)
    return predicate


def _build_enum_reader(
    values: Collection[str], aliases: Mapping[str, str] | None = None, *, caseless: bool = False
) -> _Reader:
    lower_aliases = {key.lower(): value for key, value in (aliases or {}).items()}
    canonical_values = {value: value for value in values} | lower_aliases

    def read(value: Any) -> str:
        key = value.lower() if caseless and isinstance(value, str) else value
        if isinstance(key, str) and key in canonical_values:
            return canonical_values[key]
        raise ValueError(f"not one of {', '.join(sorted(values))}")

    return read


_architecture = _build_enum_reader(
    names.ARCHITECTURES, {**names.ARCHITECTURE_ALIASES, "x86_32": "i686"}, caseless=True
)
_bus = _build_enum_reader(["fdc", "ide", "sata", "scsi", "usb", "virtio", "xen", "lxc", "uml"])
_scsi_model = _build_enum_reader(
    ["buslogic", "ibmvscsi", "lsilogic", "lsisas1068", "lsisas1078", "virtio-scsi", "vmpvscsi"],
    {"lsilogicsas": "lsisas1068", "paravirtual": "vmpvscsi"},
    caseless=True,
)
_VIF_MODELS = "virtio ne2k_pci pcnet rtl8139 e1000 e1000e netfront spapr-vlan lan9118 sriov igb"
_vif_model = _build_enum_reader(
    [*_VIF_MODELS.split(), "vmxnet", "vmxnet3"],
    {
        "virtuale1000": "e1000",
        "virtuale1000e": "e1000e",
        "virtualpcnet32": "pcnet",
        "virtualsriovethernetcard": "sriov",
        "virtualvmxnet": "vmxnet",
        "virtualvmxnet3": "vmxnet3",
    },
    caseless=True,
)

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
_VALUES = {
    "hw_cpu_policy": "dedicated shared mixed",
    "hw_cpu_thread_policy": "prefer isolate require",
    "hw_ephemeral_encryption_format": "plain luks luksv2",
    "hw_firmware_type": "uefi bios",
    "hw_input_bus": "usb virtio",
    "hw_maxphysaddr_mode": "passthrough emulate",
    "hw_mem_encryption_model": "amd-sev amd-sev-es amd-sev-snp intel-tdx",
    "hw_pci_numa_affinity_policy": "required legacy preferred socket",
    "hw_pointer_model": "usbtablet",
    "hw_rescue_device": "cdrom disk floppy fs lun",
    "hw_rng_model": "virtio",
    "hw_sound_model": "sb16 es1370 pcspk ac97 ich6 ich9 usb virtio",
    "hw_tpm_model": "tpm-tis tpm-crb",
    "hw_tpm_version": "1.2 2.0",
    "hw_usb_model": "none nec-xhci qemu-xhci",
    "hw_video_model": "cirrus qxl vga vmvga xen virtio gop none bochs",
    "hw_viommu_model": "intel smmuv3 virtio auto",
    "hw_watchdog_action": "none pause poweroff reset disabled",
    "img_config_drive": "optional mandatory",
    "img_signature_hash_method": "SHA-224 SHA-256 SHA-384 SHA-512",
    "img_signature_key_type": "DSA ECC_SECP384R1 ECC_SECP521R1 ECC_SECT409K1 ECC_SECT409R1"
    " ECC_SECT571K1 ECC_SECT571R1 RSA-PSS",
    "os_secure_boot": "required disabled optional",
}

#: The values of enumerated properties. Most extra specs of the same name have the same values.
CHOICES: Mapping[str, tuple[str, ...]] = {
    name: tuple(values.split()) for name, values in _VALUES.items()
}
READERS: Mapping[str, _Reader] = {
    **dict.fromkeys(_BOOLEANS.split(), _read_boolean),
    **dict.fromkeys(_INTEGERS.split(), int),
    **dict.fromkeys(_TEXTS.split(), _read_text),
    **{name: _build_enum_reader(values) for name, values in CHOICES.items()},
    "hw_architecture": _architecture,
    "hw_cdrom_bus": _bus,
    "hw_disk_bus": _bus,
    "hw_emulation_architecture": _architecture,
    "hw_floppy_bus": _bus,
    "hw_rescue_bus": _bus,
    "hw_scsi_model": _scsi_model,
    "hw_vif_model": _vif_model,
    "hw_vm_mode": _build_enum_reader(names.VM_MODES, names.VM_MODE_ALIASES, caseless=True),
    "img_block_device_mapping": _read_objects,
    "img_hv_requested_version": _read_version_predicate,
    "img_hv_type": _build_enum_reader(
        names.HYPERVISOR_TYPES, names.HYPERVISOR_TYPE_ALIASES, caseless=True
    ),
    "img_mappings": _read_objects,
    "os_type": _build_enum_reader(("linux", "windows"), caseless=True),
}

#: Properties with a key per NUMA node, from 0 without a gap, such as ``hw_numa_mem.0``. Their value
#: is a list in the order of the nodes.
_NUMBERED: Mapping[str, _Reader] = {
    "hw_numa_cpus": lambda value: parse_cpus(_read_text(value)),
    "hw_numa_mem": int,
}
#: Property names of earlier releases. The current name wins if an image has both.
LEGACY_NAMES: Mapping[str, str] = {
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


class ImageProperties:
    """The image properties that are set, under nova's names.

    If a property is not set, ``get`` returns None, and its attribute raises ``AttributeError``.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    def get(self, name: str, default: Any = None) -> Any:
        """Return the property with this name, or ``default`` if it is not set."""
        return self._values.get(name, default)

    def obj_attr_is_set(self, name: str) -> bool:
        """Return whether the property is set (nova's method name)."""
        return name in self._values

    def to_dict(self) -> dict[str, Any]:
        """Return the properties that are set."""
        return dict(self._values)

    def __getattr__(self, name: str) -> Any:
        # ``copy`` reads private names before ``_values`` is set.
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


def parse_properties(raw: Mapping[str, Any]) -> ImageProperties:
    """Convert glance's raw properties to nova's names and values.

    Unknown names are omitted. Raises :class:`Invalid`, naming the property.
    """
    values: dict[str, Any] = {}
    # The VMware adapter type is a disk bus, or the model of a SCSI bus.
    if adapter := raw.get("vmware_adaptertype"):
        is_scsi = adapter != "ide"
        values["hw_disk_bus"] = "scsi" if is_scsi else adapter
        if is_scsi:
            values["hw_scsi_model"] = _read("hw_scsi_model", "hw_scsi_model", adapter)
    for legacy, name in LEGACY_NAMES.items():
        if legacy in raw:
            values[name] = _read(legacy, name, raw[legacy])
    for name, value in raw.items():
        if name in READERS:
            values[name] = _read(name, name, value)
    for name in _NUMBERED:
        keys = (f"{name}.{node}" for node in range(MAX_NUMA_NODES))
        node_values, cpus = [], 0
        for key in takewhile(raw.__contains__, keys):
            node_values.append(value := _read(key, name, raw[key]))
            cpus += len(value) if isinstance(value, frozenset) else 0
            if cpus > MAX_CPUS:
                raise Invalid(f"image property {key!r}: a CPU is on two nodes")
        if node_values:
            values[name] = node_values
    traits = [
        name.removeprefix("trait:")
        for name, value in raw.items()
        if name.startswith("trait:") and value == "required"
    ]
    return ImageProperties({**values, "traits_required": traits} if traits else values)


def _read(raw_name: str, name: str, value: Any) -> Any:
    try:
        return (READERS.get(name) or _NUMBERED[name])(value)
    except (TypeError, ValueError) as error:
        raise Invalid(f"image property {raw_name!r} cannot be {value!r}: {error}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ImageFields:
    """Common fields of images: min_ram in MB, min_disk in GB."""

    name: str | None = None
    owner: str | None = None
    size: int | None = None
    virtual_size: int | None = None
    disk_format: str | None = None
    container_format: str | None = None
    min_ram: int = 0
    min_disk: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Image(_ImageFields, NovaObject):
    """The image in a request."""

    id: str | None = None
    status: str | None = None
    visibility: str | None = None
    tags: tuple[str, ...] = ()
    properties: ImageProperties = field(default_factory=ImageProperties)
    #: Traits of properties ``trait<suffix>:X=required``. As in nova, no group requires them.
    suffixed_traits: frozenset[str] = frozenset()
    #: Traits of properties ``trait:X=preferred``, which nova ignores.
    preferred_traits: frozenset[str] = frozenset()

    @classmethod
    def from_document(cls, document: Mapping[str, Any] | None) -> Self:
        """Read an image from its JSON object in a request.

        None is an image without properties. Raises :class:`Invalid` for an invalid property.
        """
        if document is None:
            return cls()
        values = {name: document[name] for name in _COPIED_KEYS if document.get(name) is not None}
        properties = document.get("properties") or {}
        return cls(
            **values,
            tags=tuple(document.get("tags") or ()),
            properties=parse_properties(properties),
            suffixed_traits=frozenset(
                match["trait"].strip()
                for key, value in properties.items()
                if value == "required" and (match := TRAIT_KEY.fullmatch(key)) and match["suffix"]
            ),
            preferred_traits=frozenset(
                key.removeprefix("trait:").strip()
                for key, value in properties.items()
                if value == "preferred" and key.startswith("trait:")
            ),
        )

    from_dict = from_document  # nova's name

    @property
    def required_traits(self) -> frozenset[str]:
        """Return the stripped traits X of the properties ``trait:X=required``."""
        return frozenset(map(str.strip, self.properties.get("traits_required", ())))


_DERIVED_FIELDS = {"tags", "properties", "suffixed_traits", "preferred_traits"}
_COPIED_KEYS = tuple(item.name for item in fields(Image) if item.name not in _DERIVED_FIELDS)


#: Image states. Images created here stay queued, because they have no data.
QUEUED, ACTIVE, DEACTIVATED = "queued", "active", "deactivated"
_STATUSES = "queued saving active killed deleted uploading importing pending_delete deactivated"
STATUSES = tuple(_STATUSES.split())

#: Formats of the disk's data and of its container.
_DISK_FORMATS = "ami ari aki vhd vhdx vmdk raw qcow2 vdi iso ploop luks"
DISK_FORMATS = tuple(_DISK_FORMATS.split())
CONTAINER_FORMATS = ("ami", "ari", "aki", "bare", "ovf", "ova", "docker", "compressed")
PUBLIC, COMMUNITY, SHARED, PRIVATE = "public", "community", "shared", "private"
VISIBILITIES = (COMMUNITY, PUBLIC, PRIVATE, SHARED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Viewer:
    """The caller of the image API.

    An administrator has access to all images. API policy rules restrict some visibilities.
    """

    project_id: str
    is_admin: bool = False
    settable_visibilities: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredImage(_ImageFields):
    """A stored image.

    The sizes are None without data. ``id`` is the primary key, None before it is stored.
    """

    uuid: str
    id: int | None = None
    status: str = QUEUED
    visibility: str = SHARED
    protected: bool = False
    os_hidden: bool = False
    created_at: datetime | None = None
    updated_at: datetime | None = None
    tags: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)

    def is_owned_by(self, viewer: Viewer) -> bool:
        """Return whether the viewer may change the image."""
        return viewer.is_admin or (self.owner is not None and self.owner == viewer.project_id)

    def is_open_to(self, viewer: Viewer) -> bool:
        """Return whether the viewer may see the image."""
        return self.visibility in {PUBLIC, COMMUNITY} or self.is_owned_by(viewer)

    def as_request_image(self) -> dict[str, Any]:
        """Return the JSON object of the image for a request spec."""
        return {name: getattr(self, name) for name in _COPIED_KEYS} | {
            "id": self.uuid,
            "tags": sorted(self.tags),
            "properties": dict(self.properties),
        }
