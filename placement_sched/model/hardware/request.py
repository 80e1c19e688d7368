"""What a flavor and an image, read together, request of the hardware, and so which NUMA nodes.

Pinned CPUs, pages of a size and persistent memory need nodes too: one, where no number is set.
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
from placement_sched.model.flavor import Flavor
from placement_sched.model.hardware import cpu_policy
from placement_sched.model.hardware.cpu_policy import (
    FlavorImage,
    RequestedCPUs,
    agreed,
    agreed_flag,
    of_flavor,
    of_image,
    one_of,
)
from placement_sched.model.hardware.cpu_sets import all_cpus, cpu_set
from placement_sched.model.hardware.numa import (
    PAGES_ANY,
    PAGES_LARGE,
    PAGES_SMALL,
    InstanceNUMACell,
    InstanceNUMATopology,
)
from placement_sched.model.hardware.pci_requests import (
    AFFINITY_POLICIES,
    Alias,
    InstancePCIRequest,
    pci_requests,
)

_TPM_VERSIONS = {"1.2": "COMPUTE_SECURITY_TPM_1_2", "2.0": "COMPUTE_SECURITY_TPM_2_0"}
_TIS, _CRB = "tpm-tis", "tpm-crb"
_TPM_MODELS = {_TIS: "COMPUTE_SECURITY_TPM_TIS", _CRB: "COMPUTE_SECURITY_TPM_CRB"}
_SECRET_SECURITY = ("user", "host", "deployment")
_SOUND_MODELS = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")


class RequestedDevices(FlavorImage):
    """The devices and the firmware that flavor and image request, each value read once.

    Each property is None, False or empty where nothing is requested.
    """

    #: How the width of physical addresses is made.
    address_mode = agreed("maxphysaddr_mode", ("passthrough", "emulate"))
    secure_boot = agreed("secure_boot", ("required", "disabled", "optional"), "os")
    #: The model of the sound device.
    sound_model = agreed("sound_model", _SOUND_MODELS)
    #: Whether packed virtio queues are requested.
    has_packed_ring = agreed_flag("virtio_packed_ring")
    #: Whether encrypted local disks are requested, and how they are encrypted.
    has_ephemeral_encryption = agreed_flag("ephemeral_encryption")
    ephemeral_encryption_format = agreed("ephemeral_encryption_format", ("plain", "luks", "luksv2"))
    #: How near PCI devices must be; it wins over the policies of aliases.
    pci_affinity_policy = agreed("pci_numa_affinity_policy", AFFINITY_POLICIES)

    @property
    def device_profile(self) -> str | None:
        """Return the name of cyborg's device profile, by which the flavor requests accelerators."""
        return self.flavor.extra_specs.get("accel:device_profile")

    @cached_property
    def pmem_namespaces(self) -> Mapping[str, int]:
        """Return how many namespaces ``hw:pmem`` requests, by the resource class of their label."""
        labels = self.flavor.extra_specs.get("hw:pmem", "").split(",")
        return Counter(
            os_resource_classes.normalize_name(f"PMEM_NAMESPACE_{label.strip()}")
            for label in labels
            if label.strip()
        )

    @cached_property
    def tpm_traits(self) -> tuple[str, ...]:
        """Return the traits of the TPM's model and version.

        A version requests a TPM; a model alone does not. The CRB model needs version 2.0.
        """
        version = self.agreed("tpm_version", _TPM_VERSIONS)
        if version is None:
            return ()
        model = self.agreed("tpm_model", _TPM_MODELS) or _TIS
        if model == _CRB and version != "2.0":
            raise Invalid(
                f"{self.source('tpm_model')} is {model!r}, which needs "
                f"{self.source('tpm_version')} to be '2.0', not {version!r}"
            )
        return (_TPM_MODELS[model], _TPM_VERSIONS[version])

    @cached_property
    def tpm_secret_security(self) -> str | None:
        """Return who keeps the TPM's secret: ``user`` (default), ``host`` or ``deployment``."""
        if not self.tpm_traits:
            return None
        keeper = self.flavor.extra_specs.get("hw:tpm_secret_security") or _SECRET_SECURITY[0]
        where = cpu_policy.of_flavor("tpm_secret_security")
        return cpu_policy.one_of(keeper, _SECRET_SECURITY, where)


_ENCRYPTION, _MODEL, _SIZE = "mem_encryption", "mem_encryption_model", "mem_page_size"
_WORDS = {"small": PAGES_SMALL, "large": PAGES_LARGE, "any": PAGES_ANY}


@dataclass(frozen=True, slots=True)
class EncryptionModel:
    """One way of encrypting memory, and what it needs beside its CPU's trait."""

    trait: str
    locks_memory: bool = False
    stateless_firmware: bool = False
    no_video: bool = False


