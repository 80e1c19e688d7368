"""[scheduler]: what happens before and around the filters."""

from oslo_config import cfg

GROUP = "scheduler"

OPTIONS = (
    cfg.IntOpt(
        "max_attempts",
        default=3,
        min=1,
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
    cfg.IntOpt(
        "decision_retention",
        default=7 * 24 * 3600,
        min=0,
        help="Seconds for which decisions are kept.",
    ),
)
