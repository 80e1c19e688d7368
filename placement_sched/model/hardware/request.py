# SPDX-License-Identifier: Apache-2.0
"""Hardware requests of a flavor and an image, including NUMA nodes.

Pinned CPUs, a page size or persistent memory imply a single NUMA node if no number is requested.
Source: nova's documentation, "CPU topologies" ("Customizing instance NUMA placement policies"),
"Huge pages" and "Attaching virtual persistent memory to guests".
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from typing import Any

import os_resource_classes
from oslo_utils.strutils import string_to_bytes

from placement_sched.errors import Invalid
from placement_sched.limits import MAX_CPUS, MAX_NUMA_NODES
from placement_sched.model.flavor import Flavor, list_cpus, parse_cpu_set
from placement_sched.model.hardware import cpu_policy
from placement_sched.model.hardware.cpu_policy import (
    FlavorImage,
    RequestedCPUs,
    check_allowed,
    define_agreed_flag,
    define_agreed_value,
    format_flavor_source,
    format_image_source,
)
from placement_sched.model.hardware.numa import (
    PAGES_ANY,
    PAGES_LARGE,
    PAGES_SMALL,
    InstanceNUMACell,
    InstanceNUMATopology,
)
from placement_sched.model.hardware.pci_requests import (
    Alias,
    InstancePCIRequest,
    build_pci_requests,
)

_TPM_VERSIONS = {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"}
_TIS, _CRB = "tpm-tis", "tpm-crb"
_TPM_MODELS = {_TIS: "COMPUTE_SECURITY_TPM_TIS", _CRB: "COMPUTE_SECURITY_TPM_CRB"}
_SECRET_SECURITY = ("user", "host", "deployment")


class RequestedDevices(FlavorImage):
    """The device and firmware requests of flavor and image.

    A property is None, False or empty if flavor and image do not request it.
    """

    #: The mode of the guest's physical address width (``hw:maxphysaddr_mode``).
    address_mode = define_agreed_value("maxphysaddr_mode")
    secure_boot = define_agreed_value("secure_boot", "os")
    #: The model of the sound device.
    sound_model = define_agreed_value("sound_model")
    #: Whether packed virtio queues are requested.
    has_packed_ring = define_agreed_flag("virtio_packed_ring")
    #: Whether encrypted local disks are requested, and the encryption format.
    has_ephemeral_encryption = define_agreed_flag("ephemeral_encryption")
    ephemeral_encryption_format = define_agreed_value("ephemeral_encryption_format")
    #: The NUMA affinity policy of PCI devices, which overrides the policies of aliases.
    pci_affinity_policy = define_agreed_value("pci_numa_affinity_policy")

    @property
    def device_profile(self) -> str | None:
        """Return the name of the flavor's cyborg device profile, or None."""
        return self.flavor.extra_specs.get("accel:device_profile")

    @cached_property
    def pmem_namespaces(self) -> Mapping[str, int]:
        """Map the resource class of each ``hw:pmem`` label to its amount.

        The amount is the number of times that ``hw:pmem`` has the label.
        """
        labels = self.flavor.extra_specs.get("hw:pmem", "").split(",")
        return Counter(
            os_resource_classes.normalize_name(f"PMEM_NAMESPACE_{label.strip()}")
            for label in labels
            if label.strip()
        )

    @cached_property
    def tpm_traits(self) -> tuple[str, ...]:
        """Return the traits for model and version of the requested TPM.

        A model without a version requests no TPM. The CRB model needs version 2.0.
        """
        version = self.find_agreed_value("tpm_version")
        if version is None:
            return ()
        model = self.find_agreed_value("tpm_model") or _TIS
        if model == _CRB and version != "2.0":
            raise Invalid(
                f"{self.find_source('tpm_model')} is {model!r}, which needs "
                f"{self.find_source('tpm_version')} to be '2.0', not {version!r}"
            )
        return (_TPM_MODELS[model], _TPM_VERSIONS[version])

    @cached_property
    def tpm_secret_security(self) -> str | None:
        """Return the security policy of the TPM's secret, None without a TPM.

        The policy is ``user`` (the default), ``host`` or ``deployment``.
        """
        if not self.tpm_traits:
            return None
        secret_security = (
            self.flavor.extra_specs.get("hw:tpm_secret_security") or _SECRET_SECURITY[0]
        )
        source = cpu_policy.format_flavor_source("tpm_secret_security")
        return cpu_policy.check_allowed(secret_security, _SECRET_SECURITY, source)


