# SPDX-License-Identifier: Apache-2.0
"""Task states as nova spells them."""

import pytest

from placement_sched.extensions.nova_plugins import task_states


def test_task_state_has_the_lower_case_value_of_nova():
    assert (task_states.SPAWNING, task_states.RESIZE_PREP) == ("spawning", "resize_prep")
    states = (task_states.POWERING_OFF, task_states.SOFT_DELETING)
    assert states == ("powering-off", "soft-deleting")


def test_unknown_task_states_are_not_provided():
    with pytest.raises(AttributeError, match=r"task_states\.spawning is not provided here"):
        _ = task_states.spawning
