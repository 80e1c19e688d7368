"""ComputeCapabilitiesFilter: only hosts that have what the flavor's extra specs ask for."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from placement_sched.model.flavor import Flavor
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    Question,
    Refusal,
    Remedy,
    extra_specs_ops,
)
from placement_sched.scheduler.filters.changed_requests import without_extra_specs
from placement_sched.scheduler.filters.utils import ADDRESS_BITS, inside, value_at
from placement_sched.scheduler.host_state import HostState

_BITS_ASKED = "hw:maxphysaddr_bits"


class _Asked(NamedTuple):
    """An extra spec, the names to walk down for it, the value wanted there, and what compares it.

    There are no names for a key without a scope, which may be meant for others.
    """

    key: str
    path: Sequence[str]
    wanted: str
    matches: Callable[[Any], bool]


class ComputeCapabilitiesFilter(BaseHostFilter):
    """Lets hosts pass that satisfy the flavor's extra specs about the host.

    A key is scoped, ``capabilities:cpu_info:features``, and walks down from an attribute of the
    host state (or a key of its ``stats``) through what that holds. Keys of other scopes are left to
    others. A key without a scope counts if the host has an attribute or stat of that name, like
    ``free_ram_mb``. The value may begin with an operator: ``>= 4096``, ``<in> gcc``,
    ``<or> fpu <or> gpu``; without one it is compared as text.

    ``hw:maxphysaddr_bits`` is asked of the host, too: its CPUs must report as many bits of physical
    addresses, or more, in ``cpu_info`` (``maxphysaddr``, ``bits``).
    """

    run_filter_once_per_request = True

    def check(self, spec_obj: RequestSpec) -> None:
        """Raise :class:`Invalid` for a comparison that makes no sense with any host."""
        for one in spec_obj.read_once(spec_obj.flavor, _asked):
            if one.path or one.key in HostState.__slots__:
                extra_specs_ops.check(one.key, one.wanted)

    def for_request(self, spec_obj: RequestSpec) -> Question | None:
        """Return what looks for the first extra spec that a host does not satisfy."""
        asked = spec_obj.read_once(spec_obj.flavor, _asked)
        return partial(_refusal, asked) if asked else None

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return the extra specs that the host does not satisfy."""
        asked = spec_obj.read_once(spec_obj.flavor, _asked)
        keys = [one.key for one in asked if _refusal((one,), host_state)]
        yield without_extra_specs(spec_obj, keys, "let the host report what they ask for")


def _refusal(asked: Iterable[_Asked], host_state: HostState) -> Refusal | None:
    above: list[str] = []
    holder: Any = None
    for key, path, wanted, matches in asked:
        if not path and not hasattr(host_state, key) and key not in host_state.stats:
            continue
        *names, last = path or [key]
        if names and names != above:  # many extra specs may ask for what one value holds
            above, holder = names, value_at(host_state, names)
        value = inside(holder, last) if names else value_at(host_state, [last])
        if value is None:
            return Refusal(f"{key}: {wanted!r} requested, the host has none", asked=wanted)
        if not matches(str(value)):
            return Refusal(f"{key}: {wanted!r} requested, {value} found", wanted, value)
    return None


def _asked(flavor: Flavor) -> Sequence[_Asked]:
    """Return what the flavor asks; as in nova, the bits of addresses come last."""
    asked: list[_Asked] = []
    for key, wanted in flavor.extra_specs.items():
        scope, *path = key.split(":")
        if scope == "capabilities" or not path:
            asked.append(_Asked(key, path, wanted, extra_specs_ops.matcher(wanted)))
    if bits := flavor.extra_specs.get(_BITS_ASKED):
        wanted = f">= {bits}"
        asked.append(_Asked(_BITS_ASKED, ADDRESS_BITS, wanted, extra_specs_ops.matcher(wanted)))
    return asked
