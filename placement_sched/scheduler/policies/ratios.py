"""The allocation ratios that the hosts of a policy's aggregates have in place of their own.

Source: "Multiple Active Scheduler Configurations/Drivers/Policies": a pool with a conservative CPU
overcommit, and another with an aggressive one.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from types import MappingProxyType

from placement_sched.errors import ConfigurationError
from placement_sched.scheduler.policies.registry import Policies, Policy
from placement_sched.scheduler.policies.sections import RATIOS

#: Ratios by name, like ``cpu_allocation_ratio``.
Ratios = Mapping[str, float]
NONE: Ratios = MappingProxyType({})


@lru_cache(maxsize=64)
def ratios_of(policy: Policy) -> Ratios:
    """Return the ratios that a policy's own section sets; 0.0 and nothing count as unset."""
    set_there = {(one.group, one.option) for one in policy.overrides} & RATIOS
    options = policy.settings.DEFAULT
    found = {name: getattr(options, name) for _, name in sorted(set_there)}
    return MappingProxyType({name: float(ratio) for name, ratio in found.items() if ratio})


def ratios_under(names: Iterable[str], policies: Policies) -> Ratios:
    """Return the ratios of a host whose aggregates name these policies, by aggregate id.

    No host is to be under two; where one is, the first that can be used holds.
    """
    for name in names:
        try:
            return ratios_of(policies.get(name))
        except ConfigurationError:
            continue
    return NONE
