# SPDX-License-Identifier: Apache-2.0
"""Random changes that make a value of a request invalid or contradictory."""

from tests.differential.generate.random_values import RandomSource
from tests.differential.nova.generate.draft import RequestDraft

_UNUSUAL_VALUES = (
    "", "x", "-1", "0", "1.5", "yes", "REQUIRED", " required", "forbidden", "a:b", "1,2",
    "optional", "preferred", " 2 ", "+2", "1_0", "2.0",
)  # fmt: skip


#: Invalid keys that resemble valid keys, and keys without a request group.
_UNUSUAL_EXTRA_SPECS = {
    "resources:vcpu": "1",
    "resources:NOPE": "1",
    "resources1:NOPE": "1",
    "resources:CUSTOM_low": "1",
    "resourcesé:VGPU": "1",
    f"resources{'A' * 65}:VGPU": "1",
    "resources 1:VGPU": "1",
    "resources:": "1",
    "resources_NET:": "1",
    "trait:": "required",
    "trait1:": "forbidden",
    "trait:CUSTOM_FAST\n": "required",
    "trait:NOPE": "required",
    "trait:low": "forbidden",
    "traits:CUSTOM_FAST": "required",
    "member_of:x": "y",
    "in_tree:x": "y",
    "group_policy": "odd",
    "group_policy1": "none",
    "HW:cpu_policy": "dedicated",
}


def make_draft_invalid(rng: RandomSource, draft: RequestDraft) -> None:
    if rng.chance(0.3):
        key = rng.choice(sorted(_UNUSUAL_EXTRA_SPECS))
        draft.extra_specs[key] = _UNUSUAL_EXTRA_SPECS[key]
        return
    values = rng.choice([part for part in (draft.extra_specs, draft.properties) if part] or [{}])
    if values:
        values[rng.choice(sorted(values))] = rng.choice(_UNUSUAL_VALUES)
