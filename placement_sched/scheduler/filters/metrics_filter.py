# SPDX-License-Identifier: Apache-2.0
"""MetricsFilter: filter for hosts that report the weighed metrics."""

from placement_sched.config.options.scheduler import parse_weight_setting
from placement_sched.explain.advice import build_change
from placement_sched.scheduler.filters import (
    MAX_NAMES_IN_TEXT,
    BaseHostFilter,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChanges,
    list_values,
    shorten,
)


class MetricsFilter(BaseHostFilter):
    """Filter for hosts that report all metrics that are weighed.

    The metrics are in ``[metrics] weight_setting``. If it names no metric, every host passes. An
    element that is not ``name=number`` is logged and ignored. If ``[metrics] required`` is true,
    the default, MetricsWeigher fails the request on a host that lacks a metric: enable this filter
    to reject such hosts first.
    """

    def __init__(self) -> None:
        super().__init__()
        self._names = tuple(dict(parse_weight_setting(self.settings.metrics.weight_setting)))

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        reported = {metric.name for metric in host_state.metrics or ()}
        missing = [name for name in self._names if name not in reported]
        if not missing:
            return None
        values = list_values("metrics", missing, MAX_NAMES_IN_TEXT)
        return Rejection(kind="missing_metrics", values=values)

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        reported = {metric.name for metric in host_state.metrics or ()}
        missing = [name for name in self._names if name not in reported]
        values = list_values("metrics", missing)
        yield build_change("report_metrics", values, names=shorten(missing))
