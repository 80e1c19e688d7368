"""NumInstancesFilter and AggregateNumInstancesFilter: only hosts with few enough instances."""

from collections.abc import Iterable

from oslo_config import cfg

from placement_sched.scheduler.filters import (
    BaseHostFilter,
    HostState,
    Refusal,
    Remedy,
    RequestSpec,
)
from placement_sched.scheduler.filters.room import smallest_of_aggregates
from placement_sched.scheduler.plugin import in_group


class NumInstancesFilter(BaseHostFilter):
    """Lets hosts pass that have fewer instances than a maximum.

    What counts is what the host reports (``num_instances`` of its ``stats``), and earlier
    instances of the same request. The maximum is ``[filter_scheduler] max_instances_per_host``; a
    host that has reached it is rejected.
    """

    options = in_group(
        "filter_scheduler",
        cfg.IntOpt("max_instances_per_host", default=50, min=1, deprecated_group="DEFAULT"),
        "How many instances a host may have, for NumInstancesFilter and "
        "AggregateNumInstancesFilter.",
    )

    def maximum(self, host_state: HostState) -> int:
        """Return how many instances the host may have."""
        return int(self.settings.filter_scheduler.max_instances_per_host)

    def refusal(self, host_state: HostState, spec_obj: RequestSpec) -> Refusal | None:
        """Return how many instances there are, and the maximum."""
        there, most = host_state.num_instances, self.maximum(host_state)
        if there < most:
            return None
        return Refusal(f"{there} instances there, the maximum is {most}", most, there)

    def changes(self, host_state: HostState, spec_obj: RequestSpec) -> Iterable[Remedy]:
        """Return how many instances are too many, and what the maximum would have to be."""
        there, most = host_state.num_instances, self.maximum(host_state)
        if most:
            fewer = there - most + 1
            words = f"wait for, or move away, {fewer} of the instances"
            after = {"num_instances": most - 1}
            yield Remedy("remove_instances", words, {"instances": fewer}, host=after)
        words = f"raise max_instances_per_host to {there + 1}"
        yield Remedy(
            "raise_option", words, {"option": "max_instances_per_host", "value": there + 1}
        )


class AggregateNumInstancesFilter(NumInstancesFilter):
    """Lets hosts pass that have fewer instances than their aggregates allow.

    The maximum is ``max_instances_per_host`` in the metadata of an aggregate; of several the
    smallest counts. Where no aggregate of the host has one, or one is not a whole number (which
    is logged), it is ``[filter_scheduler] max_instances_per_host``. All else is as for
    NumInstancesFilter.
    """

    def maximum(self, host_state: HostState) -> int:
        """Return the smallest maximum of the aggregates, or that of the options."""
        configured = super().maximum(host_state)
        return smallest_of_aggregates(host_state, "max_instances_per_host", int, configured)