_ENCRYPTION, _MODEL, _SIZE = "mem_encryption", "mem_encryption_model", "mem_page_size"
_PAGE_KEYWORDS = {"small": PAGES_SMALL, "large": PAGES_LARGE, "any": PAGES_ANY}


@dataclass(frozen=True, slots=True)
class EncryptionModel:
    """A model of memory encryption: its trait and its requirements."""

    trait: str
    locks_memory: bool = False
    stateless_firmware: bool = False
    no_video: bool = False


#: The encryption models by their names in extra spec and property. The first is the default.
_MODELS = {
    "amd-sev": EncryptionModel(trait="HW_CPU_X86_AMD_SEV", locks_memory=True),
    "amd-sev-es": EncryptionModel(trait="HW_CPU_X86_AMD_SEV_ES", locks_memory=True),
    "amd-sev-snp": EncryptionModel(trait="HW_CPU_X86_AMD_SEV_SNP", stateless_firmware=True),
    "intel-tdx": EncryptionModel("HW_CPU_X86_INTEL_TDX", stateless_firmware=True, no_video=True),
}


class RequestedMemory(FlavorImage):
    """The memory requests of flavor and image."""

    @cached_property
    def page_size(self) -> float | None:
        """Return the page size in KiB, a page size keyword, or None.

        Keywords are :data:`PAGES_SMALL`, :data:`PAGES_LARGE` and :data:`PAGES_ANY`. A size in
        kilobits may be a fraction of KiB. An image may set a page size only if the flavor has
        ``large`` or ``any``.
        """
        by_flavor, by_image = self.get_values(_SIZE)
        size = _parse_page_size(by_flavor, format_flavor_source(_SIZE)) if by_flavor else None
        if not by_image:
            return size
        if size not in (PAGES_LARGE, PAGES_ANY):
            rule = "an image may choose the page size only if its flavor has 'large' or 'any'"
            raise self.build_conflict(_SIZE, rule)
        return _parse_page_size(by_image, format_image_source(_SIZE))

    @cached_property
    def is_locked(self) -> bool | None:
        """Return whether memory is locked against swapping, or None if not set.

        Some encryption models lock memory, too. ``hw:locked_memory`` requires a page size.
        """
        locked = self.find_agreed_flag("locked_memory")
        if locked and not any(self.get_values(_SIZE)):
            source = self.find_source("locked_memory")
            raise Invalid(f"{source} needs a page size, set {format_flavor_source(_SIZE)}")
        if locked:
            return True
        return True if self.encryption and self.encryption.locks_memory else locked

    @cached_property
    def encryption(self) -> EncryptionModel | None:
        """Return the requested model of memory encryption, or None.

        The image's firmware, machine type and video model must support the encryption model.
        """
        if not self.find_agreed_flag(_ENCRYPTION):
            return None
        by_flavor, by_image = self.get_values(_MODEL)
        if by_flavor is not None and by_image is not None and by_flavor != by_image:
            raise self.build_conflict(_MODEL, "they must be equal")
        name = by_image or by_flavor or next(iter(_MODELS))
        model = _MODELS[check_allowed(name, _MODELS, self.find_source(_MODEL))]
        _check_image(self, model, f"{self.find_source(_ENCRYPTION)} requests {name}")
        return model


