"""Drivers: how hosts are chosen among those that the candidates search finds.

All of them share the one path of ``scheduler/scheduler.py``; a driver says which filters and
weighers run on it, and in which order the hosts that are left are taken.
"""

import sys
from collections.abc import Collection, Sequence
from random import Random
from typing import ClassVar

from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.plugin import SchedulerPlugin, classes_in
from placement_sched.scheduler.weights import BaseHostWeigher, WeighedHost


class BaseDriver(SchedulerPlugin):
    """The base of all drivers: as it stands, the filter scheduler without a choice among the best.

    ``name`` is what ``[scheduler] driver`` calls it.
    """

    name: ClassVar[str] = ""

    #: Whether host states are kept from request to request for a while, less what went there.
    keeps_states: ClassVar[bool] = False

    def filters(self, enabled: Sequence[BaseHostFilter]) -> tuple[BaseHostFilter, ...]:
        """Return the filters to run, given those that are enabled."""
        return tuple(enabled)

    def weighers(self, enabled: Sequence[BaseHostWeigher]) -> tuple[BaseHostWeigher, ...]:
        """Return the weighers to run, given those that are enabled."""
        return tuple(enabled)

    def ordered(
        self,
        hosts: Sequence[WeighedHost],
        taken: Collection[WeighedHost],  # noqa: ARG002 - for those that override it
        random: Random,  # noqa: ARG002 - for those that override it
    ) -> tuple[WeighedHost, ...]:
        """Return the hosts with the one to take first; they come heaviest first.

        ``taken`` are those that earlier instances of the same request got.
        """
        return tuple(hosts)


def all_drivers() -> list[type[BaseDriver]]:
    """Return the driver classes that are shipped."""
    return classes_in(sys.modules[__name__], BaseDriver)
