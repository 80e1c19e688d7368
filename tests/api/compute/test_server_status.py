# SPDX-License-Identifier: Apache-2.0
"""The status of a server, from its states."""

from placement_sched.api.compute.servers import derive_power_state
from placement_sched.model.instance import POWER_STATES, STATUSES, derive_status


def test_server_status_is_derived_from_vm_and_task_state_as_in_nova():
    for vm_state, task_state, status in [
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
    ]:
        assert derive_status(vm_state, task_state) == status, (vm_state, task_state, status)


def test_power_state_is_derived_from_the_vm_state():
    assert set(POWER_STATES) <= set(STATUSES)
    assert [derive_power_state(state) for state in ("Active", "stopped", None, "x")] == [1, 4, 0, 0]