def _check_image(request: FlavorImage, model: EncryptionModel, requested: str) -> None:
    properties = request.image.properties
    machine = properties.get("hw_machine_type")
    if properties.get("hw_firmware_type") != "uefi":
        raise Invalid(f"{requested}: {format_image_source('firmware_type')} must be 'uefi'")
    if machine is not None and "q35" not in machine:
        raise Invalid(
            f"{requested}: {format_image_source('machine_type')} must be a q35, not {machine!r}"
        )
    if model.stateless_firmware and not request.has_stateless_firmware:
        raise Invalid(f"{requested}: {format_image_source('firmware_stateless')} must be true")
    if model.no_video and properties.get("hw_video_model") != "none":
        raise Invalid(f"{requested}: {format_image_source('video_model')} must be 'none'")


def _parse_page_size(text: str, source: str) -> float:
    """Parse a page size: keyword, number of KiB, or number with a unit."""
    if text in _PAGE_KEYWORDS:
        return _PAGE_KEYWORDS[text]
    try:
        return int(text) if text.isdigit() else string_to_bytes(text, return_int=True) / 1024
    except (ValueError, OverflowError):
        raise Invalid(
            f"{source}: expected small, large, any, a number of KiB or a size with a unit, "
            f"got {text!r}"
        ) from None


_CPUS = f"{format_flavor_source('numa_cpus.N')} or {format_image_source('numa_cpus.N')}"
_MEM = f"{format_flavor_source('numa_mem.N')} or {format_image_source('numa_mem.N')}"
#: The share of a NUMA node: virtual CPUs, and memory in MB.
_Share = tuple[frozenset[int], int]


def _parse_node_count(request: FlavorImage) -> int | None:
    """Return the requested number of NUMA nodes, or None if it is not set."""
    by_flavor, by_image = request.get_values("numa_nodes")
    if by_flavor and by_image:
        raise request.build_conflict("numa_nodes", "only one of them may be set")
    if not by_flavor and by_image in (None, ""):
        return None
    text = str(by_flavor or by_image)
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    if str(number) != text or not 1 <= number <= MAX_CPUS:
        source = request.find_source("numa_nodes")
        raise Invalid(f"{source}: expected a number of nodes from 1 to {MAX_CPUS}, got {text!r}")
    return number


def _read_node_shares(request: FlavorImage, nodes: int) -> Iterable[_Share]:
    """Return the CPUs and memory of each NUMA node: explicit or equal shares."""
    flavor, cpus = request.flavor, _read_per_node(request, "numa_cpus", parse_cpu_set)
    memory = _read_per_node(request, "numa_mem", _parse_memory)
    if cpus is None and memory is None:
        return _split_equally(request, nodes)
    if cpus is None or memory is None or not len(cpus) == len(memory) == nodes:
        raise Invalid(
            f"{_CPUS} and {_MEM} must both be set for each of the {nodes} nodes of "
            f"{format_flavor_source('numa_nodes')} or {format_image_source('numa_nodes')}, "
            "and for no other"
        )
    _check_cpus(flavor, cpus)
    if min(memory) < 0 or sum(memory) != flavor.memory_mb:
        raise Invalid(
            f"{_MEM}: {memory} must be amounts of 0 or more that add up to the flavor's "
            f"{flavor.memory_mb} MB"
        )
    return zip(cpus, memory, strict=True)


def _read_per_node(
    request: FlavorImage, key: str, read: Callable[[str, str], Any]
) -> Sequence[Any] | None:
    """Read values numbered by NUMA node from flavor or image, or return None."""
    extra_specs = request.flavor.extra_specs
    keys = (f"{key}.{node}" for node in range(MAX_NUMA_NODES))
    names_in_flavor = takewhile(lambda name: f"hw:{name}" in extra_specs, keys)
    by_flavor = [
        read(extra_specs[f"hw:{name}"], format_flavor_source(name)) for name in names_in_flavor
    ]
    by_image: Sequence[Any] | None = request.image.properties.get(f"hw_{key}")
    if by_flavor and by_image is not None:
        sources = f"{format_flavor_source(f'{key}.0')} and {format_image_source(f'{key}.0')}"
        raise Invalid(f"{sources}: only one of them may be set")
    return by_flavor or by_image


