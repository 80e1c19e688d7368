# SPDX-License-Identifier: Apache-2.0
"""Options of [scheduler], [filter_scheduler] and [metrics]."""

from collections.abc import Iterable

from oslo_config import cfg

from placement_sched.config.settings import (
    MAX_INT,
    MAX_WAIT,
    ClampedIntOpt,
    HttpAddress,
    deprecate_in_default,
    with_help,
)
from placement_sched.config.sources import parse_ratios

#: Mutable options that cannot differ between requests, because they select the policies.
POLICY_OPTIONS = frozenset(
    ("scheduler", name) for name in ("policies", "policy_overrides", "policy_selection")
)

SCHEDULER = with_help(
    cfg.StrOpt(
        "driver",
        default="filter_scheduler",
        mutable=True,
        **deprecate_in_default("scheduler_driver"),
    ),
    "Driver that selects hosts: filter_scheduler, caching_scheduler or chance_scheduler, or a "
    "dotted path, including those of nova's drivers.",
    ClampedIntOpt(
        "max_attempts",
        default=3,
        min=1,
        lowest=1,
        mutable=True,
        **deprecate_in_default("scheduler_max_attempts"),
    ),
    "Maximum number of hosts to try for an instance, the selected host and its alternates.",
    ClampedIntOpt("max_placement_results", default=1000, min=1, lowest=1, mutable=True),
    "Maximum number of allocation candidates that are filtered and weighed.",
    cfg.ListOpt("request_filters", default=[], mutable=True),
    "Request filters in the order in which they run: names of shipped filters, or dotted paths of "
    "additional classes. Shipped filters that are not listed run before them, in their default "
    "order. A filter cannot be disabled by omitting it. "
    "placement_sched.scheduler.request_filters.all_request_filters means all shipped filters.",
    cfg.StrOpt("json_config_location", **deprecate_in_default("scheduler_json_config_location")),
    "Path of a JSON file of options that are read per request, as "
    '{"filter_scheduler.ram_weight_multiplier": -1.0}. They take precedence over the '
    "configuration, except the section of a scheduling policy. The file is read at the start and "
    "at SIGHUP. While it is invalid, the previous settings remain in effect.",
    cfg.BoolOpt("strict_extra_specs", default=False, mutable=True),
    "Reject a request (400) if its flavor has an invalid extra spec resources:, trait: or "
    "group_policy, which nova logs and ignores. If false, the extra spec is logged and ignored, "
    "and also listed in the warnings of the explanation.",
    cfg.ListOpt("disabled_cells", default=[], mutable=True),
    "UUIDs of cells whose hosts get no instances, like cells disabled by nova-manage cell_v2 "
    "update_cell --disable.",
    cfg.ListOpt("policies", default=[], mutable=True),
    "Names of scheduling policies: sections of this file that override options for their requests. "
    "Unset, each section that is not an option group is a policy as soon as the metadata "
    "sched_policy of an aggregate names it.",
    cfg.ListOpt(
        "policy_overrides",
        default=[],
        mutable=True,
        **deprecate_in_default("scheduler_policy_overrides"),
    ),
    "Options that a scheduling policy may override. Unset: the allocation ratios, and all options "
    "that are read per request.",
    cfg.ListOpt(
        "policy_selection",
        default=["hint", "availability_zone", "tenant", "extra_specs"],
        mutable=True,
        **deprecate_in_default("scheduler_policy_selection"),
    ),
    "Methods that select the scheduling policy of a request, in this order: hint, "
    "availability_zone, tenant, extra_specs, or dotted paths of classes. The policy comes from the "
    "first method whose matching aggregates all have the same policy. If there is none, the "
    "default policy applies.",
    cfg.BoolOpt("default_policy_avoids_policy_aggregates", default=False, mutable=True),
    "Reject the hosts of aggregates that have a policy for requests under the default policy. "
    "If false, only the enabled filters decide.",
    cfg.IntOpt("what_if_timeout", default=10, min=1, max=MAX_WAIT, mutable=True),
    "Maximum seconds of a simulation (changes of explain and capacity, plan, rebalance). On "
    "PostgreSQL and MariaDB, writers of the rows that it changes wait at most this long.",
    cfg.IntOpt("decision_retention", default=7 * 24 * 3600, min=0, max=MAX_INT),
    "Seconds after which decisions, and runs of plans that are not running, are deleted. 0: never.",
    cfg.IntOpt("trace_retention", default=90 * 24 * 3600, min=0, max=MAX_INT),
    "Seconds after which the ends of instances, which trace export reads, are deleted. 0: never.",
    cfg.ListOpt("waiting_policies", default=[]),
    "Scheduling policies, such as default, whose requests without a valid host are evaluated again "
    "in the background, at most once a minute, until they fit. Empty: none.",
    cfg.ListOpt("waiting_webhook_urls", default=[], item_type=HttpAddress(), secret=True),
    "Addresses that receive a POST request once for each such request that would fit now. At most "
    "10 are used. Redirects are not followed, and an address has 5 seconds to answer with status "
    "2xx.",
    cfg.IntOpt("waiting_max_age", default=24 * 3600, min=60, max=MAX_INT),
    "Maximum age in seconds of such a request.",
    cfg.IntOpt("waiting_webhook_attempts", default=5, min=1, max=1000),
    "Maximum number of attempts to notify the addresses of a request, at most once a minute.",
    cfg.IntOpt("workers", min=0),
    "Number of worker processes of placement-sched nova-scheduler. Unset or 0: the number of "
    "processors.",
    cfg.StrOpt("metrics_listen"),
    "Address of placement-sched nova-scheduler's /metrics for Prometheus, /healthz and "
    "/healthz/ready: ADDRESS:PORT, such as 127.0.0.1:9778, or the path of a unix socket. No token "
    "is required. Unset, they are not served.",
    cfg.IntOpt("nova_sync_interval", default=5, min=1, max=MAX_INT),
    "Seconds between two reads of the changes in nova's databases. The data that a request depends "
    "on is also read before each request.",
    cfg.IntOpt("nova_full_sync_interval", default=600, min=10, max=MAX_INT),
    "Seconds between two full comparisons with nova's databases.",
)

