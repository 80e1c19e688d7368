"""How many hosts are up, and how much of each resource class is free and used in each zone."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

#: What stands for all zones, or classes, beyond the largest.
OTHER = "other"
#: So many zones, and so many resource classes, are shown by name.
MOST = 50

#: An amount by resource class and zone.
ZonedAmounts = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class CloudFigures:
    """The figures of one moment: hosts by ``up``, ``down`` or ``disabled``; amounts by class."""

    hosts: Mapping[str, int] = field(default_factory=dict)
    capacity: ZonedAmounts = field(default_factory=dict)
    used: ZonedAmounts = field(default_factory=dict)

    @property
    def free(self) -> ZonedAmounts:
        """Return what may be allocated yet, never below 0."""
        return {key: max(whole - self.used.get(key, 0), 0) for key, whole in self.capacity.items()}

    def bounded(self, most: int = MOST) -> Self:
        """Return the figures with the largest zones and classes by name, and the others as one."""
        sizes = Counter(self.capacity) + Counter(self.used)
        classes = _largest(((name, size) for (name, _), size in sizes.items()), most)
        zones = _largest(((zone, size) for (_, zone), size in sizes.items()), most)

        def joined(amounts: ZonedAmounts) -> ZonedAmounts:
            found: Counter[tuple[str, str]] = Counter()
            for (name, zone), amount in amounts.items():
                key = name if name in classes else OTHER, zone if zone in zones else OTHER
                found[key] += amount
            return found

        return type(self)(self.hosts, joined(self.capacity), joined(self.used))

    def as_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        rows = [(*key, amount) for key, amount in self.capacity.items()]
        used = [(*key, amount) for key, amount in self.used.items()]
        return {"hosts": dict(self.hosts), "capacity": rows, "used": used}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> Self:
        """Return the figures that another process wrote."""
        amounts = (
            {(name, zone): n for name, zone, n in given[key]} for key in ("capacity", "used")
        )
        return cls(given["hosts"], *amounts)


def _largest(sizes: Iterable[tuple[str, int]], most: int) -> set[str]:
    found: Counter[str] = Counter()
    for name, size in sizes:
        found[name] += size
    ordered = sorted(found, key=lambda name: (-found[name], name))
    return set(ordered[:most])


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
