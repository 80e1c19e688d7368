"""The status of a server, as users see it, from its vm state and task state as nova keeps them.

Source: compute API guide, "Server Concepts" (server status, vm_state and task_state).
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

#: What is told of a vm state that is not known.
UNKNOWN = "UNKNOWN"

_REBUILDING = ("rebuilding", "rebuild_block_device_mapping", "rebuild_spawning")
_RESIZING = ("resize_prep", "resize_migrating", "resize_migrated", "resize_finish")
_SOFT = ("rebooting", "reboot_pending", "reboot_started")
_HARD = tuple(f"{state}_hard" for state in _SOFT)


def _tasks(*statuses: tuple[str, tuple[str, ...]]) -> Mapping[str, str]:
    return MappingProxyType({task: status for status, tasks in statuses for task in tasks})


_REBUILD = ("REBUILD", _REBUILDING)
_MIGRATING = ("MIGRATING", ("migrating",))
_RESIZE = ("RESIZE", _RESIZING)

#: By vm state: the status, and those that tasks make of it.
STATUSES: Mapping[str, tuple[str, Mapping[str, str]]] = MappingProxyType(
    {
        "active": (
            "ACTIVE",
            _tasks(
                ("REBOOT", _SOFT),
                ("HARD_REBOOT", _HARD),
                ("PASSWORD", ("updating_password",)),
                _REBUILD,
                _MIGRATING,
                _RESIZE,
            ),
        ),
        "building": ("BUILD", _tasks()),
        "stopped": ("SHUTOFF", _tasks(_RESIZE, _REBUILD)),
        "resized": ("VERIFY_RESIZE", _tasks(("REVERT_RESIZE", ("resize_reverting",)))),
        "paused": ("PAUSED", _tasks(_MIGRATING)),
        "suspended": ("SUSPENDED", _tasks()),
        "rescued": ("RESCUE", _tasks()),
        "error": ("ERROR", _tasks(_REBUILD)),
        "deleted": ("DELETED", _tasks()),
        "soft-delete": ("SOFT_DELETED", _tasks()),
        "shelved": ("SHELVED", _tasks()),
        "shelved_offloaded": ("SHELVED_OFFLOADED", _tasks()),
    }
)

#: The statuses with which it is told how far a server is, of which nobody reports anything.
IN_PROGRESS = frozenset(("ACTIVE", "BUILD", "REBUILD", "RESIZE", "VERIFY_RESIZE", "MIGRATING"))

#: nova's numbers of what the hypervisor says, by the vm state that goes with it; 0 is not known.
POWER_STATES: Mapping[str, int] = MappingProxyType(
    {
        "active": 1,
        "rescued": 1,
        "resized": 1,
        "paused": 3,
        "stopped": 4,
        "shelved": 4,
        "suspended": 7,
    }
)


def status_of(vm_state: str | None, task_state: str | None) -> str:
    """Return the status of a server in these states, whatever their case."""
    status, by_task = STATUSES.get((vm_state or "").lower(), (UNKNOWN, {}))
    return by_task.get((task_state or "").lower(), status)


def power_state_of(vm_state: str | None) -> int:
    """Return the power state that goes with a vm state: nobody reports another."""
    return POWER_STATES.get((vm_state or "").lower(), 0)


def states_of(status: str) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Yield the vm states in which a server may have this status, each with tasks.

    The servers are those in one of the tasks, or those in any other, as the last tells.
    """
    for vm_state, (plain, by_task) in STATUSES.items():
        if plain == status:
            yield vm_state, frozenset(by_task), False
        tasks = frozenset(task for task, told in by_task.items() if told == status)
        if tasks:
            yield vm_state, tasks, True
