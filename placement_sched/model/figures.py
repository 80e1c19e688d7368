# SPDX-License-Identifier: Apache-2.0
"""Figures of a cloud: hosts by state, capacity, usage, failover."""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Self

from placement_sched.limits import MAX_METRIC_NAMES
from placement_sched.model.document import Json

#: Stands for all zones or resource classes except the largest, whose amounts are added up.
OTHER = "other"

ZonedAmounts = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True)
class CloudFigures:
    """Figures of the cloud at a point in time, for metrics.

    ``hosts`` maps states to numbers. ``capacity`` and ``used`` are by resource class and zone.
    """

    hosts: Mapping[str, int] = field(default_factory=dict)
    capacity: ZonedAmounts = field(default_factory=dict)
    used: ZonedAmounts = field(default_factory=dict)

    @property
    def free(self) -> ZonedAmounts:
        """Return the capacity less the usage, at least 0."""
        return {
            key: max(capacity - self.used.get(key, 0), 0) for key, capacity in self.capacity.items()
        }

    def limit_names(self, limit: int = MAX_METRIC_NAMES) -> Self:
        """Return figures with at most ``limit`` zones and resource classes.

        The amounts of all smaller zones and classes are added up as :data:`OTHER`.
        """
        sizes = Counter(self.capacity) + Counter(self.used)
        classes = _find_largest(((name, size) for (name, _), size in sizes.items()), limit)
        zones = _find_largest(((zone, size) for (_, zone), size in sizes.items()), limit)

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
        """Read the figures that another process has written."""
        amounts = (
            {(name, zone): n for name, zone, n in document[key]} for key in ("capacity", "used")
        )
        return cls(document["hosts"], *amounts)


def _find_largest(sizes: Iterable[tuple[str, int]], limit: int) -> set[str]:
    sums: Counter[str] = Counter()
    for name, size in sizes:
        sums[name] += size
    ordered = sorted(sums, key=lambda name: (-sums[name], name))
    return set(ordered[:limit])


@dataclass(frozen=True, slots=True)
class Allowance:
    """The number of further instances that leave enough failover capacity.

    Up to ``remaining`` further instances of the flavor make no failure worse: a failure of hosts
    leaves as many instances without a host as today. ``at_most`` is an upper bound of that number,
    or None. Both are proved, and hold wherever the instances are placed.

    ``domain`` is the failure domain whose failure gets worse with ``at_most`` + 1 instances. It
    then has ``instances`` instances, and at most ``placed`` of them find hosts if it fails. If
    ``domain`` is empty, ``at_most`` + 1 instances do not fit on the hosts.
    """

    flavor: str
    remaining: int
    at_most: int | None = None
    domain: str = ""
    instances: int = 0
    placed: int = 0

    @property
    def stuck(self) -> int:
        """Return how many instances at least find no host if ``domain`` fails."""
        return self.instances - self.placed

    def as_json(self) -> Json:
        """Return the allowance as a JSON object."""
        breaks = {"domain": self.domain, "instances": self.instances, "placed": self.placed}
        return {
            "flavor": self.flavor,
            "remaining": self.remaining,
            "exact": self.at_most == self.remaining,
            "at_most": self.at_most,
            "breaks": breaks if self.domain else None,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Self:
        """Read an allowance from its JSON object."""
        values = (document["flavor"], document["remaining"], document["at_most"])
        return cls(*values, **(document["breaks"] or {}))


@dataclass(frozen=True, slots=True)
class FailoverResult:
    """The latest failover report, its time, and allowances by flavor name."""

    report: Json
    computed_at: datetime
    allowances: Mapping[str, Allowance] = field(default_factory=dict)

    @classmethod
    def from_report(cls, report: Json) -> Self:
        """Read the result from the JSON object of a failover report."""
        entries = map(Allowance.from_json, report["remaining"])
        allowances = {allowance.flavor: allowance for allowance in entries}
        return cls(report, datetime.fromisoformat(report["computed_at"]), allowances)

    def compute_age(self, now: datetime) -> float:
        """Return the age in seconds, at least 0."""
        return max((now - self.computed_at).total_seconds(), 0.0)

    def subtract_instances(self, flavors: Iterable[str | None]) -> Self:
        """Return a copy with ``at_most`` reduced by new instances.

        ``flavors`` has the flavor name of each new instance. ``remaining`` stays the same.
        """
        placed = Counter(flavors)
        allowances = {
            name: replace(each, at_most=max(each.at_most - placed[name], 0))
            for name, each in self.allowances.items()
            if each.at_most is not None and placed[name]
        }
        return replace(self, allowances={**self.allowances, **allowances})

    @property
    def noun(self) -> str:
        """Return the noun for a failure domain, such as ``host`` or ``host set``."""
        within = self.report["within"]
        if self.report["host_failures"] > 1:
            return f"{within or 'host'} set"
        return within or "host"


_RESULT: ContextVar[FailoverResult | None] = ContextVar("the failover result", default=None)


def set_failover_result(result: FailoverResult | None) -> None:
    """Set the failover result for the filters of the current request."""
    _RESULT.set(result)


def get_failover_result() -> FailoverResult | None:
    """Return the failover result for the current request, or None."""
    return _RESULT.get()
