"""What a host has of one thing, how much of it is used, and how often it may be given away.

Sources: nova's "Filter Scheduler" of Icehouse to Victoria, and Liberty's release notes on ratios.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import TypeVar

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.model.verdict import Refusal
from placement_sched.scheduler.filters.utils import aggregate_values_from_key
from placement_sched.scheduler.host_state import HostState

LOG = log.getLogger(__name__)

Number = TypeVar("Number", int, float)


def smallest_of_aggregates(
    host_state: HostState, key: str, cast_to: Callable[[str], Number], otherwise: Number
) -> Number:
    """Return the smallest value of ``key`` in the metadata of the host's aggregates.

    ``otherwise`` where none of them has the key, or one value is not a number, which is logged: it
    is not known which of the others it was to be below. Values are not split at commas. Source:
    nova's "Filter Scheduler", Stein, and nova 34 observed.
    """
    values = aggregate_values_from_key(host_state, key)
    try:
        return min(map(cast_to, values), default=otherwise)
    except ValueError as wrong:
        text = "host %s: %s of its aggregates is not a number (%s): using %s"
        LOG.warning(text, host_state.host, key, wrong, otherwise)
        return otherwise


@dataclass(frozen=True, slots=True)
class HostRoom:
    """``total`` and ``used`` of a host, in one unit; up to ``total * ratio`` may be used."""

    total: int
    used: int
    ratio: float

    @property
    def limit(self) -> float:
        """Return how much may be given away in all."""
        return self.total * self.ratio

    @property
    def most(self) -> int:
        """Return the largest whole amount that is not refused."""
        return max(int(min(self.total, self.limit - self.used)), 0)

    def refusal(self, asked: int, unit: str) -> Refusal | None:
        """Return why ``asked`` does not fit, with the numbers, or None where it does.

        One instance never gets more than there really is, whatever the ratio.
        """
        total, free = self.total, self.limit - self.used
        if asked > total:
            return Refusal(f"{asked} {unit} requested, the host has {total} in all", asked, total)
        if free >= asked:
            return None
        # Without what floating point adds.
        reason = f"{asked} {unit} requested, {free:.12g} free of {total} x {self.ratio:.12g}"
        return Refusal(reason, asked, free)


def reported_ratio(host_state: HostState, name: str, settings: Settings) -> float:
    """Return the host's ratio of this name, like ``ram_allocation_ratio``.

    Where the host reports none, or 0.0, the options in ``[DEFAULT]`` apply as to reports.
    """
    options = settings.DEFAULT
    ratio = getattr(host_state, name)
    return float(ratio or getattr(options, name) or getattr(options, f"initial_{name}"))


def aggregate_ratio(host_state: HostState, name: str, otherwise: float) -> float:
    """Return the smallest ratio of this name in the host's aggregates, else ``otherwise``."""
    return float(smallest_of_aggregates(host_state, name, _ratio, otherwise))


def _ratio(text: str) -> float:
    ratio = float(text)
    if not isfinite(ratio):
        raise ValueError(f"not a finite number: {text!r}")
    return ratio
