# SPDX-License-Identifier: Apache-2.0
"""Used shares of zones and host aggregates, from the sums of the overview API."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from placement_sched.console.units import format_share
from placement_sched.model.document import Json
from placement_sched.model.provider import NEARLY_FULL

#: Sums of a resource class that are shown.
_SUMS = ("used", "capacity", "full", "nearly_full")
#: Resource classes shown first.
_FIRST_CLASSES = ("MEMORY_MB", "VCPU", "PCPU", "DISK_GB")


@dataclass(frozen=True, slots=True)
class Use:
    """The use of a resource class by some hosts, with the number of hosts that are full."""

    name: str
    used: int
    capacity: int
    full: int
    nearly_full: int
    zone: str = ""

    @property
    def percent(self) -> int:
        """Return the used share in percent."""
        return format_share(self.used, self.capacity)


def build_use(sums: Json, name: str) -> Use | None:
    """Return the use of a resource class by the hosts of sums, None if they have none of it."""
    amounts = sums["resources"].get(name)
    if amounts is None:
        return None
    return Use(name, **{key: amounts[key] for key in _SUMS}, zone=sums.get("zone", ""))


def add_uses(parts: Sequence[Json], name: str) -> Use:
    """Return the use of a resource class by the hosts of all parts."""
    uses = [use for part in parts if (use := build_use(part, name)) is not None]
    return Use(name, **{key: sum(getattr(use, key) for use in uses) for key in _SUMS})


def choose_classes(parts: Sequence[Json], maximum: int) -> list[str]:
    """Return the resource classes to show: first the usual classes, then the fullest."""
    names = {name for part in parts for name in part["resources"]}
    uses = {name: add_uses(parts, name).percent for name in names}
    first = [name for name in _FIRST_CLASSES if name in names]
    others = sorted(names - set(first), key=lambda name: (-uses[name], name))
    return [*first, *others][:maximum]


def find_full(zones: Sequence[Json]) -> Iterator[Use]:
    """Yield the resources that are nearly full in a zone, the fullest first."""
    uses = [use for zone in zones for name in zone["resources"] if (use := build_use(zone, name))]
    for use in sorted(uses, key=lambda use: (-use.percent, use.zone)):
        if use.percent >= NEARLY_FULL:
            yield use
