# SPDX-License-Identifier: Apache-2.0
"""Validators of ``hw:``, ``os:``, ``quota:`` and other extra specs of virtual hardware."""

from placement_sched.scheduler.extra_specs.validator import (
    FLAG,
    TEXT,
    ExtraSpecValidator,
    like,
    number,
    one_of,
    validators,
)

_CPUS = like(r"\^?\d+((-\d+)?(,\^?\d+(-\d+)?)?)*")
_PAGES = like(r"(large|small|any|\d+([kKMGT]i?)?(b|bit|B)?)")
_SOUND = ("sb16", "es1370", "pcspk", "ac97", "ich6", "ich9", "usb", "virtio")
_NODE = {"name": "num", "pattern": r"\d+", "description": "The number of the NUMA node."}

_PROCESSORS = {
    "hw:cpu_cores": ("Cores per socket.", number(1)),
    "hw:cpu_dedicated_mask": ("The virtual CPUs that are pinned.", _CPUS),
    "hw:cpu_max_cores": ("Maximum number of cores per socket.", number(1)),
    "hw:cpu_max_sockets": ("Maximum number of sockets.", number(1)),
    "hw:cpu_max_threads": ("Maximum number of threads per core.", number(1)),
    "hw:cpu_realtime": ("Whether virtual CPUs run in real time.", FLAG),
    "hw:cpu_realtime_mask": ("The virtual CPUs that run in real time.", _CPUS),
    "hw:cpu_sockets": ("Sockets.", number(1)),
    "hw:cpu_threads": ("Threads per core.", number(1)),
    "hw:maxphysaddr_bits": ("The width of physical addresses.", number(0)),
    "hw:numa_nodes": ("NUMA nodes of the instance.", number(1)),
    "hw:pmu": ("Whether there is a performance monitoring unit.", FLAG),
}
_MEMORY = {
    "hw:ephemeral_encryption": ("Whether local disks are encrypted.", FLAG),
    "hw:locked_memory": ("Whether memory is never swapped out.", FLAG),
    "hw:mem_encryption": ("Whether memory is encrypted.", FLAG),
    "hw:mem_page_size": ("The size of memory pages.", _PAGES),
    "hw:pmem": ("Virtual persistent memory, by label.", like("([a-zA-Z0-9_]+(,)?)+")),
}
_DEVICES = {
    "hw:boot_menu": ("Whether the boot menu is shown.", FLAG),
    "hw:hide_hypervisor_id": ("Whether the hypervisor is hidden.", FLAG),
    "hw:redirected_usb_ports": ("USB ports that are redirected.", number(0, max=15)),
    "hw:serial_port_count": ("Serial ports.", number(0)),
    "hw:sound_model": ("The sound device.", one_of(*_SOUND)),
    "hw:vif_multiqueue_enabled": ("Whether network devices have several queues.", FLAG),
    "hw:virtio_packed_ring": ("Whether virtio queues are packed.", FLAG),
    "hw_rng:allowed": ("Whether there is a random number generator.", FLAG),
    "hw_rng:rate_bytes": ("Random bytes per period.", number(0)),
    "hw_rng:rate_period": ("The period in milliseconds.", number(0)),
    "hw_video:ram_max_mb": ("Maximum video memory in MB.", number(0)),
    "hide_hypervisor_id": ("The older name of hw:hide_hypervisor_id.", FLAG),
    "accel:device_profile": ("The device profile of cyborg for the accelerators.", TEXT),
    "pci_passthrough:alias": (
        "Aliases of [pci] alias and how many of each: a1:2, or a1:2,b1:1.",
        like(r"[^:]+:\d+(?:\s*,\s*[^:]+:\d+)*"),
    ),
    "vmware:hw_version": ("The version of the virtual hardware of the instance.", TEXT),
    "vmware:storage_policy": ("The storage policy of the instance.", TEXT),
}

#: Extra specs with a fixed set of values.
_CHOICES = {
    "hw:cpu_policy": ("Whether virtual CPUs are pinned.", "dedicated shared mixed"),
    "hw:cpu_thread_policy": ("Whether pinned CPUs share a core.", "prefer isolate require"),
    "hw:emulator_threads_policy": ("Which CPUs run the emulator's threads.", "isolate share"),
    "hw:ephemeral_encryption_format": ("How local disks are encrypted.", "plain luks luksv2"),
    "hw:maxphysaddr_mode": (
        "How the width of physical addresses is provided.",
        "emulate passthrough",
    ),
    "hw:mem_encryption_model": (
        "How memory is encrypted.",
        "amd-sev amd-sev-es amd-sev-snp intel-tdx",
    ),
    "hw:pci_numa_affinity_policy": (
        "The required NUMA affinity of PCI devices.",
        "required preferred legacy socket",
    ),
    "hw:tpm_model": ("The model of the TPM.", "tpm-tis tpm-crb"),
    "hw:tpm_secret_security": ("Where the secret of the TPM is stored.", "user host deployment"),
    "hw:tpm_version": ("The version of the TPM.", "1.2 2.0"),
    "hw:usb_model": ("The USB controller.", "none nec-xhci qemu-xhci"),
    "hw:viommu_model": ("The virtual IOMMU.", "intel smmuv3 virtio auto"),
    "hw:watchdog_action": ("The action of the watchdog.", "none pause poweroff reset disabled"),
    "os:secure_boot": ("Whether the instance boots only signed software.", "disabled required"),
}
_NUMA_NODES = {
    "hw:numa_cpus.{num}": ("The virtual CPUs of this NUMA node.", _CPUS),
    "hw:numa_mem.{num}": ("The memory in MB of this NUMA node.", number(1)),
}

#: Amounts that must not be negative.
_AMOUNTS = (
    "cpu_limit cpu_period cpu_shares cpu_shares_share disk_io_limit disk_io_shares_share"
    " disk_read_bytes_sec disk_read_iops_sec disk_total_bytes_sec disk_total_iops_sec"
    " disk_write_bytes_sec disk_write_iops_sec memory_limit memory_shares_share"
    " vif_inbound_average vif_inbound_burst vif_inbound_peak vif_limit vif_outbound_average"
    " vif_outbound_burst vif_outbound_peak vif_shares_share"
)
#: Amounts that may be negative, which means no limit for some drivers.
_SIGNED_AMOUNTS = "cpu_quota cpu_reservation disk_io_reservation memory_reservation vif_reservation"
_LEVEL = one_of("custom", "high", "normal", "low")
_LEVELS = ("cpu_shares_level", "disk_io_shares_level", "memory_shares_level", "vif_shares_level")


def register() -> list[ExtraSpecValidator]:
    """Return the validators of virtual hardware and quotas."""
    quotas = {
        f"quota:{name}": ("The priority of an instance under contention.", _LEVEL)
        for name in _LEVELS
    }
    for names, kind in ((_AMOUNTS, number(0)), (_SIGNED_AMOUNTS, number())):
        for name in names.split():
            quotas[f"quota:{name}"] = (f"The {name.replace('_', ' ')} of an instance.", kind)
    choices = {name: (text, one_of(*words.split())) for name, (text, words) in _CHOICES.items()}
    tables = _PROCESSORS | _MEMORY | _DEVICES | choices | quotas
    return validators(tables) + validators(_NUMA_NODES, _NODE)
