"""What the hardware extra specs and image properties ask of placement.

Source: nova's documentation, "CPU topologies", "AMD SEV", "Emulated Trusted Platform Module",
"Secure Boot", "Attaching virtual persistent memory to guests" and "Extra Specs".
"""

from placement_sched.model.flavor import Flavor
from placement_sched.model.image import Image
from placement_sched.scheduler.groups.gathering import Groups
from placement_sched.scheduler.hardware.addresses import address_mode
from placement_sched.scheduler.hardware.both import place
from placement_sched.scheduler.hardware.cpus import (
    cpu_policy,
    cpu_thread_policy,
    dedicated_cpus,
    emulator_threads_policy,
    realtime_cpus,
)
from placement_sched.scheduler.hardware.firmware import needs_stateless_firmware, secure_boot
from placement_sched.scheduler.hardware.memory_encryption import encryption_trait
from placement_sched.scheduler.hardware.pci import pci_affinity_policy
from placement_sched.scheduler.hardware.pmem import pmem_amounts
from placement_sched.scheduler.hardware.tpm import tpm_traits

_THREADS = "HW_CPU_HYPERTHREADING"
_ADDRESS_TRAITS = {
    "passthrough": "COMPUTE_ADDRESS_SPACE_PASSTHROUGH",
    "emulate": "COMPUTE_ADDRESS_SPACE_EMULATED",
}


def add_cpus(groups: Groups, flavor: Flavor, image: Image) -> None:
    """Ask for CPUs of their own (PCPU) as the CPU policy says, and for or against threads.

    Of a mixed instance the dedicated CPUs are its dedicated or else its realtime ones. Threads of
    the emulator that are kept apart need one more.
    """
    policy = cpu_policy(flavor, image)
    source = place(flavor, image, "cpu_policy")
    extra = 1 if emulator_threads_policy(flavor) == "isolate" else 0
    if policy == "dedicated":
        groups.plain.ask("PCPU", flavor.vcpus + extra, source)
    elif policy == "mixed":
        pinned = len(dedicated_cpus(flavor) or realtime_cpus(flavor, image) or ())
        groups.plain.ask("VCPU", flavor.vcpus - pinned, source)
        groups.plain.ask("PCPU", pinned + extra, source)
    threads = cpu_thread_policy(flavor, image)
    if threads == "require":
        groups.plain.require(_THREADS, place(flavor, image, "cpu_thread_policy"))
    elif threads == "isolate":
        groups.plain.forbid(_THREADS, place(flavor, image, "cpu_thread_policy"))


def add_hardware(groups: Groups, flavor: Flavor, image: Image) -> None:
    """Ask for what memory encryption, persistent memory, TPM, firmware and the like need."""
    plain = groups.plain
    if trait := encryption_trait(flavor, image):
        source = place(flavor, image, "mem_encryption")
        plain.ask("MEM_ENCRYPTION_CONTEXT", 1, source)
        plain.require(trait, source)
    for resource_class, amount in pmem_amounts(flavor).items():
        plain.ask(resource_class, amount, "flavor extra spec 'hw:pmem'")
    for trait in tpm_traits(flavor, image):
        plain.require(trait, place(flavor, image, "tpm_version"))
    if pci_affinity_policy(flavor, image) == "socket":
        source = place(flavor, image, "pci_numa_affinity_policy")
        plain.require("COMPUTE_SOCKET_PCI_NUMA_AFFINITY", source)
    if secure_boot(flavor, image) == "required":
        source = place(flavor, image, "secure_boot", "os")
        plain.require("COMPUTE_SECURITY_UEFI_SECURE_BOOT", source)
    if mode := address_mode(flavor, image):
        plain.require(_ADDRESS_TRAITS[mode], place(flavor, image, "maxphysaddr_mode"))
    if needs_stateless_firmware(image):
        source = "image property 'hw_firmware_stateless'"
        plain.require("COMPUTE_SECURITY_STATELESS_FIRMWARE", source)
