# SPDX-License-Identifier: Apache-2.0
"""ComputeCapabilitiesFilter: filter by extra specs of the flavor."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from placement_sched.model.flavor import Flavor
from placement_sched.model.request_spec import RequestSpec
from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostCheck,
    Rejection,
    SuggestedChanges,
    extra_specs_ops,
    suggest_without_extra_specs,
)
from placement_sched.scheduler.filters.utils import (
    ADDRESS_BITS,
    HOST_ATTRIBUTES,
    find_value,
    get_item,
)
from placement_sched.scheduler.host_state import HostState

_ADDRESS_BITS_KEY = "hw:maxphysaddr_bits"


class _ExtraSpec(NamedTuple):
    """Extra spec to compare with a value of the host.

    ``path`` leads to the value of the host. It is empty for a key without a scope, which may be
    meant for another filter. ``matches`` compares a value of the host with ``requirement``.
    """

    key: str
    path: Sequence[str]
    requirement: str
    matches: Callable[[Any], bool]


class ComputeCapabilitiesFilter(BaseHostFilter):
    """Filter for hosts that satisfy the flavor's extra specs.

    A key with the scope ``capabilities``, such as ``capabilities:cpu_info:features``, is a path
    that begins with an attribute of the host state or a key of its ``stats``. Keys of other scopes
    are ignored. A key without a scope counts if the host has an attribute or a stat of that name,
    such as ``free_ram_mb``. The value may begin with an operator: ``>= 4096``, ``<in> gcc``, ``<or>
    fpu <or> gpu``. Otherwise it is compared as text.

    ``hw:maxphysaddr_bits`` is compared too: the host's CPUs must report at least that number of
    bits of physical addresses in ``cpu_info`` (``maxphysaddr``, ``bits``).
    """

    run_filter_once_per_request = True

    def check(self, spec_obj: RequestSpec) -> None:
        for extra_spec in spec_obj.read_once(spec_obj.flavor, _parse_extra_specs):
            if extra_spec.path or extra_spec.key in HostState.__slots__:
                extra_specs_ops.check(extra_spec.key, extra_spec.requirement)

    def prepare(self, spec_obj: RequestSpec) -> HostCheck | None:
        extra_specs = spec_obj.read_once(spec_obj.flavor, _parse_extra_specs)
        return partial(_check_host, extra_specs) if extra_specs else None

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        extra_specs = spec_obj.read_once(spec_obj.flavor, _parse_extra_specs)
        keys = [
            extra_spec.key for extra_spec in extra_specs if _check_host((extra_spec,), host_state)
        ]
        yield suggest_without_extra_specs(spec_obj, keys, "extra_spec")


def _check_host(extra_specs: Iterable[_ExtraSpec], host_state: HostState) -> Rejection | None:
    parent_path: list[str] = []
    parent: Any = None
    for key, path, requirement, matches in extra_specs:
        if not path and key not in HOST_ATTRIBUTES and key not in host_state.stats:
            continue
        *names, last = path or [key]
        if names and names != parent_path:  # many extra specs share a parent
            parent_path, parent = names, find_value(host_state, names)
        value = get_item(parent, last) if names else find_value(host_state, [last])
        if value is None or not matches(str(value)):
            actual = value if isinstance(value, str | int | float | None) else str(value)
            return Rejection(
                kind="extra_spec", requested=requirement, actual=actual, values={"key": key}
            )
    return None


def _parse_extra_specs(flavor: Flavor) -> Sequence[_ExtraSpec]:
    """Return the extra specs to compare, with ``hw:maxphysaddr_bits`` last."""
    extra_specs: list[_ExtraSpec] = []
    for key, requirement in flavor.extra_specs.items():
        scope, *path = key.split(":")
        if scope == "capabilities" or not path:
            extra_specs.append(
                _ExtraSpec(key, path, requirement, extra_specs_ops.build_matcher(requirement))
            )
    if bits := flavor.extra_specs.get(_ADDRESS_BITS_KEY):
        requirement = f">= {bits}"
        extra_specs.append(
            _ExtraSpec(
                _ADDRESS_BITS_KEY,
                ADDRESS_BITS,
                requirement,
                extra_specs_ops.build_matcher(requirement),
            )
        )
    return extra_specs
