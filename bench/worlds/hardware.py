# SPDX-License-Identifier: Apache-2.0
"""What hosts of every world are made of: purchases of hardware, traits, places."""

from dataclasses import dataclass
from random import Random

import os_traits

from worlds.rows import class_id, uuid_of

ZONES, TAGS, RACK_SIZE = 6, 60, 40
CUSTOM_TRAITS = tuple(f"CUSTOM_BENCH_{number:02}" for number in range(60))
#: A trait that no host has.
UNUSED_TRAIT = "CUSTOM_BENCH_UNUSED"
#: Traits of drivers, that every host has.
COMMON_TRAITS = (
    "COMPUTE_ACCELERATORS",
    "COMPUTE_DEVICE_TAGGING",
    "COMPUTE_NET_ATTACH_INTERFACE",
    "COMPUTE_NODE",
    "COMPUTE_RESCUE_BFV",
    "COMPUTE_TRUSTED_CERTS",
    "COMPUTE_VOLUME_ATTACH_WITH_TAG",
    "COMPUTE_VOLUME_EXTEND",
    "COMPUTE_VOLUME_MULTI_ATTACH",
)
_CPU_FLAGS = tuple(sorted(name for name in os_traits.get_traits() if "HW_CPU_X86" in name))
_PACKED = 0.125

Stock = tuple[tuple[int, int, int, float], ...]


@dataclass(frozen=True, slots=True)
class Hardware:
    """One purchase of hosts; ``share`` is its part of the cloud, ``flags`` its known CPU flags."""

    share: float
    vcpus: int
    memory_mb: int
    disk_gb: int
    vcpu_ratio: float
    flags: int

    def cpu_stock(self, parts: int = 1) -> Stock:
        """Return (class id, total, reserved, ratio) of CPU and memory, of one of equal parts."""
        return (
            (class_id("VCPU"), self.vcpus // parts, 0, self.vcpu_ratio),
            (class_id("MEMORY_MB"), self.memory_mb // parts, 4096 // parts, 1.0),
        )

    @property
    def disk_stock(self) -> Stock:
        """Return the same of the disk."""
        return ((class_id("DISK_GB"), self.disk_gb, 20, 1.0),)


HARDWARE = (
    Hardware(0.28, 32, 131_072, 1_000, 4.0, 18),
    Hardware(0.38, 64, 262_144, 2_000, 4.0, 22),
    Hardware(0.32, 96, 524_288, 4_000, 2.0, 26),
    Hardware(0.02, 256, 2_097_152, 16_000, 1.0, 30),  # the few that fit what no other does
)


def bought(random: Random) -> Hardware:
    """Return the hardware of a host."""
    return random.choices(HARDWARE, [one.share for one in HARDWARE])[0]


def host_traits(random: Random, hardware: Hardware) -> set[str]:
    """Return about 40 traits: those of the CPU, of the driver, and some custom ones."""
    flags = _CPU_FLAGS[: hardware.flags]
    return {*flags, *COMMON_TRAITS, *random.sample(CUSTOM_TRAITS, random.randint(7, 12))}


def part_used(random: Random) -> float:
    """Return how much of a host is used: one in eight is packed."""
    return 1.0 if random.random() < _PACKED else random.uniform(0.15, 0.9)


def amount(total: int, reserved: int, ratio: float, part: float) -> int:
    """Return a part of what an inventory can give, at least 1."""
    return max(int((total - reserved) * ratio * part), 1)


@dataclass(frozen=True, slots=True)
class Places:
    """The aggregates of ``hosts`` hosts: each host is in a zone, a rack of 40, and has a tag."""

    hosts: int

    @property
    def zones(self) -> list[str]:
        """Return the uuids of the zones."""
        return [uuid_of("zone", number) for number in range(ZONES)]

    @property
    def tags(self) -> list[str]:
        """Return the uuids of the tags."""
        return [uuid_of("tag", number) for number in range(TAGS)]

    @property
    def racks(self) -> list[str]:
        """Return the uuids of the racks."""
        return [uuid_of("rack", number) for number in range(-(-self.hosts // RACK_SIZE))]

    @property
    def aggregates(self) -> list[str]:
        """Return the uuids of all, in the order of their ids."""
        return [*self.zones, *self.tags, *self.racks]

    def of(self, number: int, random: Random) -> tuple[int, int, int]:
        """Return the ids of the aggregates of a host."""
        zone, tag = number % ZONES, random.randrange(TAGS)
        return zone + 1, ZONES + tag + 1, self.rack_of(number)

    def rack_of(self, number: int) -> int:
        """Return the id of the rack of a host."""
        return ZONES + TAGS + number // RACK_SIZE + 1
