# SPDX-License-Identifier: Apache-2.0
"""Options of [filter_scheduler] and [metrics]."""

from collections.abc import Iterable

from oslo_config import cfg

from placement_sched.config.opts import MAX_INT, deprecated_in_default, with_help
from placement_sched.config.sources import named_ratios

FILTER_SCHEDULER = with_help(
    cfg.MultiStrOpt(
        "available_filters",
        default=["placement_sched.scheduler.filters.all_filters"],
        mutable=True,
        **deprecated_in_default("scheduler_available_filters"),
    ),
    "Filter classes that may be enabled, as dotted paths; repeatable. "
    "nova.scheduler.filters.all_filters also means all shipped filters.",
    cfg.ListOpt(
        "enabled_filters",
        default=[
            "ComputeFilter",
            "ComputeCapabilitiesFilter",
            "ImagePropertiesFilter",
            "ServerGroupAntiAffinityFilter",
            "ServerGroupAffinityFilter",
        ],
        mutable=True,
        **deprecated_in_default("scheduler_default_filters"),
    ),
    "Host filters to run, by class name or dotted path, in this order.",
    cfg.ListOpt(
        "weight_classes",
        default=["placement_sched.scheduler.weights.all_weighers"],
        mutable=True,
        **deprecated_in_default("scheduler_weight_classes"),
    ),
    "Weighers to run, as dotted paths. nova.scheduler.weights.all_weighers also means all shipped "
    "weighers.",
    cfg.IntOpt(
        "host_subset_size",
        default=1,
        min=1,
        max=MAX_INT,
        mutable=True,
        **deprecated_in_default("scheduler_host_subset_size"),
    ),
    "Number of best hosts from which a host is chosen at random, to spread concurrent requests.",
    cfg.BoolOpt("shuffle_best_same_weighed_hosts", default=False, mutable=True),
    "Shuffle hosts with the same best weight instead of sorting them by name.",
    cfg.BoolOpt("pci_in_placement", default=False, mutable=True),
    "Request the PCI devices of flavors from placement. Hosts must report their devices there. "
    "Each alias may then have a single line only, which may set a resource_class instead of ids.",
    cfg.BoolOpt("nova_shim", default=False),
    "Provide the modules of nova that filters and weighers import (nova.scheduler, nova.objects, "
    "nova.context, ...), so that plugins written for nova run unchanged. Without effect if nova is "
    "installed in the same environment.",
)

METRICS = with_help(
    cfg.FloatOpt("weight_multiplier", default=1.0, mutable=True),
    "Multiplier of MetricsWeigher; a negative value reverses the order. The metadata "
    "metrics_weight_multiplier of a host's aggregates override it.",
    cfg.ListOpt(
        "weight_setting",
        default=[],
        deprecated_opts=[
            # The name in nova's "Filter Scheduler" guide up to Train.
            cfg.DeprecatedOpt("metrics_weight_setting"),
            cfg.DeprecatedOpt("metrics_weight_setting", group="DEFAULT"),
        ],
        mutable=True,
    ),
    "The metrics to weigh, with their ratios, as name=ratio, such as "
    "cpu.percent=-1.0,numa.membw.current=0.5.",
    cfg.BoolOpt("required", default=True, mutable=True),
    "If true, a host that reaches MetricsWeigher without one of these metrics fails the whole "
    "request; enable MetricsFilter to reject such hosts first. If false, the host gets the weight "
    "weight_of_unavailable.",
    cfg.FloatOpt("weight_of_unavailable", default=-10000.0, mutable=True),
    "Weight of a host without one of these metrics, if they are not required.",
)


def ratios(weight_setting: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Parse ``weight_setting`` into metrics with their ratios, in order."""
    return named_ratios("[metrics] weight_setting", weight_setting)
