# SPDX-License-Identifier: Apache-2.0
"""IoOpsFilter and AggregateIoOpsFilter: filters by disk operations."""

from oslo_config import cfg

from placement_sched.scheduler.filters import MaximumFilter
from placement_sched.scheduler.plugin import build_group_options


class IoOpsFilter(MaximumFilter):
    """Filter for hosts below a maximum of disk-intensive operations.

    Instances count while they are built, resized, rescued, migrated, snapshotted or unshelved, as
    the host reports them (``io_workload`` of its ``stats``). Earlier instances of the same request
    count too. The maximum is ``[filter_scheduler] max_io_ops_per_host``. A host at the maximum is
    rejected.
    """

    options = build_group_options(
        "filter_scheduler",
        cfg.IntOpt("max_io_ops_per_host", default=8, min=0, deprecated_group="DEFAULT"),
        "Maximum number of instances that are built, resized, rescued, migrated, snapshotted or "
        "unshelved at once on a host, for IoOpsFilter and AggregateIoOpsFilter.",
    )

    maximum_option = "max_io_ops_per_host"
    counted = "num_io_ops"
    kind = "max_io_ops"


class AggregateIoOpsFilter(IoOpsFilter):
    """Filter like IoOpsFilter, but with a maximum from aggregates.

    The maximum is ``max_io_ops_per_host`` in the metadata of an aggregate, by the rules of
    AggregateNumInstancesFilter.
    """

    uses_aggregates = True
