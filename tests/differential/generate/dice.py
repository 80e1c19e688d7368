# SPDX-License-Identifier: Apache-2.0
"""Random values from small pools, so that requests refer to the same objects."""

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from tests.support.versions import PEER_LATEST

Value = TypeVar("Value")

NEWEST = 39

PROVIDERS = tuple(f"a0000000-0000-4000-8000-00000000000{n}" for n in range(8))
CONSUMERS = tuple(f"c0000000-0000-4000-8000-00000000000{n}" for n in range(10))
AGGREGATES = tuple(f"e0000000-0000-4000-8000-00000000000{n}" for n in range(4))
NOBODY = "dddddddd-0000-4000-8000-000000000000"

COMMON_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "SRIOV_NET_VF")
CUSTOM_CLASSES = ("CUSTOM_GOLD", "CUSTOM_SILVER")
CLASSES = COMMON_CLASSES + CUSTOM_CLASSES
ODD_CLASSES = ("NOPE", "vcpu", "CUSTOM_", "CUSTOM_low", "CUSTOM_" + "X" * 249, "", "A B", "CÜ")

SHARES = "MISC_SHARES_VIA_AGGREGATE"
COMMON_TRAITS = ("HW_CPU_X86_AVX", "STORAGE_DISK_SSD", "COMPUTE_STATUS_DISABLED")
CUSTOM_TRAITS = ("CUSTOM_FAST", "CUSTOM_BLUE")
TRAITS = COMMON_TRAITS + CUSTOM_TRAITS
ODD_TRAITS = ("NOPE", "custom_low", "CUSTOM_", "CUSTOM_" + "Y" * 249, "", "A B", "HW_CPU", SHARES)

PROJECTS = ("project-1", "project-2")
USERS = ("user-1", "user-2")
TYPES = ("INSTANCE", "MIGRATION", "unknown")

#: Values of wrong types, and values at the edge of the allowed range.
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2.0, 2**31 - 1, 2**31, 10**30, 1e300, "", " ", "x", "1", "ü",
    "A" * 201, "A" * 256, [], {}, [None], {"a": 1}, [1, 1], "in:", NOBODY, NOBODY.replace("-", ""),
    NOBODY.upper(), "{" + NOBODY + "}", "urn:uuid:" + NOBODY,
)  # fmt: skip


class Dice:
    """A seeded source of random values."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, likely: float) -> bool:
        return self.random.random() < likely

    def choice(self, values: Sequence[Value]) -> Value:
        return self.random.choice(values)

    def sample(
        self, values: Sequence[Value], least: int = 0, most: int | None = None
    ) -> list[Value]:
        most = len(values) if most is None else min(most, len(values))
        return self.random.sample(list(values), self.random.randint(min(least, most), most))

    def integer(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def version(self, since: int = 0, until: int = NEWEST) -> str | None:
        if self.chance(0.06):
            return self.choice([None, "latest", "1.0", PEER_LATEST])
        if self.chance(0.1):
            since, until = 0, NEWEST
        if self.chance(0.35) and until == NEWEST:
            return f"1.{NEWEST}"
        return f"1.{self.integer(since, until)}"

    def uuid(self, pool: Sequence[str]) -> str:
        uuid = self.choice(pool)
        if self.chance(0.97):
            return uuid
        return self.choice([NOBODY, uuid.upper(), uuid.replace("-", ""), "not-a-uuid", uuid[:-1]])

    def resource_class(self) -> str:
        return self.choice(CLASSES) if self.chance(0.98) else self.choice(ODD_CLASSES)

    def trait(self) -> str:
        return self.choice(TRAITS) if self.chance(0.98) else self.choice(ODD_TRAITS)

    def amount(self) -> Any:
        if self.chance(0.97):
            return self.choice([1, 1, 1, 1, 2, 2, 3, 4, 8])
        return self.choice([0, -1, 1000, 2**31, 1.5, "1", None])
