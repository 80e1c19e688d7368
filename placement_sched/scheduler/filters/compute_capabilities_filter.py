"""ComputeCapabilitiesFilter: only hosts that have what the flavor's extra specs ask for."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from placement_sched.model.spec import RequestSpec
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters import BaseHostFilter, extra_specs_ops
from placement_sched.scheduler.host_state import HostState

_SCOPE = "capabilities"


class ComputeCapabilitiesFilter(BaseHostFilter):
    """Lets hosts pass that satisfy the flavor's extra specs about the host.

    A key is scoped, ``capabilities:cpu_info:features``, and walks down from an attribute of the
    host state (or a key of its ``stats``) through what that holds. Keys of other scopes are left to
    others. A key without a scope counts if the host has an attribute or stat of that name, like
    ``free_ram_mb``. The value may begin with an operator: ``>= 4096``, ``<in> gcc``,
    ``<or> fpu <or> gpu``; without one it is compared as text.
    """

    run_filter_once_per_request = True

    def check(self, spec_obj: RequestSpec) -> None:
        """Raise :class:`Invalid` for a comparison that makes no sense with any host."""
        for key, wanted in spec_obj.flavor.extra_specs.items():
            if key.startswith(f"{_SCOPE}:") or key in HostState.__slots__:
                extra_specs_ops.check(key, wanted)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return the first extra spec that the host does not satisfy, with what it has."""
        for key, wanted in spec_obj.flavor.extra_specs.items():
            path = _path(key, host_state)
            if path is None:
                continue
            value = _value(host_state, path)
            if value is None:
                return Refusal(f"{key}: {wanted!r} asked, the host has none", asked=wanted)
            if not extra_specs_ops.match(str(value), wanted):
                return Refusal(f"{key}: {wanted!r} asked, {value} found", wanted, value)
        return None


def _path(key: str, host_state: HostState) -> list[str] | None:
    """Return the names to walk down for an extra spec, or None if it is not for this filter."""
    scope, *path = key.split(":")
    if path:
        return path if scope == _SCOPE else None
    return [scope] if hasattr(host_state, scope) or scope in host_state.stats else None


def _value(host_state: HostState, path: list[str]) -> Any:
    """Return what lies at the end of the path, or None where it ends early."""
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
