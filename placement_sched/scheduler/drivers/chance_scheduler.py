"""ChanceScheduler: any host that is up."""

from collections.abc import Collection, Sequence
from random import Random

from placement_sched.scheduler.drivers import BaseDriver
from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.compute_filter import ComputeFilter
from placement_sched.scheduler.weights import BaseHostWeigher, WeighedHost


class ChanceScheduler(BaseDriver):
    """Takes any host that is up and enabled, whatever filters and weighers are enabled.

    Only hosts that the candidates search finds come into question, so that what is chosen can be
    claimed; ``ignore_hosts`` and the like hold. Instances of one request go to different
    hosts while there are enough. Was removed in nova 19 (Stein).
    """

    name = "chance_scheduler"

    def filters(self, enabled: Sequence[BaseHostFilter]) -> tuple[BaseHostFilter, ...]:  # noqa: ARG002
        """Return the one filter that asks whether a host is up."""
        return (ComputeFilter.with_settings(self.settings, self._clock),)

    def weighers(self, enabled: Sequence[BaseHostWeigher]) -> tuple[BaseHostWeigher, ...]:  # noqa: ARG002
        """Return none: every host is as good as any other."""
        return ()

    def ordered(
        self, hosts: Sequence[WeighedHost], taken: Collection[WeighedHost], random: Random
    ) -> tuple[WeighedHost, ...]:
        """Return the hosts in any order, those that have an instance of the request last."""
        had = {id(host.obj) for host in taken}
        return tuple(sorted(random.sample(hosts, len(hosts)), key=lambda host: id(host.obj) in had))
