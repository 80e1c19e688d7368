# SPDX-License-Identifier: Apache-2.0
"""Random clouds of different hosts, and random requests of every common kind, from a seed."""

from random import Random
from typing import Any
from uuid import UUID

#: Sizes of hosts as vCPUs, MB and GB.
HOST_SIZES = ((8, 16_384, 200), (16, 65_536, 1000), (32, 131_072, 2000))
ZONES = ("north", "south")
SSD_TRAIT, GPU_TRAIT = "CUSTOM_SSD", "CUSTOM_GPU"
_FLAVOR_SIZES = ((1, 512, 1), (1, 2048, 20), (2, 4096, 40), (4, 8192, 80), (8, 16_384, 160))
#: Size of a flavor that fits on no host.
_TOO_LARGE_FLAVOR_SIZE = (64, 500_000, 10)


class RequestGenerator:
    """Generator of hosts and requests, with the names of all hosts in ``hosts``."""

    def __init__(self, seed: int, hosts: int) -> None:
        self._random = Random(seed)
        self.hosts = [f"cn{number:02}" for number in range(1, hosts + 1)]
        self._groups: list[dict[str, Any]] = []
        self._placed: dict[str, str] = {}

    def draw_host(self, name: str) -> dict[str, Any]:
        number, draw = self.hosts.index(name), self._random
        traits = [trait for trait in (SSD_TRAIT, GPU_TRAIT) if draw.random() < 0.3]
        return {
            "size": draw.choice(HOST_SIZES),
            "traits": traits,
            "zone": ZONES[number % 3] if number % 3 < 2 else None,
            "fast": draw.random() < 0.4,
        }

    def draw_uuid(self) -> str:
        return str(UUID(int=self._random.getrandbits(128), version=4))

    def record_placement(self, uuid: str, host: str) -> None:
        self._placed[uuid] = host

    def remove_placement(self) -> str | None:
        if len(self._placed) < 10:
            return None
        uuid = self._random.choice(sorted(self._placed))
        del self._placed[uuid]
        return uuid

    def draw_request(self) -> dict[str, Any]:
        draw = self._random
        number = draw.choice((1, 1, 1, 1, 2, 3))
        described: dict[str, Any] = {
            "uuids": [self.draw_uuid() for _ in range(number)],
            "flavor": self._draw_flavor(),
            "image": self._draw_image(),
        }
        for part in draw.sample(_REQUEST_PARTS, draw.choice((0, 0, 1, 1, 2))):
            described |= part(self)
        if "group" in described:
            # As in nova-api, instances become members of the group before they are scheduled.
            described["group"]["members"] += described["uuids"]
        return described

    def _draw_flavor(self) -> dict[str, Any]:
        draw = self._random
        size = _TOO_LARGE_FLAVOR_SIZE if draw.random() < 0.03 else draw.choice(_FLAVOR_SIZES)
        specs = {}
        if draw.random() < 0.2:
            specs[f"trait:{draw.choice((SSD_TRAIT, GPU_TRAIT))}"] = draw.choice(
                ("required", "forbidden")
            )
        if draw.random() < 0.15:
            specs["aggregate_instance_extra_specs:fast"] = draw.choice(("true", "false"))
        vcpus, memory, disk = size
        return {
            "id": 1,
            "name": f"m{vcpus}.{memory}",
            "flavorid": f"{vcpus}-{memory}",
            "vcpus": vcpus,
            "memory_mb": memory,
            "root_gb": disk,
            "ephemeral_gb": 0,
            "swap": draw.choice((0, 0, 0, 1024)),
            "rxtx_factor": 1.0,
            "vcpu_weight": 0,
            "disabled": False,
            "is_public": True,
            "extra_specs": specs,
        }

    def _draw_image(self) -> dict[str, Any]:
        draw = self._random
        properties: dict[str, Any] = {}
        if draw.random() < 0.2:
            properties["hw_architecture"] = draw.choice(("x86_64", "aarch64"))
        if draw.random() < 0.1:
            properties["trait:CUSTOM_SSD"] = "required"
        return {
            "id": str(UUID(int=7)),
            "name": "cirros",
            "status": "active",
            "disk_format": "raw",
            "container_format": "bare",
            "min_ram": 0,
            "min_disk": 0,
            "size": 1,
            "owner": "demo",
            "properties": properties,
        }

    def draw_zone(self) -> dict[str, Any]:
        return {"availability_zone": self._random.choice(ZONES)}

    def draw_ignored_hosts(self) -> dict[str, Any]:
        return {"ignore_hosts": self._random.sample(self.hosts, 3)}

    def draw_forced_host(self) -> dict[str, Any]:
        return {"force_hosts": [self._random.choice(self.hosts)]}

    def draw_destination(self) -> dict[str, Any]:
        return {"destination": self._random.choice(self.hosts)}

    def draw_hints(self) -> dict[str, Any]:
        if not self._placed:
            return {}
        other = self._random.choice(sorted(self._placed))
        name = self._random.choice(("same_host", "different_host"))
        return {"scheduler_hints": {name: [other]}}

    def draw_server_group(self) -> dict[str, Any]:
        draw = self._random
        policy = draw.choice(("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity"))
        members = draw.sample(sorted(self._placed), min(len(self._placed), draw.choice((0, 1, 3))))
        if policy == "affinity":
            members = members[:1]
        group = {
            "uuid": self.draw_uuid(),
            "name": "g",
            "policy": policy,
            "members": members,
            "hosts": sorted({self._placed[member] for member in members}),
            "user_id": "ann",
            "project_id": "demo",
        }
        return {"group": group}


_REQUEST_PARTS = (
    *(
        RequestGenerator.draw_zone,
        RequestGenerator.draw_ignored_hosts,
        RequestGenerator.draw_forced_host,
        RequestGenerator.draw_destination,
    ),
    *(RequestGenerator.draw_hints, RequestGenerator.draw_server_group),
)