#: By their names in extra spec and property; the first is the default.
_MODELS = {
    "amd-sev": EncryptionModel(trait="HW_CPU_X86_AMD_SEV", locks_memory=True),
    "amd-sev-es": EncryptionModel(trait="HW_CPU_X86_AMD_SEV_ES", locks_memory=True),
    "amd-sev-snp": EncryptionModel(trait="HW_CPU_X86_AMD_SEV_SNP", stateless_firmware=True),
    "intel-tdx": EncryptionModel("HW_CPU_X86_INTEL_TDX", stateless_firmware=True, no_video=True),
}


class RequestedMemory(FlavorImage):
    """What flavor and image request of memory, each value read once."""

    @cached_property
    def page_size(self) -> float | None:
        """Return the size of memory pages in KiB, a fraction where kilobits make one.

        The words ``small``, ``large`` and ``any`` are :data:`PAGES_SMALL` and the like; None where
        no size is set. An image may choose only where its flavor has ``large`` or ``any``.
        """
        by_flavor, by_image = self.values(_SIZE)
        size = _in_kib(by_flavor, of_flavor(_SIZE)) if by_flavor else None
        if not by_image:
            return size
        if size not in (PAGES_LARGE, PAGES_ANY):
            why = "an image may choose pages only where its flavor has 'large' or 'any'"
            raise self.conflict(_SIZE, why)
        return _in_kib(by_image, of_image(_SIZE))

    @cached_property
    def is_locked(self) -> bool | None:
        """Return whether memory is never swapped out; None where that is not set.

        Some encryption of memory needs it too; where it is set, a page size must be set as well.
        """
        locked = self.agreed_flag("locked_memory")
        if locked and not any(self.values(_SIZE)):
            where = self.source("locked_memory")
            raise Invalid(f"{where} needs a page size, set {of_flavor(_SIZE)}")
        if locked:
            return True
        return True if self.encryption and self.encryption.locks_memory else locked

    @cached_property
    def encryption(self) -> EncryptionModel | None:
        """Return the encryption of memory that is requested; None where none is.

        The image's firmware, machine type and video model must suit it.
        """
        if not self.agreed_flag(_ENCRYPTION):
            return None
        by_flavor, by_image = self.values(_MODEL)
        if by_flavor is not None and by_image is not None and by_flavor != by_image:
            raise self.conflict(_MODEL, "they must be equal")
        name = by_image or by_flavor or next(iter(_MODELS))
        model = _MODELS[one_of(name, _MODELS, self.source(_MODEL))]
        _check_image(self, model, f"{self.source(_ENCRYPTION)} requests {name}")
        return model


def _check_image(both: FlavorImage, model: EncryptionModel, requested: str) -> None:
    properties = both.image.properties
    machine = properties.get("hw_machine_type")
    if properties.get("hw_firmware_type") != "uefi":
        raise Invalid(f"{requested}: {of_image('firmware_type')} must be 'uefi'")
    if machine is not None and "q35" not in machine:
        raise Invalid(f"{requested}: {of_image('machine_type')} must be a q35, not {machine!r}")
    if model.stateless_firmware and not both.has_stateless_firmware:
        raise Invalid(f"{requested}: {of_image('firmware_stateless')} must be true")
    if model.no_video and properties.get("hw_video_model") != "none":
        raise Invalid(f"{requested}: {of_image('video_model')} must be 'none'")


def _in_kib(text: str, where: str) -> float:
    """Return the size of a text: a word, a number of KiB, or a number with a unit."""
    if text in _WORDS:
        return _WORDS[text]
    try:
        return int(text) if text.isdigit() else string_to_bytes(text, return_int=True) / 1024
    except (ValueError, OverflowError):
        raise Invalid(
            f"{where}: expected small, large, any, KiB or a size with a unit, got {text!r}"
        ) from None


_CPUS = f"{of_flavor('numa_cpus.N')} or {of_image('numa_cpus.N')}"
_MEM = f"{of_flavor('numa_mem.N')} or {of_image('numa_mem.N')}"
#: What one NUMA node has of an instance: virtual CPUs, and memory in MB.
_Share = tuple[frozenset[int], int]


def _node_count(both: FlavorImage) -> int | None:
    """Return how many NUMA nodes are requested; None where that is not set."""
    by_flavor, by_image = both.values("numa_nodes")
    if by_flavor and by_image:
        raise both.conflict("numa_nodes", "only one of them may be set")
    if not by_flavor and by_image in (None, ""):
        return None
    text = str(by_flavor or by_image)
    number = int(text) if text.isdecimal() and len(text) < 10 else 0
    if str(number) != text or not 1 <= number <= MAX_CPUS:
        where = both.source("numa_nodes")
        raise Invalid(f"{where}: expected a number of nodes from 1 to {MAX_CPUS}, got {text!r}")
    return number


