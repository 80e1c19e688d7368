"""The status of a server, from its states."""

import pytest

from placement_sched.model.instance import (
    POWER_STATES,
    STATUSES,
    power_state_of,
    states_of,
    status_of,
)


@pytest.mark.parametrize(
    ("vm_state", "task_state", "status"),
    [
        ("active", None, "ACTIVE"),
        ("ACTIVE", "", "ACTIVE"),
        ("active", "powering-off", "ACTIVE"),
        ("active", "rebooting", "REBOOT"),
        ("active", "reboot_started_hard", "HARD_REBOOT"),
        ("active", "rebuild_spawning", "REBUILD"),
        ("active", "updating_password", "PASSWORD"),
        ("active", "migrating", "MIGRATING"),
        ("active", "resize_finish", "RESIZE"),
        ("building", "spawning", "BUILD"),
        ("stopped", None, "SHUTOFF"),
        ("stopped", "resize_prep", "RESIZE"),
        ("resized", None, "VERIFY_RESIZE"),
        ("resized", "resize_reverting", "REVERT_RESIZE"),
        ("paused", "migrating", "MIGRATING"),
        ("error", "rebuilding", "REBUILD"),
        ("error", "migrating", "ERROR"),
        ("soft-delete", None, "SOFT_DELETED"),
        ("shelved_offloaded", None, "SHELVED_OFFLOADED"),
        ("rescued", None, "RESCUE"),
        ("mended", None, "UNKNOWN"),
        (None, None, "UNKNOWN"),
    ],
)
def test_status_is_novas(vm_state, task_state, status):
    assert status_of(vm_state, task_state) == status


def test_every_status_leads_back_to_its_states():
    for vm_state, (plain, by_task) in STATUSES.items():
        assert vm_state in {found for found, _, _ in states_of(plain)}
        for task, status in by_task.items():
            assert any(
                found == vm_state and inside and task in tasks
                for found, tasks, inside in states_of(status)
            )


def test_power_goes_with_the_vm_state():
    assert set(POWER_STATES) <= set(STATUSES)
    assert [power_state_of(state) for state in ("Active", "stopped", None, "x")] == [1, 4, 0, 0]
