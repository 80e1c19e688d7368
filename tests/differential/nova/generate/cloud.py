# SPDX-License-Identifier: Apache-2.0
"""Random clouds: nodes, aggregates, and whether providers have the trait of nova."""

from dataclasses import dataclass
from typing import Any

from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.generate.draft import PROJECT_IDS, TRAITS, ZONE_NAMES
from tests.support.clouds import uuid_of


@dataclass(frozen=True)
class Node:
    """A compute node."""

    host: str
    node: str

    @property
    def uuid(self) -> str:
        return uuid_of(self.node)

    def as_json(self) -> dict[str, str]:
        return {"uuid": self.uuid, "host": self.host, "node": self.node}


#: The last host has two nodes, as a host that runs ironic.
NODES = (Node("cn1", "cn1"), Node("cn2", "cn2"), Node("ir1", "bm1"), Node("ir1", "bm2"))
HOSTS = ("cn1", "cn2", "ir1")
AGGREGATES = tuple(f"e0000000-0000-4000-8000-00000000000{n}" for n in range(1, 7))

#: A server group without members that exists in each cloud.
SERVER_GROUP_UUID = "9c9c9c9c-0000-4000-8000-000000000001"


@dataclass(frozen=True)
class Cloud:
    """``aggregates`` have ``uuid``, ``metadata`` and ``hosts``."""

    aggregates: tuple[dict[str, Any], ...] = ()
    owned: bool = True

    def as_json(self) -> dict[str, Any]:
        return {
            "aggregates": list(self.aggregates),
            "nodes": [node.as_json() for node in NODES],
            "owned": self.owned,
        }


def random_cloud(rng: RandomSource) -> Cloud:
    many = rng.integer(0 if rng.chance(0.3) else 3, len(AGGREGATES))
    return Cloud(
        tuple(_random_aggregate(rng, uuid) for uuid in AGGREGATES[:many]), owned=rng.chance(0.6)
    )


def _random_aggregate(rng: RandomSource, uuid: str) -> dict[str, Any]:
    metadata: dict[str, str] = {}
    if rng.chance(0.6):
        metadata["availability_zone"] = rng.choice(ZONE_NAMES)
    if rng.chance(0.3):
        key = rng.choice(["filter_tenant_id", "filter_tenant_id2", "filter_tenant_idX"])
        metadata[key] = rng.choice(PROJECT_IDS)
    if rng.chance(0.1):  # not a key of tenants, although the value is a project
        metadata["owner"] = rng.choice(PROJECT_IDS)
    if rng.chance(0.5):
        for name in rng.sample(TRAITS, 1, 2):
            metadata[f"trait:{name}"] = "required" if rng.chance(0.85) else "forbidden"
    # A host must be in a single zone, so aggregates of zones have no hosts. Queries do not differ.
    hosts = [] if "availability_zone" in metadata else rng.sample(HOSTS, 0, 2)
    return {"uuid": uuid, "metadata": metadata, "hosts": hosts}
