"""What lies somewhere inside of what a host reports."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from placement_sched.scheduler.host_state import HostState

#: Where a host tells how many bits a physical address has.
ADDRESS_BITS = ("cpu_info", "maxphysaddr", "bits")


def value_at(host_state: HostState, path: Sequence[str]) -> Any:
    """Return what lies at the end of the path, or None where it ends early.

    It begins at an attribute of the host, or at a key of its ``stats``.
    """
    first, *rest = path
    value = getattr(host_state, first, None)
    if value is None:
        value = host_state.stats.get(first)
    for name in rest:
        value = next(_members(value, name), None)
    return value


def _members(value: Any, name: str) -> Iterator[Any]:
    """Yield the member of this name of a mapping, which may be written as JSON."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return
    if isinstance(value, Mapping) and name in value:
        yield value[name]
