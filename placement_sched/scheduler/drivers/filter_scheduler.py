# SPDX-License-Identifier: Apache-2.0
"""FilterScheduler: choice of the best host by filters and weighers."""

from collections.abc import Collection, Sequence
from random import Random

from placement_sched.scheduler.drivers import BaseDriver
from placement_sched.scheduler.weights import WeighedHost


class FilterScheduler(BaseDriver):
    """Driver that chooses the heaviest host that passes all enabled filters.

    ``[filter_scheduler] shuffle_best_same_weighed_hosts`` chooses at random among the hosts with
    the greatest weight, ``host_subset_size`` among that number of the best hosts.
    """

    name = "filter_scheduler"

    def ordered(
        self,
        hosts: Sequence[WeighedHost],
        taken: Collection[WeighedHost],  # noqa: ARG002 - earlier choices do not matter
        random: Random,
    ) -> tuple[WeighedHost, ...]:
        options = self.settings.filter_scheduler
        ordered = list(hosts)
        if options.shuffle_best_same_weighed_hosts and ordered:
            ties = sum(1 for host in ordered if host.weight == ordered[0].weight)
            ordered[:ties] = random.sample(ordered[:ties], ties)
        subset = min(options.host_subset_size, len(ordered))
        if subset > 1:
            ordered.insert(0, ordered.pop(random.randrange(subset)))
        return tuple(ordered)
