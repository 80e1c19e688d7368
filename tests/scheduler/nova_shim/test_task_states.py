# SPDX-License-Identifier: Apache-2.0
"""Task states as nova spells them."""

import pytest

from placement_sched.scheduler.nova_shim import task_states


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SPAWNING", "spawning"),
        ("RESIZE_PREP", "resize_prep"),
        ("POWERING_OFF", "powering-off"),
        ("SOFT_DELETING", "soft-deleting"),
    ],
)
def test_task_state_is_its_name_in_lower_case(name, value):
    assert getattr(task_states, name) == value


def test_other_names_are_not_provided():
    with pytest.raises(AttributeError, match=r"task_states\.spawning is not provided here"):
        _ = task_states.spawning