FILTER_SCHEDULER = with_help(
    cfg.MultiStrOpt(
        "available_filters",
        default=["placement_sched.scheduler.filters.all_filters"],
        mutable=True,
        **deprecate_in_default("scheduler_available_filters"),
    ),
    "Filter classes that may be enabled, as dotted paths (repeatable). "
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
        **deprecate_in_default("scheduler_default_filters"),
    ),
    "Host filters to run, by class name or dotted path, in this order.",
    cfg.ListOpt(
        "weight_classes",
        default=["placement_sched.scheduler.weights.all_weighers"],
        mutable=True,
        **deprecate_in_default("scheduler_weight_classes"),
    ),
    "Weighers to run, as dotted paths. nova.scheduler.weights.all_weighers also means all shipped "
    "weighers.",
    ClampedIntOpt(
        "host_subset_size",
        default=1,
        min=1,
        lowest=1,
        mutable=True,
        **deprecate_in_default("scheduler_host_subset_size"),
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
    "Multiplier of MetricsWeigher. A negative value reverses the order. The metadata "
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
    "request. Enable MetricsFilter to reject such hosts first. If false, the host gets the weight "
    "weight_of_unavailable.",
    cfg.FloatOpt("weight_of_unavailable", default=-10000.0, mutable=True),
    "Weight of a host without one of these metrics, if they are not required.",
)


def parse_weight_setting(weight_setting: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Parse ``weight_setting`` into metrics with their ratios, in order."""
    return parse_ratios("[metrics] weight_setting", weight_setting)
