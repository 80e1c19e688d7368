# SPDX-License-Identifier: Apache-2.0
"""Random values from small pools, so that requests refer to the same objects."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, TypeVar

from tests.support.versions import PEER_LATEST

Value = TypeVar("Value")

#: The minor number of the newest microversion.
NEWEST = int(PEER_LATEST.removeprefix("1."))

PROVIDER_UUIDS = tuple(f"a0000000-0000-4000-8000-00000000000{n}" for n in range(8))
CONSUMER_UUIDS = tuple(f"c0000000-0000-4000-8000-00000000000{n}" for n in range(10))
AGGREGATE_UUIDS = tuple(f"e0000000-0000-4000-8000-00000000000{n}" for n in range(4))
UNKNOWN_UUID = "dddddddd-0000-4000-8000-000000000000"

STANDARD_RESOURCE_CLASSES = ("VCPU", "MEMORY_MB", "DISK_GB", "SRIOV_NET_VF")
CUSTOM_RESOURCE_CLASSES = ("CUSTOM_GOLD", "CUSTOM_SILVER")
RESOURCE_CLASSES = STANDARD_RESOURCE_CLASSES + CUSTOM_RESOURCE_CLASSES
INVALID_RESOURCE_CLASSES = (
    "NOPE", "vcpu", "CUSTOM_", "CUSTOM_low", "CUSTOM_" + "X" * 249, "", "A B", "CÜ",
)  # fmt: skip

SHARING_TRAIT = "MISC_SHARES_VIA_AGGREGATE"
STANDARD_TRAITS = ("HW_CPU_X86_AVX", "STORAGE_DISK_SSD", "COMPUTE_STATUS_DISABLED")
CUSTOM_TRAITS = ("CUSTOM_FAST", "CUSTOM_BLUE")
TRAITS = STANDARD_TRAITS + CUSTOM_TRAITS
UNUSUAL_TRAITS = (
    "NOPE", "custom_low", "CUSTOM_", "CUSTOM_" + "Y" * 249, "", "A B", "HW_CPU", SHARING_TRAIT,
)  # fmt: skip

PROJECT_IDS = ("project-1", "project-2")
USER_IDS = ("user-1", "user-2")
CONSUMER_TYPES = ("INSTANCE", "MIGRATION", "unknown")

#: Values of wrong types, and values at the edge of the allowed range.
UNUSUAL_JSON_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1.5, 2.0, 2**31 - 1, 2**31, 10**30, 1e300, "", " ", "x", "1", "ü",
    "A" * 201, "A" * 256, [], {}, [None], {"a": 1}, [1, 1], "in:", UNKNOWN_UUID,
    UNKNOWN_UUID.replace("-", ""), UNKNOWN_UUID.upper(), "{" + UNKNOWN_UUID + "}",
    "urn:uuid:" + UNKNOWN_UUID,
)  # fmt: skip


class RandomSource:
    """A seeded source of random values."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def choice(self, values: Sequence[Value]) -> Value:
        return self.random.choice(values)

    def sample(
        self, values: Sequence[Value], least: int = 0, most: int | None = None
    ) -> list[Value]:
        most = len(values) if most is None else min(most, len(values))
        return self.random.sample(list(values), self.random.randint(min(least, most), most))

    def draw_items(
        self, values: Mapping[str, Sequence[Any]], least: int = 0, most: int | None = None
    ) -> dict[str, Any]:
        return {key: self.choice(values[key]) for key in self.sample(sorted(values), least, most)}

    def integer(self, least: int, most: int) -> int:
        return self.random.randint(least, most)

    def draw_version(self, since: int = 0, until: int = NEWEST) -> str | None:
        if self.chance(0.06):
            return self.choice([None, "latest", "1.0", PEER_LATEST])
        if self.chance(0.1):
            since, until = 0, NEWEST
        if self.chance(0.35) and until == NEWEST:
            return f"1.{NEWEST}"
        return f"1.{self.integer(since, until)}"

    def draw_uuid(self, pool: Sequence[str]) -> str:
        uuid = self.choice(pool)
        if self.chance(0.97):
            return uuid
        return self.choice(
            [UNKNOWN_UUID, uuid.upper(), uuid.replace("-", ""), "not-a-uuid", uuid[:-1]]
        )

    def draw_resource_class(self) -> str:
        return (
            self.choice(RESOURCE_CLASSES)
            if self.chance(0.98)
            else self.choice(INVALID_RESOURCE_CLASSES)
        )

    def draw_trait(self) -> str:
        return self.choice(TRAITS) if self.chance(0.98) else self.choice(UNUSUAL_TRAITS)

    def draw_amount(self) -> Any:
        if self.chance(0.97):
            return self.choice([1, 1, 1, 1, 2, 2, 3, 4, 8])
        return self.choice([0, -1, 1000, 2**31, 1.5, "1", None])
