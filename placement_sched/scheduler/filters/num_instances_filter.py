# SPDX-License-Identifier: Apache-2.0
"""NumInstancesFilter and AggregateNumInstancesFilter: instance limits."""

from oslo_config import cfg

from placement_sched.scheduler.filters import MaximumFilter
from placement_sched.scheduler.plugin import build_group_options


class NumInstancesFilter(MaximumFilter):
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


class AggregateNumInstancesFilter(NumInstancesFilter):
    """Filter like NumInstancesFilter, but with a maximum from aggregates.

    The maximum is ``max_instances_per_host`` in the metadata of an aggregate. Of several values,
    the smallest applies. If no aggregate of the host has a value, or a value is not an integer
    (which is logged), ``[filter_scheduler] max_instances_per_host`` applies.
    """

    uses_aggregates = True