def _shares(both: FlavorImage, nodes: int) -> Iterable[_Share]:
    """Return the share of each node, as flavor or image set it, else equal shares."""
    flavor, cpus = both.flavor, _by_node(both, "numa_cpus", cpu_set)
    memory = _by_node(both, "numa_mem", _memory)
    if cpus is None and memory is None:
        return _equal_shares(both, nodes)
    if cpus is None or memory is None or not len(cpus) == len(memory) == nodes:
        raise Invalid(
            f"{_CPUS} and {_MEM} must both be set for each of the {nodes} nodes of "
            f"{of_flavor('numa_nodes')} or {of_image('numa_nodes')}, and for no other"
        )
    _check_cpus(flavor, cpus)
    if min(memory) < 0 or sum(memory) != flavor.memory_mb:
        raise Invalid(
            f"{_MEM}: {memory} must be amounts of 0 or more that add up to the flavor's "
            f"{flavor.memory_mb} MB"
        )
    return zip(cpus, memory, strict=True)


def _by_node(both: FlavorImage, key: str, read: Callable[[str, str], Any]) -> Sequence[Any] | None:
    """Return the values that flavor or image set for the nodes from 0 on; None where neither."""
    extra_specs = both.flavor.extra_specs
    keys = (f"{key}.{node}" for node in range(MAX_NUMA_NODES))
    given = takewhile(lambda name: f"hw:{name}" in extra_specs, keys)
    by_flavor = [read(extra_specs[f"hw:{name}"], of_flavor(name)) for name in given]
    by_image: Sequence[Any] | None = both.image.properties.get(f"hw_{key}")
    if by_flavor and by_image is not None:
        raise Invalid(
            f"{of_flavor(f'{key}.0')} and {of_image(f'{key}.0')}: only one of them may be set"
        )
    return by_flavor or by_image


def _memory(text: str, where: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise Invalid(f"{where}: expected an amount of MB, got {text!r}") from None


def _equal_shares(both: FlavorImage, nodes: int) -> Iterable[_Share]:
    flavor = both.flavor
    if flavor.vcpus % nodes or flavor.memory_mb % nodes:
        raise Invalid(
            f"{both.source('numa_nodes')}: {flavor.vcpus} vcpus and {flavor.memory_mb} MB cannot "
            f"be split into {nodes} equal shares; set {_CPUS} and {_MEM}"
        )
    every, width = sorted(all_cpus(flavor)), flavor.vcpus // nodes
    starts = (node * width for node in range(nodes))
    return [(frozenset(every[at : at + width]), flavor.memory_mb // nodes) for at in starts]


def _check_cpus(flavor: Flavor, by_node: Sequence[frozenset[int]]) -> None:
    every, named = all_cpus(flavor), frozenset().union(*by_node)
    if not named <= every:
        raise Invalid(f"{_CPUS}: CPU {min(named - every)} is not one of {flavor.vcpus} vcpus")
    if len(named) < sum(map(len, by_node)):
        raise Invalid(f"{_CPUS}: a CPU is on two nodes")
    if named != every:
        raise Invalid(f"{_CPUS}: CPU {min(every - named)} is on no node")


class RequestedHardware(FlavorImage):
    """What a flavor and an image request of the hardware.

    Each value is read when first looked at, and kept: a request that gives its NUMA nodes itself is
    not refused for what its flavor says of them.
    """

    @cached_property
    def cpus(self) -> RequestedCPUs:
        """Return what is requested of CPUs."""
        return RequestedCPUs(self.flavor, self.image)

    @cached_property
    def memory(self) -> RequestedMemory:
        """Return what is requested of memory."""
        return RequestedMemory(self.flavor, self.image)

    @cached_property
    def devices(self) -> RequestedDevices:
        """Return what is requested of devices and firmware."""
        return RequestedDevices(self.flavor, self.image)

    @cached_property
    def numa_topology(self) -> InstanceNUMATopology | None:
        """Return the NUMA nodes of the instance; None where none are requested.

        Raises :class:`Invalid`, naming the keys, for values that are not valid or contradict each
        other, whether or not there are nodes then.
        """
        pinning, nodes, size = self.cpus.pinning, _node_count(self), self.memory.page_size
        self.memory.is_locked  # noqa: B018 - is checked even where no node is requested
        if not (nodes or size or pinning.is_requested or self.devices.pmem_namespaces):
            return None
        if pinning.thread_policy is None and self.values("cpu_thread_policy")[0] == "":
            # An empty policy requests nothing, but no node can have it.
            raise Invalid(f"{of_flavor('cpu_thread_policy')} is empty")
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
            for node, (cpus, memory) in enumerate(_shares(self, nodes or 1))
        )
        threads = pinning.emulator_threads
        return InstanceNUMATopology(cells=tuple(cells), emulator_threads_policy=threads)

    def pci_requests(self, aliases: Mapping[str, Alias]) -> tuple[InstancePCIRequest, ...]:
        """Return the requests for the devices of the flavor's aliases."""
        return pci_requests(self.flavor, self.devices.pci_affinity_policy, aliases)
