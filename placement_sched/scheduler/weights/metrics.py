"""MetricsWeigher: prefer hosts by the figures that their monitors measure."""

from math import isfinite
from typing import NoReturn

from placement_sched.config.options.filter_scheduler import ratios
from placement_sched.config.sources import OF_REQUEST
from placement_sched.errors import Invalid, PluginFailed
from placement_sched.model.names import in_short
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import path_of
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights

#: The options by which a host comes here that cannot be weighed.
_CAUSES = (
    ("metrics", "weight_setting"),
    ("metrics", "required"),
    ("filter_scheduler", "enabled_filters"),
    ("filter_scheduler", "available_filters"),
    ("filter_scheduler", "weight_classes"),
)
#: Metrics that a refusal names; there may be hundreds.
_SHOWN = 10


class MetricsWeigher(BaseHostWeigher):
    """Prefers the host with the greatest sum of the metrics that count, each times its ratio.

    ``[metrics] weight_setting`` names them, as in ``cpu.percent=-1.0,numa.membw.current=0.5``;
    where it names none the weigher does not count. An element that is not ``name=number`` is logged
    and ignored. With ``[metrics] required``, which is the default, a host that lacks one of the
    metrics fails the request (400 where overrides of the request are why, 500 otherwise), so that
    MetricsFilter should be enabled as well; without, its weight is ``[metrics]
    weight_of_unavailable``, unless the ratio of what it lacks, or the multiplier for this host, is
    0. A host that reports a metric by NUMA node only (``numa_membw_values``) always fails the
    request, as in nova: such a metric has no single value that could count. The multiplier is
    ``[metrics] weight_multiplier``; aggregate metadata ``metrics_weight_multiplier`` override it
    for the hosts in the aggregate, and of several the smallest counts.
    """

    by_host = True
    multiplier_option = ("metrics", "weight_multiplier")
    multiplier_keys = ("metrics_weight_multiplier", "metrics.weight_multiplier")

    def __init__(self) -> None:
        super().__init__()
        self._ratios = ratios(self.settings.metrics.weight_setting)
        self._names = frozenset(name for name, _ in self._ratios)

    def concerns(self, spec_obj: RequestSpec) -> bool:
        """Return whether any metric counts."""
        return bool(self._ratios)

    def column(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the sum for each host, or the weight of one that lacks a metric.

        Raises :class:`PluginFailed` where metrics are required, and :class:`Invalid` where the
        request's own overrides are why.
        """
        return [self._weight(host) for host in hosts]

    def _weight(self, host: HostState) -> float:
        measured = {metric.name: metric.value for metric in host.metrics or ()}
        if self.settings.metrics.required and not self._names <= measured.keys():
            lacking = in_short(sorted(self._names - measured.keys()), _SHOWN)
            self._refuse(
                host,
                f"does not report {lacking}, which [metrics] weight_setting names; "
                "enable MetricsFilter to reject such hosts",
            )
        total = 0.0
        for name, ratio in self._ratios:
            if name in measured:
                total += self._figure(host, name, measured[name]) * ratio
            elif ratio and self.weight_multiplier(host) != 0:
                return float(self.settings.metrics.weight_of_unavailable)
        if not isfinite(total):
            self._refuse(host, "weighs too much by the ratios of [metrics] weight_setting")
        return total

    def _figure(self, host: HostState, name: str, value: int | None) -> int:
        """Return the value of a metric, which has none if it has values by node only."""
        if value is None:
            self._refuse(
                host,
                f"reports {name} by NUMA node only, so that it has no single value to weigh: "
                "remove it from [metrics] weight_setting",
            )
        return value

    def _refuse(self, host: HostState, why: str) -> NoReturn:
        words = f"host {host.host}, node {host.nodename} {why}"
        for group, name in _CAUSES:
            if self.settings.source_of_override(group, name) == OF_REQUEST:
                raise Invalid(f"{OF_REQUEST}: {group}.{name}: {words}")
        # As an error of ours: a traceback would explain nothing.
        raise PluginFailed(f"{path_of(type(self))} failed: {words}")
