# SPDX-License-Identifier: Apache-2.0
"""Random requests, and the ``request_spec`` of a request."""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.checker.cloud import FAST_TRAIT, FORBIDDEN_TRAIT, LICENSED_TRAIT, ResourceAmounts


@dataclass(frozen=True)
class RequestGroup:
    """Request group: resources and traits, all on the same provider if the group has a suffix."""

    resources: ResourceAmounts
    required: frozenset[str] = frozenset()
    forbidden: frozenset[str] = frozenset()


@dataclass(frozen=True)
class CloudRequest:
    """A request: groups by suffix ("" for the flavor without suffixes), and a zone."""

    groups: dict[str, RequestGroup] = field(default_factory=dict)
    zone: str | None = None
    isolate: bool = False


def draw_random_request(random: Random, layout: str) -> CloudRequest:
    required = {name for name in (FAST_TRAIT, LICENSED_TRAIT) if random.random() < 0.25}
    forbidden = {FORBIDDEN_TRAIT} if random.random() < 0.25 else set()
    resources = {
        "VCPU": random.choice([1, 2, 3, 6]),
        "MEMORY_MB": random.choice([512, 1024, 3072]),
        "DISK_GB": random.choice([1, 10, 25]),
    }
    groups = {"": RequestGroup(resources, frozenset(required), frozenset(forbidden))}
    if layout == "nested" and random.random() < 0.7:
        for suffix in ("1", "2")[: random.randint(1, 2)]:
            traits = frozenset({FAST_TRAIT}) if random.random() < 0.4 else frozenset()
            groups[suffix] = RequestGroup({"VGPU": random.choice([1, 1, 2])}, traits)
    if len(groups) > 2 and random.random() < 0.5:
        # A small request, so that only the combination of providers may reject a host.
        groups[""] = RequestGroup({"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 5})
        groups |= {suffix: RequestGroup({"VGPU": random.randint(1, 2)}) for suffix in ("1", "2")}
        return CloudRequest(groups, isolate=random.random() < 0.6)
    zone = random.choice([None, None, "az1", "az2"])
    return CloudRequest(groups, zone, isolate=len(groups) > 2 and random.random() < 0.6)


def build_request_spec(request: CloudRequest) -> dict[str, Any]:
    extra_specs: dict[str, str] = {}
    for suffix, group in request.groups.items():
        for name in group.required:
            extra_specs[f"trait{suffix}:{name}"] = "required"
        for name in group.forbidden:
            extra_specs[f"trait{suffix}:{name}"] = "forbidden"
        if suffix:
            for name, amount in group.resources.items():
                extra_specs[f"resources{suffix}:{name}"] = str(amount)
    if len(request.groups) > 2:
        extra_specs["group_policy"] = "isolate" if request.isolate else "none"
    resources = request.groups[""].resources
    spec: dict[str, Any] = {
        "project_id": "checker",
        "num_instances": 1,
        "flavor": {
            "vcpus": resources.get("VCPU", 0),
            "memory_mb": resources.get("MEMORY_MB", 0),
            "root_gb": resources.get("DISK_GB", 0),
            "extra_specs": extra_specs,
        },
    }
    if request.zone:
        spec["availability_zone"] = request.zone
    return spec
