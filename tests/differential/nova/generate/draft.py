# SPDX-License-Identifier: Apache-2.0
"""An unfinished random request. Each subject adds fields to it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.differential.generate.random_values import RandomSource

PROJECT_IDS = ("p1", "p2", "p3")
ZONE_NAMES = ("az1", "az2", "az3")

#: Custom classes and traits that the tests create, and traits of requests.
CUSTOM_RESOURCE_CLASSES = (
    "CUSTOM_GOLD", "CUSTOM_BAREMETAL", "CUSTOM_PCI_8086_1502", "CUSTOM_PCI_10DE_1EB8",
    "CUSTOM_A100", "CUSTOM_PMEM_NAMESPACE_4GB", "CUSTOM_PMEM_NAMESPACE_SMALL",
)  # fmt: skip
CUSTOM_TRAITS = ("CUSTOM_FAST", "CUSTOM_BLUE", "CUSTOM_PHYSNET_1", "CUSTOM_GPU_BIG")
TRAITS = (
    "HW_CPU_X86_AVX2",
    "STORAGE_DISK_SSD",
    "COMPUTE_VOLUME_MULTI_ATTACH",
    "CUSTOM_FAST",
    "CUSTOM_BLUE",
)

#: Spellings of booleans.
TRUE_VALUES = ("true", "True", "yes", "1", "on")
FALSE_VALUES = ("false", "False", "no", "0", "off")


@dataclass
class RequestDraft:
    """Parts of a request. ``spec`` holds the other fields of the request spec."""

    flavor: dict[str, Any]
    extra_specs: dict[str, str] = field(default_factory=dict)
    image: dict[str, Any] = field(default_factory=dict)
    properties: dict[str, Any] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def vcpus(self) -> int:
        return self.flavor["vcpus"]

    def set_in_flavor_or_image(
        self, rng: RandomSource, name: str, value: str, *, prefix: str = "hw"
    ) -> None:
        kind = rng.integer(0, 9)
        if kind < 9 and kind != 4:
            self.extra_specs[f"{prefix}:{name}"] = value
        if kind >= 4:
            self.properties[f"{prefix}_{name}"] = value


RequestDraftModifier = Callable[[RandomSource, RequestDraft], None]
