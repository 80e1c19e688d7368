# SPDX-License-Identifier: Apache-2.0
"""Random requests of a few subjects each, mostly valid."""

from dataclasses import dataclass
from typing import Any

from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.generate import amounts, cpus, devices, guests, images, places
from tests.differential.nova.generate.cloud import Cloud
from tests.differential.nova.generate.draft import PROJECT_IDS, RequestDraft, RequestDraftModifier
from tests.differential.nova.generate.invalid import make_draft_invalid

#: Weights of the subjects in the random choice.
_FREQUENCY_BY_MODIFIER: dict[RequestDraftModifier, int] = {
    amounts.add_resources: 6,
    amounts.add_cpus_as_resources: 2,
    amounts.add_bare_metal_resources: 1,
    amounts.add_traits: 6,
    amounts.add_request_groups: 8,
    amounts.add_vcpus_in_group: 1,
    cpus.add_pinned_cpus: 5,
    cpus.add_mixed_cpus: 3,
    cpus.add_shared_cpus: 1,
    cpus.add_real_time_cpus: 2,
    cpus.add_thread_policy: 2,
    cpus.add_numa_nodes: 4,
    cpus.add_numa_nodes_of_image: 2,
    cpus.add_numa_topology_of_request: 1,
    cpus.add_page_size: 2,
    cpus.add_locked_memory: 1,
    cpus.add_page_size_of_image: 1,
    guests.add_memory_encryption: 4,
    guests.add_ephemeral_encryption: 3,
    guests.add_persistent_memory: 2,
    guests.add_tpm: 4,
    guests.add_secure_boot: 3,
    guests.add_stateless_firmware: 2,
    guests.add_address_bits: 2,
    guests.add_sound_model: 2,
    guests.add_packed_ring: 2,
    guests.add_accelerator: 1,
    guests.add_unrelated_extra_specs: 2,
    devices.add_pci_alias: 6,
    devices.add_pci_affinity_policy: 2,
    images.add_device_models: 6,
    images.add_image_traits: 4,
    places.add_zone: 5,
    places.add_unknown_zone: 1,
    places.add_destination: 4,
    places.add_forced_host: 3,
    places.add_hints: 2,
    places.add_root_traits: 3,
    places.add_ports: 4,
}

_OPTION_VALUES = {
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
class RequestCase:
    """A request, its options and its cloud."""

    cloud: Cloud
    request_spec: dict[str, Any]
    options: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        return {"request_spec": self.request_spec, "options": self.options, **self.cloud.as_json()}

    def to_saved_json(self) -> dict[str, Any]:
        return {
            "request_spec": self.request_spec,
            "options": self.options,
            "aggregates": list(self.cloud.aggregates),
            "owned": self.cloud.owned,
        }


def build_case_from_json(kept: dict[str, Any]) -> RequestCase:
    cloud = Cloud(tuple(kept["aggregates"]), owned=kept["owned"])
    return RequestCase(cloud, kept["request_spec"], kept["options"])


def random_request_case(rng: RandomSource, cloud: Cloud) -> RequestCase:
    draft = RequestDraft(flavor=_random_flavor(rng))
    if rng.chance(0.9):
        images.add_image_properties(rng, draft)
    many = rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
    for modifier in _draw_modifiers_of_request(rng, many):
        modifier(rng, draft)
    for name in rng.sample(tuple(_OPTION_VALUES), 0, 4):
        draft.options.setdefault(name, rng.choice(_OPTION_VALUES[name]))
    if rng.chance(0.05):
        make_draft_invalid(rng, draft)
    return RequestCase(cloud, _random_request_spec(rng, draft), draft.options)


def _random_flavor(rng: RandomSource) -> dict[str, Any]:
    return {
        "name": "m1",
        "vcpus": rng.choice([1, 2, 4, 4, 8]),
        "memory_mb": rng.choice([256, 1024, 2048, 8192]),
        "root_gb": rng.choice([0, 1, 10]),
        "ephemeral_gb": rng.choice([0, 0, 0, 5]),
        "swap": rng.choice([0, 0, 0, 1, 1024, 1025]),
    }


def _draw_modifiers_of_request(rng: RandomSource, many: int) -> list[RequestDraftModifier]:
    modifiers, parts = list(_FREQUENCY_BY_MODIFIER), list(_FREQUENCY_BY_MODIFIER.values())
    drawn = rng.random.choices(modifiers, parts, k=many)
    return sorted(set(drawn), key=drawn.index)


def _random_request_spec(rng: RandomSource, draft: RequestDraft) -> dict[str, Any]:
    image = {**draft.image, "properties": draft.properties}
    return {
        "project_id": rng.choice(PROJECT_IDS),
        "user_id": "u1",
        "flavor": {**draft.flavor, "extra_specs": draft.extra_specs},
        "image": image if draft.image or draft.properties else None,
        **({"is_bfv": True} if not draft.image or rng.chance(0.15) else {}),
        **draft.spec,
    }
