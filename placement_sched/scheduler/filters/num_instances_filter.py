# SPDX-License-Identifier: Apache-2.0
"""NumInstancesFilter and AggregateNumInstancesFilter: instance limits."""

from typing import Any, ClassVar

from oslo_config import cfg

from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Rejection,
    RequestSpec,
    SuggestedChange,
    SuggestedChanges,
    find_aggregate_minimum,
)
from placement_sched.scheduler.filters.utils import aggregate_values_from_key
from placement_sched.scheduler.plugin import build_group_options


class InstanceMaximum:
    """Mixin of host filters that reject hosts at a maximum of instances.

    ``maximum_option`` is an option of ``[filter_scheduler]``, ``counted`` an attribute of host
    states. ``kind`` is the kind of the rejections, and ``counted_words`` follow "the instances" in
    a suggested change.
    """

    maximum_option: ClassVar[str]
    counted: ClassVar[str]
    kind: ClassVar[str]
    counted_words: ClassVar[str] = ""
    settings: Any

    def get_maximum(self, host_state: HostState) -> int:
        """Return the maximum number of instances on a host."""
        return int(getattr(self.settings.filter_scheduler, self.maximum_option))

    def rejection(self, host_state: HostState, spec_obj: RequestSpec) -> Rejection | None:
        count, maximum = getattr(host_state, self.counted), self.get_maximum(host_state)
        if count < maximum:
            return None
        values = {"option": self.maximum_option, "maximum": maximum}
        return Rejection(kind=self.kind, actual=count, values=values)

    def suggested_changes(self, host_state: HostState, spec_obj: RequestSpec) -> SuggestedChanges:
        count, maximum = getattr(host_state, self.counted), self.get_maximum(host_state)
        if maximum:
            surplus = count - maximum + 1
            words = f"wait for or move away {surplus} of the instances{self.counted_words}"
            after = {self.counted: maximum - 1}
            yield SuggestedChange("remove_instances", words, {"instances": surplus}, host=after)
        yield self.suggest_maximum(host_state, count + 1)

    def suggest_maximum(self, host_state: HostState, value: int) -> SuggestedChange:
        """Suggest a larger maximum."""
        words = f"raise {self.maximum_option} to {value}"
        return SuggestedChange(
            "raise_option", words, {"option": self.maximum_option, "value": value}
        )


class InstanceMaximumOfAggregates(InstanceMaximum):
    """Mixin of host filters with a maximum of instances from aggregates.

    The maximum in the metadata of the host's aggregates takes precedence over the option.
    """

    def get_maximum(self, host_state: HostState) -> int:
        """Return the smallest maximum of the host's aggregates, or the option."""
        return find_aggregate_minimum(
            host_state, self.maximum_option, int, super().get_maximum(host_state)
        )

    def suggest_maximum(self, host_state: HostState, value: int) -> SuggestedChange:
        """Suggest a larger maximum in the aggregates, or else in the option."""
        key = self.maximum_option
        if not aggregate_values_from_key(host_state, key):
            return super().suggest_maximum(host_state, value)
        words = f"raise {key} to {value} in the metadata of the host's aggregates"
        return SuggestedChange("tag_aggregate", words, {"key": key, "value": value})


class NumInstancesFilter(InstanceMaximum, BaseHostFilter):
    """Filter for hosts below a maximum of instances.

    The host reports its number of instances (``num_instances`` of its ``stats``), and earlier
    instances of the same request are added. The maximum is ``[filter_scheduler]
    max_instances_per_host``. A host at the maximum is rejected.
    """

    options = build_group_options(
        "filter_scheduler",
        cfg.IntOpt("max_instances_per_host", default=50, min=1, deprecated_group="DEFAULT"),
        "Maximum number of instances on a host, for NumInstancesFilter and "
        "AggregateNumInstancesFilter.",
    )

    maximum_option = "max_instances_per_host"
    counted = "num_instances"
    kind = "max_instances"


class AggregateNumInstancesFilter(InstanceMaximumOfAggregates, NumInstancesFilter):
    """Filter like NumInstancesFilter, but with a maximum from aggregates.

    The maximum is ``max_instances_per_host`` in the metadata of an aggregate. Of several values,
    the smallest applies. If no aggregate of the host has a value, or a value is not an integer
    (which is logged), ``[filter_scheduler] max_instances_per_host`` applies.
    """
