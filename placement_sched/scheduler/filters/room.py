"""What a host has of one thing, how much of it is taken, and how often it may be given away.

Used by the filters of CPUs, memory and disk, and by their fellows that heed aggregates. Sources:
nova's "Filter Scheduler" of Icehouse to Victoria, and the release notes of Liberty on ratios.
"""

from dataclasses import dataclass
from math import isfinite

from placement_sched.config import Settings
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters.aggregate_numbers import smallest_of_aggregates
from placement_sched.scheduler.host_state import HostState


@dataclass(frozen=True, slots=True)
class Room:
    """``total`` and ``used`` are in the same unit; up to ``total * ratio`` may be used."""

    total: int
    used: int
    ratio: float

    @property
    def limit(self) -> float:
        """Return how much may be given away in all."""
        return self.total * self.ratio

    def refusal(self, asked: int, unit: str) -> Refusal | None:
        """Return why ``asked`` does not fit, with the numbers, or None where it does.

        One instance never gets more than there really is, whatever the ratio.
        """
        if asked > self.total:
            reason = f"{asked} {unit} asked, the host has {self.total} in all"
            return Refusal(reason, asked, self.total)
        free = self.limit - self.used
        if free >= asked:
            return None
        reason = f"{asked} {unit} asked, {_told(free)} free of {self.total} x {_told(self.ratio)}"
        return Refusal(reason, asked, free)


def reported_ratio(host_state: HostState, name: str, settings: Settings) -> float:
    """Return the host's ratio of this name, like ``ram_allocation_ratio``.

    Where the host tells none, or 0.0, the options in ``[DEFAULT]`` apply as to reports.
    """
    options = settings.DEFAULT
    told = getattr(host_state, name)
    return float(told or getattr(options, name) or getattr(options, f"initial_{name}"))


def aggregate_ratio(host_state: HostState, name: str, otherwise: float) -> float:
    """Return the smallest ratio of this name in the host's aggregates, else ``otherwise``."""
    return float(smallest_of_aggregates(host_state, name, _ratio, otherwise))


def _ratio(text: str) -> float:
    ratio = float(text)
    if not isfinite(ratio):
        raise ValueError(f"not a finite number: {text!r}")
    return ratio


def _told(number: float) -> str:
    """Return the number as operators write it: what floating point adds is left out."""
    return f"{number:.12g}"
