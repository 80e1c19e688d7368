# SPDX-License-Identifier: Apache-2.0
"""Scheduler drivers, which choose among the hosts of the candidate search.

With every driver, a request has the steps in ``scheduler/scheduler.py``. A driver chooses the
filters and weighers to run, and the order of the hosts that pass.
"""

import sys
from collections.abc import Collection, Sequence
from random import Random
from typing import ClassVar

from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.plugin import SchedulerPlugin, list_classes
from placement_sched.scheduler.weights import BaseHostWeigher, WeighedHost


class BaseDriver(SchedulerPlugin):
    """Base class of all drivers, which by default choose the heaviest host.

    ``name`` is the value of ``[scheduler] driver``.
    """

    name: ClassVar[str] = ""

    #: Whether host states are cached between requests, and updated only by placements of the same
    #: process.
    caches_states: ClassVar[bool] = False

    def filters(self, enabled: Sequence[BaseHostFilter]) -> tuple[BaseHostFilter, ...]:
        """Choose the filters to run from the enabled filters."""
        return tuple(enabled)

    def weighers(self, enabled: Sequence[BaseHostWeigher]) -> tuple[BaseHostWeigher, ...]:
        """Choose the weighers to run from the enabled weighers."""
        return tuple(enabled)

    def ordered(
        self,
        hosts: Sequence[WeighedHost],
        taken: Collection[WeighedHost],  # noqa: ARG002 - for overrides
        random: Random,  # noqa: ARG002 - for overrides
    ) -> tuple[WeighedHost, ...]:
        """Return the hosts in the driver's order, with the chosen host first.

        ``hosts`` are best first. ``taken`` are the hosts of earlier instances of the request.
        """
        return tuple(hosts)


def all_drivers() -> list[type[BaseDriver]]:
    """Return the shipped driver classes."""
    return list_classes(sys.modules[__name__], BaseDriver)
