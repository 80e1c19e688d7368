# SPDX-License-Identifier: Apache-2.0
"""Capacity for flavors, for metrics."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from placement_sched.limits import MAX_METRIC_NAMES
from placement_sched.model.figures import OTHER


class Reliability(StrEnum):
    """The reliability of the capacity for a flavor.

    ``INEXACT`` capacity is a lower bound. There is no capacity if every request for the flavor is
    rejected (``REJECTED``), or if the flavor does not exist (``UNKNOWN``).
    """

    EXACT = "exact"
    INEXACT = "inexact"
    REJECTED = "rejected"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """The number of further instances of a flavor that fit, also per zone."""

    state: Reliability
    instances: int = 0
    zones: Mapping[str, int] = field(default_factory=dict)

    def limit_names(self, limit: int = MAX_METRIC_NAMES) -> Self:
        """Return the capacity with at most ``limit`` zones.

        The numbers of all smaller zones are added up as :data:`OTHER`.
        """
        ordered = sorted(self.zones, key=lambda name: (-self.zones[name], name))
        zones: Counter[str] = Counter()
        for index, name in enumerate(ordered):
            zones[name if index < limit else OTHER] += self.zones[name]
        return type(self)(self.state, self.instances, dict(zones))


@dataclass(frozen=True, slots=True)
class CapacityFigures:
    """The capacity for flavors, by flavor name.

    ``counted_at`` is in seconds since 1970.
    """

    counted_at: float
    flavors: Mapping[str, FlavorCapacity]

    def as_json(self) -> dict[str, Any]:
        """Return the JSON object that :meth:`from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read the figures that another process has written."""
        flavors = {
            name: FlavorCapacity(Reliability(entry["state"]), entry["instances"], entry["zones"])
            for name, entry in document["flavors"].items()
        }
        return cls(document["counted_at"], flavors)
