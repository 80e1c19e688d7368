"""AggregateNumInstancesFilter: NumInstancesFilter by a maximum that aggregates set."""

from placement_sched.scheduler.filters.aggregate_numbers import smallest_of_aggregates
from placement_sched.scheduler.filters.num_instances_filter import NumInstancesFilter
from placement_sched.scheduler.host_state import HostState


class AggregateNumInstancesFilter(NumInstancesFilter):
    """Lets hosts pass that have fewer instances than their aggregates allow.

    The maximum is ``max_instances_per_host`` in the metadata of an aggregate; of several the
    smallest counts. Where none of the host's aggregates has one, or one is no whole number, which
    is logged, it is ``[filter_scheduler] max_instances_per_host``. All else is as for
    NumInstancesFilter.
    """

    def maximum(self, host_state: HostState) -> int:
        """Return the smallest maximum of the aggregates, or that of the options."""
        configured = super().maximum(host_state)
        return smallest_of_aggregates(host_state, "max_instances_per_host", int, configured)
