# SPDX-License-Identifier: Apache-2.0
"""NumInstancesFilter and AggregateNumInstancesFilter: filters by number of instances."""

from oslo_config import cfg

from placement_sched.scheduler.filters import BaseHostFilter
from placement_sched.scheduler.filters.host_capacity import (
    InstanceMaximum,
    InstanceMaximumOfAggregates,
)
from placement_sched.scheduler.plugin import options_in_group


class NumInstancesFilter(InstanceMaximum, BaseHostFilter):
    """Filter for hosts below a maximum of instances.

    The host reports its number of instances (``num_instances`` of its ``stats``), and earlier
    instances of the same request are added. The maximum is ``[filter_scheduler]
    max_instances_per_host``. A host at the maximum is rejected.
    """

    options = options_in_group(
        "filter_scheduler",
        cfg.IntOpt("max_instances_per_host", default=50, min=1, deprecated_group="DEFAULT"),
        "Maximum number of instances on a host, for NumInstancesFilter and "
        "AggregateNumInstancesFilter.",
    )

    maximum_option = "max_instances_per_host"
    counted = "num_instances"
    texts = ("there", "")


class AggregateNumInstancesFilter(InstanceMaximumOfAggregates, NumInstancesFilter):
    """Filter as NumInstancesFilter, with the maximum of the host's aggregates.

    The maximum is ``max_instances_per_host`` in the metadata of an aggregate. Of several values,
    the smallest applies. If no aggregate of the host has a value, or a value is not an integer
    (which is logged), ``[filter_scheduler] max_instances_per_host`` applies.
    """
