"""How many more instances of each of some flavors fit, in all and in each zone."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from placement_sched.model.cloud_figures import MOST, OTHER


class Counted(StrEnum):
    """How far a number can be relied upon; the last two have none."""

    EXACT = "exact"
    INEXACT = "inexact"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class FlavorCapacity:
    """How many more instances of one flavor fit; ``zones`` are by name."""

    state: Counted
    instances: int = 0
    zones: Mapping[str, int] = field(default_factory=dict)

    def bounded(self, most: int = MOST) -> Self:
        """Return the same with the zones of most capacity by name, and the others as one."""
        ordered = sorted(self.zones, key=lambda name: (-self.zones[name], name))
        zones: Counter[str] = Counter()
        for place, name in enumerate(ordered):
            zones[name if place < most else OTHER] += self.zones[name]
        return type(self)(self.state, self.instances, dict(zones))


@dataclass(frozen=True, slots=True)
class CapacityFigures:
    """The capacity for each flavor by name; ``counted_at`` is in seconds since 1970."""

    counted_at: float
    flavors: Mapping[str, FlavorCapacity]

    def as_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return asdict(self)

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the figures that another process wrote."""
        flavors = {
            name: FlavorCapacity(Counted(one["state"]), one["instances"], one["zones"])
            for name, one in given["flavors"].items()
        }
        return cls(given["counted_at"], flavors)
