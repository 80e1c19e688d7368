# SPDX-License-Identifier: Apache-2.0
"""What hosts are in, and what is on them: aggregates, instances, server groups."""

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

MULTIPLIERS = (
    "build_failure", "cpu", "cross_cell_move", "disk", "hypervisor_version", "image_props",
    "io_ops", "metrics", "num_instances", "ram", "soft_affinity", "soft_anti_affinity",
)  # fmt: skip
_NUMBERS = ("0", "1", "-1", "2.5", "1000", "-0.5", " 3 ", "1e3", "x", "", "1_0", "1,2")
_MAXIMA = ("0", "1", "3", "20", " 5 ", "1.5", "many", "-1", "", "1_0", "3,1")
_POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")


def aggregates(dice: Dice) -> tuple[Document, ...]:
    many = dice.number(0, 5)
    return tuple(
        {"metadata": _metadata(dice), "hosts": sorted(dice.some(HOSTS, 1))} for _ in range(many)
    )


def _metadata(dice: Dice) -> Document:
    metadata: Document = {}
    for subject in dice.some((_tenants, _flavors, _maxima, _multipliers, _specs, _images), 0, 3):
        metadata |= subject(dice)
    return metadata


def _joined(dice: Dice, values: tuple[str, ...], most: int = 2) -> str:
    return dice.one([",", ", "]).join(dice.some(values, 1, most))


def _tenants(dice: Dice) -> Document:
    key = dice.one(["filter_tenant_id", "filter_tenant_id2", "filter_tenant_idX", "tenant"])
    return {key: _joined(dice, PROJECTS)}


def _flavors(dice: Dice) -> Document:
    return {"instance_type": _joined(dice, FLAVORS)}


def _maxima(dice: Dice) -> Document:
    key = dice.one(["max_io_ops_per_host", "max_instances_per_host"])
    return {key: dice.one(_MAXIMA) if dice.chance(0.5) else dice.one(_MAXIMA[:5])}


def _multipliers(dice: Dice) -> Document:
    names = dice.some(MULTIPLIERS, 1, 4)
    return {
        f"{name}_weight_multiplier": dice.one(_NUMBERS if dice.chance(0.2) else _NUMBERS[:8])
        for name in names
    }


def _specs(dice: Dice) -> Document:
    return {key: dice.one(SPECS[key]) for key in dice.some(sorted(SPECS), 1, 2)}


def _images(dice: Dice) -> Document:
    return {key: _joined(dice, PROPERTIES[key]) for key in dice.some(sorted(PROPERTIES), 1, 2)}


def properties(dice: Dice, most: int = 4) -> Document:
    return {key: dice.one(PROPERTIES[key]) for key in dice.some(sorted(PROPERTIES), 0, most)}


def instances(dice: Dice) -> tuple[Document, ...]:
    uuids = dice.some(INSTANCES, 0)
    if dice.chance(0.1):
        uuids.append(OWN_INSTANCE)
    return tuple(_instance(dice, uuid) for uuid in uuids)


def _instance(dice: Dice, uuid: str) -> Document:
    image = {"id": dice.one(IMAGES), "min_disk": 1, "properties": properties(dice, 6)}
    return {
        "uuid": uuid,
        "host": dice.one(HOSTS),
        "project_id": dice.one(PROJECTS),
        "image": image if dice.chance(0.9) else None,
    }


def group(dice: Dice, here: tuple[Document, ...]) -> Document:
    members = dice.some(here, 0, 4) if here else []
    # Who is moved about is a member already.
    members += [one for one in here if one["uuid"] == OWN_INSTANCE and one not in members]
    policy = dice.one(_POLICIES)
    told: Document = {
        "policy": policy,
        "members": [one["uuid"] for one in members],
        "hosts": sorted({one["host"] for one in members}),
    }
    if policy == "anti-affinity" and dice.chance(0.5):
        told["rules"] = {"max_server_per_host": dice.number(1, 3)}
    if dice.chance(0.05):  # of a member that is recorded nowhere
        told["hosts"] = sorted({*told["hosts"], dice.one(HOSTS)})
    return told