def _parse_memory(text: str, source: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"{source}: expected an amount of MB, got {text!r}") from None


def _split_equally(request: FlavorImage, nodes: int) -> Iterable[_Share]:
    flavor = request.flavor
    if flavor.vcpus % nodes or flavor.memory_mb % nodes:
        raise Invalid(
            f"{request.find_source('numa_nodes')}: {flavor.vcpus} vcpus and {flavor.memory_mb} MB "
            f"cannot be split into {nodes} equal shares. Set {_CPUS} and {_MEM}"
        )
    all_vcpus, width = sorted(list_cpus(flavor)), flavor.vcpus // nodes
    starts = (node * width for node in range(nodes))
    return [
        (frozenset(all_vcpus[start : start + width]), flavor.memory_mb // nodes) for start in starts
    ]


def _check_cpus(flavor: Flavor, by_node: Sequence[frozenset[int]]) -> None:
    all_vcpus, used_cpus = list_cpus(flavor), frozenset().union(*by_node)
    if not used_cpus <= all_vcpus:
        raise Invalid(
            f"{_CPUS}: CPU {min(used_cpus - all_vcpus)} is not one of {flavor.vcpus} vcpus"
        )
    if len(used_cpus) < sum(map(len, by_node)):
        raise Invalid(f"{_CPUS}: a CPU is on two nodes")
    if used_cpus != all_vcpus:
        raise Invalid(f"{_CPUS}: CPU {min(all_vcpus - used_cpus)} is on no node")


class RequestedHardware(FlavorImage):
    """All hardware requests of a flavor and an image.

    Each value is read on first access and cached. A request spec with a NUMA topology is therefore
    never rejected for the NUMA extra specs of its flavor.
    """

    @cached_property
    def cpus(self) -> RequestedCPUs:
        """Return the CPU requests."""
        return RequestedCPUs(self.flavor, self.image)

    @cached_property
    def memory(self) -> RequestedMemory:
        """Return the memory requests."""
        return RequestedMemory(self.flavor, self.image)

    @cached_property
    def devices(self) -> RequestedDevices:
        """Return the device and firmware requests."""
        return RequestedDevices(self.flavor, self.image)

    @cached_property
    def numa_topology(self) -> InstanceNUMATopology | None:
        """Return the NUMA nodes of the instance, or None if none are requested.

        Raises :class:`Invalid` for invalid or contradicting values, even if no nodes are requested.
        """
        pinning, nodes, size = self.cpus.pinning, _parse_node_count(self), self.memory.page_size
        self.memory.is_locked  # noqa: B018 - checked even if no node is requested
        if not (nodes or size or pinning.is_requested or self.devices.pmem_namespaces):
            return None
        if pinning.thread_policy is None and self.get_values("cpu_thread_policy")[0] == "":
            # An empty policy requests no nodes, but is invalid on a node.
            raise Invalid(f"{format_flavor_source('cpu_thread_policy')} is empty")
        cells = (
            InstanceNUMACell(
                id=node,
                cpuset=cpus - pinning.pinned,
                pcpuset=cpus & pinning.pinned,
                memory=memory,
                pagesize=None if size is None else int(size),
                cpu_policy=pinning.cpu_policy,
                cpu_thread_policy=pinning.thread_policy,
            )
            for node, (cpus, memory) in enumerate(_read_node_shares(self, nodes or 1))
        )
        threads = pinning.emulator_threads
        return InstanceNUMATopology(cells=tuple(cells), emulator_threads_policy=threads)

    def build_pci_requests(self, aliases: Mapping[str, Alias]) -> tuple[InstancePCIRequest, ...]:
        """Build the PCI requests for the aliases of the flavor."""
        return build_pci_requests(self.flavor, self.devices.pci_affinity_policy, aliases)
