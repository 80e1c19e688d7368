# SPDX-License-Identifier: Apache-2.0
"""Random changes that make a value of a request invalid or contradictory."""

from tests.differential.generate.dice import Dice
from tests.differential.nova.generate.draft import RequestDraft

_ODD = (
    "", "x", "-1", "0", "1.5", "yes", "REQUIRED", " required", "forbidden", "a:b", "1,2",
    "optional", "preferred", " 2 ", "+2", "1_0", "2.0",
)  # fmt: skip


#: Invalid keys that resemble valid keys, and keys without a request group.
_ODD_KEYS = {
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


def make_invalid(dice: Dice, draft: RequestDraft) -> None:
    if dice.chance(0.3):
        key = dice.choice(sorted(_ODD_KEYS))
        draft.extra_specs[key] = _ODD_KEYS[key]
        return
    values = dice.choice([part for part in (draft.extra_specs, draft.properties) if part] or [{}])
    if values:
        values[dice.choice(sorted(values))] = dice.choice(_ODD)
