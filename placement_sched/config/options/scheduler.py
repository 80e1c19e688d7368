"""[scheduler]: what happens before and around the filters."""

from oslo_config import cfg

from placement_sched.config.opts import LARGEST, LONGEST_WAIT, described, older

#: They change while the server runs, but not for one request: which scheduling policies there are,
#: and what is counted beside requests.
POLICY_OPTIONS = frozenset(
    ("scheduler", name)
    for name in ("policies", "policy_overrides", "policy_selection", "capacity_flavors")
)

SCHEDULER = described(
    cfg.StrOpt("driver", default="filter_scheduler", mutable=True, **older("scheduler_driver")),
    "How hosts are chosen: filter_scheduler, caching_scheduler or chance_scheduler, or a dotted "
    "path, of nova's drivers too.",
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
        max=LARGEST,
        mutable=True,
        **older("scheduler_max_attempts"),
    ),
    "How many hosts an instance may be tried on: alternates are at most one fewer.",
    cfg.IntOpt("max_placement_results", default=1000, min=1, max=LARGEST, mutable=True),
    "How many allocation candidates are taken into filtering and weighing.",
    cfg.ListOpt("request_filters", default=[], mutable=True),
    "Request filters in the order in which they are to run: names, or dotted paths of classes, "
    "which are added so. Those that are not named run before, in the order in which they are "
    "shipped; none is switched off by not being named. "
    "placement_sched.scheduler.request_filters.all_request_filters names all that are shipped.",
    cfg.StrOpt("json_config_location", **older("scheduler_json_config_location")),
    "Path of a JSON file of options that are read per request, as "
    '{"filter_scheduler.ram_weight_multiplier": -1.0}. They win over the configuration, but for a '
    "policy's own section, and the file is read again when it changes; while it cannot be used, "
    "the previous settings stay in effect.",
    cfg.BoolOpt("strict_extra_specs", default=False, mutable=True),
    "Refuse a request (400) for an extra spec resources:, trait: or group_policy of its flavor "
    "that nova logs and ignores. Otherwise it is ignored here, too, logged, and reported among "
    "the warnings of the request's funnel.",
    cfg.ListOpt("disabled_cells", default=[], mutable=True),
    "Cells, by uuid, whose hosts get no instances, as those of a cell that nova-manage cell_v2 "
    "update_cell --disable names.",
    cfg.ListOpt("policies", default=[], mutable=True),
    "Scheduling policies by name: sections of this file, each of which overrides options for its "
    "requests. Unset, every section that is not a group of options is one as soon as an "
    "aggregate's sched_policy names it.",
    cfg.ListOpt(
        "policy_overrides", default=[], mutable=True, **older("scheduler_policy_overrides")
    ),
    "The options that a scheduling policy may override. Unset: allocation ratios, and every "
    "option that is read per request.",
    cfg.ListOpt(
        "policy_selection",
        default=["hint", "availability_zone", "tenant", "extra_specs"],
        mutable=True,
        **older("scheduler_policy_selection"),
    ),
    "What a request's scheduling policy is chosen by, in this order: hint, availability_zone, "
    "tenant, extra_specs, or dotted paths of classes. The first that finds aggregates of one "
    "policy, and of no other, chooses it; where none does, the default policy applies.",
    cfg.BoolOpt("default_policy_avoids_policy_aggregates", default=False, mutable=True),
    "Keep requests under the default policy off the hosts of aggregates that have a policy. "
    "Otherwise the enabled filters alone decide.",
    cfg.IntOpt("what_if_timeout", default=10, min=1, max=LONGEST_WAIT, mutable=True),
    "Seconds that a question about a changed cloud (changes of explain and capacity, plan, "
    "rebalance) may take. On PostgreSQL and MariaDB writers of what it changes wait for it so "
    "long at most.",
    cfg.IntOpt("decision_retention", default=7 * 24 * 3600, min=0, max=LARGEST),
    "Seconds for which decisions are kept; 0 keeps them for ever.",
    cfg.FloatOpt("capacity_budget", default=5.0, min=0, max=LARGEST, mutable=True),
    "Seconds that a question about capacity may take to count its flavors, where it cannot just "
    "divide; then the answer is a lower bound. 0 is without bound. Flavors shown by /metrics have "
    "as many each.",
    cfg.ListOpt("capacity_flavors", default=[], mutable=True),
    "Flavors, by name or id, of which /metrics shows how many more instances fit, in all and in "
    "each zone; the first 50. They are counted beside the scrapes, at most once a minute.",
)
