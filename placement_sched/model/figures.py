# SPDX-License-Identifier: Apache-2.0
"""Figures of a cloud: hosts by state, capacity and usage by resource class and zone."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

#: Name of the sum of all zones or classes beyond the largest.
OTHER = "other"
#: Maximum number of zones, and of resource classes, shown by name.
MAX_NAMES = 50

#: Amounts by resource class and zone.
ZonedAmounts = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class CloudFigures:
    """Figures of the cloud at a moment, for metrics.

    ``hosts`` are the numbers of hosts by state: ``up``, ``down`` or ``disabled``. ``capacity`` and
    ``used`` are amounts by resource class and zone.
    """

    hosts: Mapping[str, int] = field(default_factory=dict)
    capacity: ZonedAmounts = field(default_factory=dict)
    used: ZonedAmounts = field(default_factory=dict)

    @property
    def free(self) -> ZonedAmounts:
        """Return capacity minus usage, never below 0."""
        return {
            key: max(capacity - self.used.get(key, 0), 0) for key, capacity in self.capacity.items()
        }

    def bounded(self, limit: int = MAX_NAMES) -> Self:
        """Return the figures with a limited number of zones and classes.

        All but the largest zones and classes are added up as :data:`OTHER`.
        """
        sizes = Counter(self.capacity) + Counter(self.used)
        classes = _largest(((name, size) for (name, _), size in sizes.items()), limit)
        zones = _largest(((zone, size) for (_, zone), size in sizes.items()), limit)

        def sum_small(amounts: ZonedAmounts) -> ZonedAmounts:
            sums: Counter[tuple[str, str]] = Counter()
            for (name, zone), amount in amounts.items():
                key = name if name in classes else OTHER, zone if zone in zones else OTHER
                sums[key] += amount
            return sums

        return type(self)(self.hosts, sum_small(self.capacity), sum_small(self.used))

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that :meth:`from_json` reads."""
        rows = [(*key, amount) for key, amount in self.capacity.items()]
        used = [(*key, amount) for key, amount in self.used.items()]
        return {"hosts": dict(self.hosts), "capacity": rows, "used": used}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the figures written by another process."""
        amounts = (
            {(name, zone): n for name, zone, n in document[key]} for key in ("capacity", "used")
        )
        return cls(document["hosts"], *amounts)


def _largest(sizes: Iterable[tuple[str, int]], limit: int) -> set[str]:
    sums: Counter[str] = Counter()
    for name, size in sizes:
        sums[name] += size
    ordered = sorted(sums, key=lambda name: (-sums[name], name))
    return set(ordered[:limit])


class Reliability(StrEnum):
    """The reliability of a number, which is absent if ``REFUSED`` or ``UNKNOWN``."""

    EXACT = "exact"
    INEXACT = "inexact"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """The number of further instances of a flavor, in total and by zone."""

    state: Reliability
    instances: int = 0
    zones: Mapping[str, int] = field(default_factory=dict)

    def bounded(self, limit: int = MAX_NAMES) -> Self:
        """Return the capacity with a limited number of zones.

        All but the largest zones are added up as :data:`OTHER`.
        """
        ordered = sorted(self.zones, key=lambda name: (-self.zones[name], name))
        zones: Counter[str] = Counter()
        for index, name in enumerate(ordered):
            zones[name if index < limit else OTHER] += self.zones[name]
        return type(self)(self.state, self.instances, dict(zones))


@dataclass(frozen=True, slots=True)
class CapacityFigures:
    """The capacity by flavor name.

    ``counted_at`` is in seconds since 1970.
    """

    counted_at: float
    flavors: Mapping[str, FlavorCapacity]

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that :meth:`from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Return the figures written by another process."""
        flavors = {
            name: FlavorCapacity(Reliability(entry["state"]), entry["instances"], entry["zones"])
            for name, entry in document["flavors"].items()
        }
        return cls(document["counted_at"], flavors)
