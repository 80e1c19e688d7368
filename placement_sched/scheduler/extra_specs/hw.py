"""``hw:``, ``hw_rng:`` and ``hw_video:``: the hardware that an instance sees."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from placement_sched.scheduler.extra_specs.validator import ExtraSpecValidator

_CPUS = r"\^?\d+((-\d+)?(,\^?\d+(-\d+)?)?)*"
_PAGES = r"(large|small|any|\d+([kKMGT]i?)?(b|bit|B)?)"
_SOUND = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")
_NODE = {"name": "num", "pattern": r"\d+", "description": "The number of the NUMA node."}

Values = Mapping[str, tuple[str, Mapping[str, Any]]]


def _one_of(*choices: str) -> dict[str, Any]:
    return {"type": str, "enum": choices}


def _like(pattern: str) -> dict[str, Any]:
    return {"type": str, "pattern": pattern}


def _from(least: int, **more: int) -> dict[str, Any]:
    return {"type": int, "min": least, **more}


_FLAG = {"type": bool}

_PROCESSORS: Values = MappingProxyType(
    {
        "hw:cpu_cores": ("Cores per socket.", _from(1)),
        "hw:cpu_dedicated_mask": ("The virtual CPUs that are pinned.", _like(_CPUS)),
        "hw:cpu_max_cores": ("The most cores per socket.", _from(1)),
        "hw:cpu_max_sockets": ("The most sockets.", _from(1)),
        "hw:cpu_max_threads": ("The most threads per core.", _from(1)),
        "hw:cpu_policy": (
            "Whether virtual CPUs are pinned.",
            _one_of("dedicated", "shared", "mixed"),
        ),
        "hw:cpu_realtime": ("Whether virtual CPUs run in real time.", _FLAG),
        "hw:cpu_realtime_mask": ("The virtual CPUs that run in real time.", _like(_CPUS)),
        "hw:cpu_sockets": ("Sockets.", _from(1)),
        "hw:cpu_thread_policy": (
            "Whether pinned CPUs share a core.",
            _one_of("prefer", "isolate", "require"),
        ),
        "hw:cpu_threads": ("Threads per core.", _from(1)),
        "hw:emulator_threads_policy": (
            "Where the emulator's own threads run.",
            _one_of("isolate", "share"),
        ),
        "hw:maxphysaddr_bits": ("The width of physical addresses.", _from(0)),
        "hw:maxphysaddr_mode": (
            "How the width of physical addresses is made.",
            _one_of("emulate", "passthrough"),
        ),
        "hw:numa_nodes": ("NUMA nodes of the instance.", _from(1)),
        "hw:pmu": ("Whether there is a performance monitoring unit.", _FLAG),
    }
)
_MEMORY: Values = MappingProxyType(
    {
        "hw:ephemeral_encryption": ("Whether local disks are encrypted.", _FLAG),
        "hw:ephemeral_encryption_format": (
            "How local disks are encrypted.",
            _one_of("plain", "luks", "luksv2"),
        ),
        "hw:locked_memory": ("Whether memory is never swapped out.", _FLAG),
        "hw:mem_encryption": ("Whether memory is encrypted.", _FLAG),
        "hw:mem_encryption_model": (
            "How memory is encrypted.",
            _one_of("amd-sev", "amd-sev-es", "amd-sev-snp", "intel-tdx"),
        ),
        "hw:mem_page_size": ("The size of memory pages.", _like(_PAGES)),
        "hw:pmem": ("Virtual persistent memory, by label.", _like("([a-zA-Z0-9_]+(,)?)+")),
    }
)
_DEVICES: Values = MappingProxyType(
    {
        "hw:boot_menu": ("Whether the boot menu is shown.", _FLAG),
        "hw:hide_hypervisor_id": ("Whether the hypervisor is hidden.", _FLAG),
        "hw:pci_numa_affinity_policy": (
            "How near PCI devices must be.",
            _one_of("required", "preferred", "legacy", "socket"),
        ),
        "hw:redirected_usb_ports": ("USB ports that are redirected.", _from(0, max=15)),
        "hw:serial_port_count": ("Serial ports.", _from(0)),
        "hw:sound_model": ("The sound device.", _one_of(*_SOUND)),
        "hw:tpm_model": ("The model of the TPM.", _one_of("tpm-tis", "tpm-crb")),
        "hw:tpm_secret_security": (
            "Who keeps the secret of the TPM.",
            _one_of("user", "host", "deployment"),
        ),
        "hw:tpm_version": ("The version of the TPM.", _one_of("1.2", "2.0")),
        "hw:usb_model": ("The USB controller.", _one_of("none", "nec-xhci", "qemu-xhci")),
        "hw:vif_multiqueue_enabled": ("Whether network devices have several queues.", _FLAG),
        "hw:viommu_model": (
            "The virtual IOMMU.",
            _one_of("intel", "smmuv3", "virtio", "auto"),
        ),
        "hw:virtio_packed_ring": ("Whether virtio queues are packed.", _FLAG),
        "hw:watchdog_action": (
            "What the watchdog does.",
            _one_of("none", "pause", "poweroff", "reset", "disabled"),
        ),
        "hw_rng:allowed": ("Whether there is a random number generator.", _FLAG),
        "hw_rng:rate_bytes": ("Random bytes per period.", _from(0)),
        "hw_rng:rate_period": ("The period in milliseconds.", _from(0)),
        "hw_video:ram_max_mb": ("The most video memory in MB.", _from(0)),
    }
)


def register() -> list[ExtraSpecValidator]:
    """Return the extra specs about hardware."""
    plain = [
        ExtraSpecValidator(name=name, description=text, value=value)
        for values in (_PROCESSORS, _MEMORY, _DEVICES)
        for name, (text, value) in values.items()
    ]
    of_nodes = [
        ExtraSpecValidator(name=name, description=text, value=value, parameters=[_NODE])
        for name, text, value in (
            ("hw:numa_cpus.{num}", "The virtual CPUs of this NUMA node.", _like(_CPUS)),
            ("hw:numa_mem.{num}", "The memory in MB of this NUMA node.", _from(1)),
        )
    ]
    return plain + of_nodes
