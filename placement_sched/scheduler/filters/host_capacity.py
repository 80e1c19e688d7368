# SPDX-License-Identifier: Apache-2.0
"""Total, used and free amounts of a resource on a host.

Sources: nova's "Filter Scheduler" of Icehouse to Victoria, and Liberty's release notes on ratios.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, TypeVar

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.model.verdict import Rejection
from placement_sched.scheduler.filters.utils import aggregate_values_from_key
from placement_sched.scheduler.host_state import HostState

LOG = log.getLogger(__name__)

Number = TypeVar("Number", int, float)


def smallest_of_aggregates(
    host_state: HostState, key: str, cast_to: Callable[[str], Number], otherwise: Number
) -> Number:
    """Return the smallest value of ``key`` in the metadata of the host's aggregates.

    Returns ``otherwise`` if no aggregate has the key. If a value is not a number, it logs a warning
    and returns ``otherwise`` too, because the smallest value is unknown. Values are not split at
    commas. Source: nova's "Filter Scheduler", Stein, and nova 34 observed.
    """
    values = aggregate_values_from_key(host_state, key)
    try:
        return min(map(cast_to, values), default=otherwise)
    except ValueError as error:
        text = "host %s: %s of its aggregates is not a number (%s): using %s"
        LOG.warning(text, host_state.host, key, error, otherwise)
        return otherwise


@dataclass(frozen=True, slots=True)
class HostCapacity:
    """Total and used amount of a resource on a host, and its allocation ratio."""

    total: int
    used: int
    ratio: float

    @property
    def limit(self) -> float:
        """Return the total times the ratio, the maximum of the used amount."""
        return self.total * self.ratio

    @property
    def most(self) -> int:
        """Return the largest whole amount that an instance can get."""
        return max(int(min(self.total, self.limit - self.used)), 0)

    def rejection(self, amount: int, unit: str) -> Rejection | None:
        """Return the reason why the amount does not fit, or None if it does.

        An instance never gets more than the total, even if the ratio would allow more.
        """
        total, free = self.total, self.limit - self.used
        if amount > total:
            return Rejection(
                f"{amount} {unit} requested, the host has {total} in all", amount, total
            )
        if free >= amount:
            return None
        # 12 digits hide rounding errors of floating point.
        reason = f"{amount} {unit} requested, {free:.12g} free of {total} x {self.ratio:.12g}"
        return Rejection(reason, amount, free)


def reported_ratio(host_state: HostState, name: str, settings: Settings) -> float:
    """Return an allocation ratio of the host, such as ``ram_allocation_ratio``.

    If the host reports none, or 0.0, the options of ``[DEFAULT]`` apply.
    """
    options = settings.DEFAULT
    ratio = getattr(host_state, name)
    return float(ratio or getattr(options, name) or getattr(options, f"initial_{name}"))


def aggregate_ratio(host_state: HostState, name: str, otherwise: float) -> float:
    """Return the smallest ratio ``name`` in the metadata of the host's aggregates.

    Returns ``otherwise`` if no aggregate has it, or if a value is not a finite number.
    """
    return float(smallest_of_aggregates(host_state, name, _parse_ratio, otherwise))


def _parse_ratio(text: str) -> float:
    ratio = float(text)
    if not isfinite(ratio):
        raise ValueError(f"not a finite number: {text!r}")
    return ratio


class AllocationRatio:
    """The allocation ratio of a host filter, whose name is ``ratio``."""

    ratio: ClassVar[str]
    settings: Any

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return the allocation ratio that the host reports, or the ratio of the options."""
        return reported_ratio(host_state, self.ratio, self.settings)


class AllocationRatioOfAggregates(AllocationRatio):
    """The same with the ratio in the metadata of the host's aggregates, if they have it."""

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return the smallest ratio of the aggregates, or the ratio without them."""
        return aggregate_ratio(host_state, self.ratio, super().allocation_ratio(host_state))
