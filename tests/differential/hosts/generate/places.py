# SPDX-License-Identifier: Apache-2.0
"""Random aggregates, instances and server groups."""

from typing import Any

from tests.differential.generate.dice import Dice
from tests.differential.hosts.generate.pools import (
    FLAVORS,
    HOSTS,
    IMAGES,
    INSTANCES,
    OWN_INSTANCE,
    PROJECTS,
    PROPERTIES,
    SPECS,
)

Document = dict[str, Any]

#: In the order of WEIGHERS.
MULTIPLIERS = (
    "build_failure", "cpu", "cross_cell_move", "disk", "hypervisor_version", "image_props",
    "io_ops", "metrics", "num_instances", "ram", "soft_affinity", "soft_anti_affinity",
)  # fmt: skip
_NUMBERS = ("0", "1", "-1", "2.5", "1000", "-0.5", " 3 ", "1e3", "x", "", "1_0", "1,2")
_MAXIMA = ("0", "1", "3", "20", " 5 ", "1.5", "many", "-1", "", "1_0", "3,1")
_POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


def random_aggregates(dice: Dice) -> tuple[Document, ...]:
    many = dice.integer(0, 5)
    return tuple(
        {"metadata": _random_metadata(dice), "hosts": sorted(dice.sample(HOSTS, 1))}
        for _ in range(many)
    )


def _random_metadata(dice: Dice) -> Document:
    metadata: Document = {}
    for subject in dice.sample(
        (
            _tenant_metadata,
            _flavor_metadata,
            _maximum_metadata,
            _multiplier_metadata,
            _extra_spec_metadata,
            _image_metadata,
        ),
        0,
        3,
    ):
        metadata |= subject(dice)
    return metadata


def _join_random_values(dice: Dice, values: tuple[str, ...], most: int = 2) -> str:
    return dice.choice([",", ", "]).join(dice.sample(values, 1, most))


def _tenant_metadata(dice: Dice) -> Document:
    key = dice.choice(["filter_tenant_id", "filter_tenant_id2", "filter_tenant_idX", "tenant"])
    return {key: _join_random_values(dice, PROJECTS)}


def _flavor_metadata(dice: Dice) -> Document:
    return {"instance_type": _join_random_values(dice, FLAVORS)}


def _maximum_metadata(dice: Dice) -> Document:
    key = dice.choice(["max_io_ops_per_host", "max_instances_per_host"])
    return {key: dice.choice(_MAXIMA) if dice.chance(0.5) else dice.choice(_MAXIMA[:5])}


def _multiplier_metadata(dice: Dice) -> Document:
    names = dice.sample(MULTIPLIERS, 1, 4)
    return {
        f"{name}_weight_multiplier": dice.choice(_NUMBERS if dice.chance(0.2) else _NUMBERS[:8])
        for name in names
    }


def _extra_spec_metadata(dice: Dice) -> Document:
    return {key: dice.choice(SPECS[key]) for key in dice.sample(sorted(SPECS), 1, 2)}


def _image_metadata(dice: Dice) -> Document:
    return {
        key: _join_random_values(dice, PROPERTIES[key])
        for key in dice.sample(sorted(PROPERTIES), 1, 2)
    }


def random_properties(dice: Dice, most: int = 4) -> Document:
    return {key: dice.choice(PROPERTIES[key]) for key in dice.sample(sorted(PROPERTIES), 0, most)}


def random_instances(dice: Dice) -> tuple[Document, ...]:
    uuids = dice.sample(INSTANCES, 0)
    if dice.chance(0.1):
        uuids.append(OWN_INSTANCE)
    return tuple(_random_instance(dice, uuid) for uuid in uuids)


def _random_instance(dice: Dice, uuid: str) -> Document:
    image = {"id": dice.choice(IMAGES), "min_disk": 1, "properties": random_properties(dice, 6)}
    return {
        "uuid": uuid,
        "host": dice.choice(HOSTS),
        "project_id": dice.choice(PROJECTS),
        "image": image if dice.chance(0.9) else None,
    }


def random_group(dice: Dice, instances: tuple[Document, ...]) -> Document:
    members = dice.sample(instances, 0, 4) if instances else []
    # An instance that is moved is already a member.
    members += [item for item in instances if item["uuid"] == OWN_INSTANCE and item not in members]
    policy = dice.choice(_POLICIES)
    group: Document = {
        "policy": policy,
        "members": [item["uuid"] for item in members],
        "hosts": sorted({item["host"] for item in members}),
    }
    if policy == "anti-affinity" and dice.chance(0.5):
        group["rules"] = {"max_server_per_host": dice.integer(1, 3)}
    if dice.chance(0.05):  # the host of a member without a record
        group["hosts"] = sorted({*group["hosts"], dice.choice(HOSTS)})
    return group
