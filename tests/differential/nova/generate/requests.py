# SPDX-License-Identifier: Apache-2.0
"""Whole requests: a few subjects each, often sound, sometimes contradictory."""

from dataclasses import dataclass
from typing import Any

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate import amounts, cpus, devices, guests, images, places
from tests.differential.nova.generate.cloud import Cloud
from tests.differential.nova.generate.draft import PROJECTS, Draft, Subject
from tests.differential.nova.generate.invalid import make_invalid

#: How often each subject comes up, in parts of all.
_SUBJECTS: dict[Subject, int] = {
    amounts.resources: 6,
    amounts.vcpus_by_name: 2,
    amounts.bare_metal: 1,
    amounts.traits: 6,
    amounts.groups: 8,
    amounts.grouped_vcpus: 1,
    cpus.pinned: 5,
    cpus.mixed: 3,
    cpus.shared: 1,
    cpus.real_time: 2,
    cpus.hyperthreading: 2,
    cpus.numa: 4,
    cpus.numa_of_the_image: 2,
    cpus.topology_told: 1,
    cpus.pages: 2,
    cpus.locked_memory: 1,
    cpus.pages_of_the_image: 1,
    guests.memory_encryption: 4,
    guests.ephemeral_encryption: 3,
    guests.persistent_memory: 2,
    guests.tpm: 4,
    guests.secure_boot: 3,
    guests.stateless_firmware: 2,
    guests.address_bits: 2,
    guests.sound: 2,
    guests.packed_ring: 2,
    guests.accelerator: 1,
    guests.noise: 2,
    devices.pci: 6,
    devices.pci_affinity: 2,
    images.models: 6,
    images.traits: 4,
    places.zone: 5,
    places.odd_zone: 1,
    places.destination: 4,
    places.forced: 3,
    places.hints: 2,
    places.root: 3,
    places.ports: 4,
}

_SWITCHES = {
    "scheduler.enable_isolated_aggregate_filtering": (True, False),
    "scheduler.limit_tenants_to_placement_aggregate": (True, False),
    "scheduler.placement_aggregate_required_for_tenants": (True, False, False),
    "scheduler.query_placement_for_image_type_support": (True, False),
    "scheduler.image_metadata_prefilter": (True, False),
    "scheduler.max_placement_results": (1, 17, 500),
    "filter_scheduler.pci_in_placement": (True, False),
    "workarounds.disable_fallback_pcpu_query": (True, False),
}


@dataclass(frozen=True)
class Asked:
    """A request, its options, and the cloud that it is made in."""

    cloud: Cloud
    request_spec: dict[str, Any]
    options: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"request_spec": self.request_spec, "options": self.options, **self.cloud.as_json()}

    def kept(self) -> dict[str, Any]:
        return {
            "request_spec": self.request_spec,
            "options": self.options,
            "aggregates": list(self.cloud.aggregates),
            "owned": self.cloud.owned,
        }


def asked_from(kept: dict[str, Any]) -> Asked:
    cloud = Cloud(tuple(kept["aggregates"]), owned=kept["owned"])
    return Asked(cloud, kept["request_spec"], kept["options"])


def request(dice: Dice, cloud: Cloud) -> Asked:
    draft = Draft(flavor=_flavor(dice))
    if dice.chance(0.9):
        images.image(dice, draft)
    many = dice.one([0, 1, 1, 2, 2, 2, 3, 3, 4])
    for subject in _chosen(dice, many):
        subject(dice, draft)
    for name in dice.some(tuple(_SWITCHES), 0, 4):
        draft.options.setdefault(name, dice.one(_SWITCHES[name]))
    if dice.chance(0.05):
        make_invalid(dice, draft)
    return Asked(cloud, _spec(dice, draft), draft.options)


def _flavor(dice: Dice) -> dict[str, Any]:
    return {
        "name": "m1",
        "vcpus": dice.one([1, 2, 4, 4, 8]),
        "memory_mb": dice.one([256, 1024, 2048, 8192]),
        "root_gb": dice.one([0, 1, 10]),
        "ephemeral_gb": dice.one([0, 0, 0, 5]),
        "swap": dice.one([0, 0, 0, 1, 1024, 1025]),
    }


def _chosen(dice: Dice, many: int) -> list[Subject]:
    subjects, parts = list(_SUBJECTS), list(_SUBJECTS.values())
    drawn = dice.random.choices(subjects, parts, k=many)
    return sorted(set(drawn), key=drawn.index)


def _spec(dice: Dice, draft: Draft) -> dict[str, Any]:
    image = {**draft.image, "properties": draft.properties}
    return {
        "project_id": dice.one(PROJECTS),
        "user_id": "u1",
        "flavor": {**draft.flavor, "extra_specs": draft.extra_specs},
        "image": image if draft.image or draft.properties else None,
        **({"is_bfv": True} if not draft.image or dice.chance(0.15) else {}),
        **draft.spec,
    }
