# SPDX-License-Identifier: Apache-2.0
"""MetricsWeigher: weigher by the metrics that hosts report."""

from math import isfinite
from typing import NoReturn

from placement_sched.config.options.scheduler import parse_weight_setting
from placement_sched.config.sources import OF_REQUEST
from placement_sched.errors import Invalid, PluginFailed
from placement_sched.model.document import build_json_path
from placement_sched.model.names import shorten_names
from placement_sched.scheduler.host_state import HostState
from placement_sched.scheduler.plugin import get_class_path
from placement_sched.scheduler.weights import BaseHostWeigher, Hosts, RequestSpec, Weights

#: Options that decide whether a host without a metric is weighed.
_CAUSES = (
    ("metrics", "weight_setting"),
    ("metrics", "required"),
    ("filter_scheduler", "enabled_filters"),
    ("filter_scheduler", "available_filters"),
    ("filter_scheduler", "weight_classes"),
)
#: Maximum number of metrics in a message: the option may name hundreds.
_MAX_NAMES = 10


class MetricsWeigher(BaseHostWeigher):
    """Weigher that prefers the host with the greatest weighted sum of metrics.

    ``[metrics] weight_setting`` lists metrics and ratios, as in
    ``cpu.percent=-1.0,numa.membw.current=0.5``. An empty list disables the weigher. An element that
    is not ``name=number`` is logged and ignored.

    If ``[metrics] required`` is true, the default, a host that lacks a metric fails the request
    (400 if overrides of the request are the cause, 500 otherwise): enable MetricsFilter too.
    Otherwise such a host weighs ``[metrics] weight_of_unavailable``, unless the ratio of the metric
    or the host's multiplier is 0. As in nova, a host that reports a metric only per NUMA node
    (``numa_membw_values``) always fails the request, because the metric has no single value.

    The multiplier is ``[metrics] weight_multiplier``. In aggregate metadata it is
    ``metrics_weight_multiplier``.
    """

    by_host = True
    multiplier_option = ("metrics", "weight_multiplier")
    multiplier_keys = ("metrics_weight_multiplier", "metrics.weight_multiplier")

    def __init__(self) -> None:
        super().__init__()
        self._ratios = parse_weight_setting(self.settings.metrics.weight_setting)
        self._names = frozenset(name for name, _ in self._ratios)

    def concerns(self, spec_obj: RequestSpec) -> bool:
        return bool(self._ratios)

    def weigh_hosts(self, hosts: Hosts, spec_obj: RequestSpec) -> Weights:
        """Return the weighted sum of each host's metrics.

        The weight of a host that lacks a metric is ``[metrics] weight_of_unavailable``. If metrics
        are required, raises :class:`PluginFailed`, or :class:`Invalid` if overrides are the cause.
        """
        return [self._compute_weight(host) for host in hosts]

    def _compute_weight(self, host: HostState) -> float:
        measured = {metric.name: metric.value for metric in host.metrics or ()}
        if self.settings.metrics.required and not self._names <= measured.keys():
            missing = shorten_names(sorted(self._names - measured.keys()), _MAX_NAMES)
            self._fail(
                host,
                f"does not report {missing}, which [metrics] weight_setting names. "
                "Enable MetricsFilter to reject such hosts",
            )
        total = 0.0
        for name, ratio in self._ratios:
            if name in measured:
                if (value := measured[name]) is None:
                    self._fail(
                        host,
                        f"reports {name} by NUMA node only, without a single value to weigh: "
                        "remove it from [metrics] weight_setting",
                    )
                total += value * ratio
            elif ratio and self.weight_multiplier(host) != 0:
                return float(self.settings.metrics.weight_of_unavailable)
        if not isfinite(total):
            self._fail(host, "has no finite weight: reduce the ratios of [metrics] weight_setting")
        return total

    def _fail(self, host: HostState, reason: str) -> NoReturn:
        words = f"host {host.host}, node {host.nodename} {reason}"
        for group, name in _CAUSES:
            if self.settings.find_override_source(group, name) == OF_REQUEST:
                key = f"{group}.{name}"
                path = build_json_path([OF_REQUEST, key])
                raise Invalid(words, source=f"{OF_REQUEST}: {key}", json_path=path)
        # Raised in this function, so that no useless traceback is logged.
        raise PluginFailed(f"{get_class_path(type(self))} failed: {words}")
