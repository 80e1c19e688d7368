"""[scheduler]: what happens before and around the filters."""

from oslo_config import cfg

GROUP = "scheduler"

OPTIONS = (
    cfg.StrOpt(
        "driver",
        default="filter_scheduler",
        deprecated_name="scheduler_driver",
        deprecated_group="DEFAULT",
        help="How hosts are chosen: filter_scheduler, caching_scheduler or chance_scheduler, or a "
        "dotted path, of nova's drivers too.",
    ),
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
        deprecated_name="scheduler_max_attempts",
        deprecated_group="DEFAULT",
        help="How many hosts an instance may be tried on: alternates are at most one fewer.",
    ),
    cfg.IntOpt(
        "max_placement_results",
        default=1000,
        min=1,
        help="How many allocation candidates are taken into filtering and weighing.",
    ),
    cfg.ListOpt(
        "request_filters",
        default=[],
        help="Request filters in the order in which they are to run: names, or dotted paths of "
        "classes, which are added so. Those that are not named run before, in the order in which "
        "they are shipped; none is switched off by not being named. "
        "placement_sched.scheduler.request_filters.all_request_filters names all that are shipped.",
    ),
    cfg.StrOpt(
        "json_config_location",
        deprecated_name="scheduler_json_config_location",
        deprecated_group="DEFAULT",
        help="Path of a JSON file of options that are read per request, as "
        '{"filter_scheduler.ram_weight_multiplier": -1.0}. They win over the configuration, but '
        "for a policy's own section, and the file is read again when it changes; while it is "
        "spoilt, what it said before stays in effect.",
    ),
    cfg.BoolOpt(
        "strict_extra_specs",
        default=False,
        help="Refuse a request (400) for an extra spec resources:, trait: or group_policy of its "
        "flavor that nova logs and ignores. Otherwise it is ignored here, too, logged, and "
        "reported among the warnings of the request's funnel.",
    ),
    cfg.ListOpt(
        "disabled_cells",
        default=[],
        help="Cells, by uuid, whose hosts get no instances, as those of a cell that "
        "nova-manage cell_v2 update_cell --disable names.",
    ),
    cfg.ListOpt(
        "policies",
        default=[],
        help="Named policies: sections of this file, each of which overrides options for the "
        "requests that it is chosen for. Unset, every section that is no group of options is one "
        "as soon as an aggregate's sched_policy names it.",
    ),
    cfg.ListOpt(
        "policy_overrides",
        default=[],
        deprecated_name="scheduler_policy_overrides",
        deprecated_group="DEFAULT",
        help="The options that a policy may override. Unset: allocation ratios, and every option "
        "that is read per request.",
    ),
    cfg.ListOpt(
        "policy_selection",
        default=["hint", "availability_zone", "tenant", "extra_specs"],
        deprecated_name="scheduler_policy_selection",
        deprecated_group="DEFAULT",
        help="What a request's policy is chosen by, in this order: hint, availability_zone, "
        "tenant, extra_specs, or dotted paths of classes. The first that finds aggregates of one "
        "policy, and of no other, chooses it; where none does, the default policy holds.",
    ),
    cfg.BoolOpt(
        "default_policy_avoids_policy_aggregates",
        default=False,
        help="Keep requests under the default policy off the hosts of aggregates that have a "
        "policy. Otherwise the enabled filters alone decide.",
    ),
    cfg.IntOpt(
        "decision_retention",
        default=7 * 24 * 3600,
        min=0,
        help="Seconds for which decisions are kept; 0 keeps them for ever.",
    ),
)
