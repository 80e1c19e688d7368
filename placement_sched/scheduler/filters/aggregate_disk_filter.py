"""AggregateDiskFilter: DiskFilter by a ratio that aggregates set."""

from placement_sched.scheduler.filters.disk_filter import DiskFilter
from placement_sched.scheduler.filters.room import aggregate_ratio
from placement_sched.scheduler.host_state import HostState


class AggregateDiskFilter(DiskFilter):
    """Lets hosts pass that have enough disk left by the ratio of their aggregates.

    The ratio is ``disk_allocation_ratio`` in the metadata of an aggregate; of several the smallest
    counts. Where none of the host's aggregates has one, or one is no number, which is logged, it
    is the ratio that DiskFilter goes by. All else is as there.

    The ratio can only narrow: what a host's inventory does not have, placement does not offer. So
    give hosts the largest ratio that is meant, and aggregates the smaller ones. nova had this
    filter from Juno until Ussuri.
    """

    def allocation_ratio(self, host_state: HostState) -> float:
        """Return the smallest ratio of the aggregates, or the host's own."""
        own = super().allocation_ratio(host_state)
        return aggregate_ratio(host_state, "disk_allocation_ratio", own)
