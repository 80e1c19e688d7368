# SPDX-License-Identifier: Apache-2.0
"""Random aggregates, instances and server groups."""

from typing import Any

from tests.differential.generate.random_values import RandomSource
from tests.differential.hosts.generate.pools import (
    EXTRA_SPEC_VALUES,
    FLAVOR_NAMES,
    HOST_NAMES,
    IMAGE_PROPERTY_VALUES,
    IMAGE_UUIDS,
    INSTANCE_UUIDS,
    OWN_INSTANCE,
    PROJECT_IDS,
)

JsonDocument = dict[str, Any]

#: In the order of WEIGHERS.
MULTIPLIERS = (
    "build_failure", "cpu", "cross_cell_move", "disk", "hypervisor_version", "image_props",
    "io_ops", "metrics", "num_instances", "ram", "soft_affinity", "soft_anti_affinity",
)  # fmt: skip
_MULTIPLIER_VALUES = ("0", "1", "-1", "2.5", "1000", "-0.5", " 3 ", "1e3", "x", "", "1_0", "1,2")
_MAXIMUM_VALUES = ("0", "1", "3", "20", " 5 ", "1.5", "many", "-1", "", "1_0", "3,1")
_SERVER_GROUP_POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


def random_aggregates(rng: RandomSource) -> tuple[JsonDocument, ...]:
    many = rng.integer(0, 5)
    return tuple(
        {"metadata": _random_metadata(rng), "hosts": sorted(rng.sample(HOST_NAMES, 1))}
        for _ in range(many)
    )


def _random_metadata(rng: RandomSource) -> JsonDocument:
    metadata: JsonDocument = {}
    for subject in rng.sample(
        (
            _random_tenant_metadata,
            _random_flavor_metadata,
            _random_maximum_metadata,
            _random_multiplier_metadata,
            _random_extra_spec_metadata,
            _random_image_metadata,
        ),
        0,
        3,
    ):
        metadata |= subject(rng)
    return metadata


def _join_random_values(rng: RandomSource, values: tuple[str, ...], most: int = 2) -> str:
    return rng.choice([",", ", "]).join(rng.sample(values, 1, most))


def _random_tenant_metadata(rng: RandomSource) -> JsonDocument:
    key = rng.choice(["filter_tenant_id", "filter_tenant_id2", "filter_tenant_idX", "tenant"])
    return {key: _join_random_values(rng, PROJECT_IDS)}


def _random_flavor_metadata(rng: RandomSource) -> JsonDocument:
    return {"instance_type": _join_random_values(rng, FLAVOR_NAMES)}


def _random_maximum_metadata(rng: RandomSource) -> JsonDocument:
    key = rng.choice(["max_io_ops_per_host", "max_instances_per_host"])
    return {
        key: rng.choice(_MAXIMUM_VALUES) if rng.chance(0.5) else rng.choice(_MAXIMUM_VALUES[:5])
    }


def _random_multiplier_metadata(rng: RandomSource) -> JsonDocument:
    names = rng.sample(MULTIPLIERS, 1, 4)
    return {
        f"{name}_weight_multiplier": rng.choice(
            _MULTIPLIER_VALUES if rng.chance(0.2) else _MULTIPLIER_VALUES[:8]
        )
        for name in names
    }


def _random_extra_spec_metadata(rng: RandomSource) -> JsonDocument:
    return rng.draw_items(EXTRA_SPEC_VALUES, 1, 2)


def _random_image_metadata(rng: RandomSource) -> JsonDocument:
    return {
        key: _join_random_values(rng, IMAGE_PROPERTY_VALUES[key])
        for key in rng.sample(sorted(IMAGE_PROPERTY_VALUES), 1, 2)
    }


def random_image_properties(rng: RandomSource, most: int = 4) -> JsonDocument:
    return rng.draw_items(IMAGE_PROPERTY_VALUES, 0, most)


def random_instances(rng: RandomSource) -> tuple[JsonDocument, ...]:
    uuids = rng.sample(INSTANCE_UUIDS, 0)
    if rng.chance(0.1):
        uuids.append(OWN_INSTANCE)
    return tuple(_random_instance(rng, uuid) for uuid in uuids)


def _random_instance(rng: RandomSource, uuid: str) -> JsonDocument:
    image = {
        "id": rng.choice(IMAGE_UUIDS),
        "min_disk": 1,
        "properties": random_image_properties(rng, 6),
    }
    return {
        "uuid": uuid,
        "host": rng.choice(HOST_NAMES),
        "project_id": rng.choice(PROJECT_IDS),
        "image": image if rng.chance(0.9) else None,
    }


def random_server_group(rng: RandomSource, instances: tuple[JsonDocument, ...]) -> JsonDocument:
    members = rng.sample(instances, 0, 4) if instances else []
    # An instance that is moved is already a member.
    members += [item for item in instances if item["uuid"] == OWN_INSTANCE and item not in members]
    policy = rng.choice(_SERVER_GROUP_POLICIES)
    group: JsonDocument = {
        "policy": policy,
        "members": [item["uuid"] for item in members],
        "hosts": sorted({item["host"] for item in members}),
    }
    if policy == "anti-affinity" and rng.chance(0.5):
        group["rules"] = {"max_server_per_host": rng.integer(1, 3)}
    if rng.chance(0.05):  # the host of a member without a record
        group["hosts"] = sorted({*group["hosts"], rng.choice(HOST_NAMES)})
    return group
