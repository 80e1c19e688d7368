# SPDX-License-Identifier: Apache-2.0
"""ChanceScheduler: random choice among the hosts that are up."""

from collections.abc import Collection, Sequence
from random import Random

from placement_sched.scheduler.drivers import BaseDriver
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.compute_filter import ComputeFilter
from placement_sched.scheduler.weights import BaseHostWeigher, WeighedHost


class ChanceScheduler(BaseDriver):
    """Driver that chooses any enabled host that is up.

    Of the filters and weighers, only ComputeFilter runs. Only hosts with candidates are eligible,
    so that the choice can be claimed. ``ignore_hosts`` and similar restrictions apply. Instances of
    a request go to different hosts while there are enough. nova removed this driver in Stein (19).
    """

    name = "chance_scheduler"

    def filters(self, enabled: Sequence[BaseHostFilter]) -> tuple[BaseHostFilter, ...]:  # noqa: ARG002
        return (ComputeFilter.with_settings(self.settings, self._clock),)

    def weighers(self, enabled: Sequence[BaseHostWeigher]) -> tuple[BaseHostWeigher, ...]:  # noqa: ARG002
        return ()

    def ordered(
        self, hosts: Sequence[WeighedHost], taken: Collection[WeighedHost], random: Random
    ) -> tuple[WeighedHost, ...]:
        used = {id(host.obj) for host in taken}
        return tuple(
            sorted(random.sample(hosts, len(hosts)), key=lambda host: id(host.obj) in used)
        )
