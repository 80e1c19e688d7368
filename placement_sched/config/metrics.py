"""[metrics]: which measured figures of hosts count, for MetricsWeigher and MetricsFilter."""

from collections.abc import Iterable

from oslo_config import cfg

from placement_sched.config.named_ratios import named_ratios

GROUP = "metrics"

OPTIONS = (
    cfg.FloatOpt(
        "weight_multiplier",
        default=1.0,
        help="How much hosts' metrics count; negative turns the order round. Metadata "
        "metrics_weight_multiplier of a host's aggregates override it.",
    ),
    cfg.ListOpt(
        "weight_setting",
        default=[],
        deprecated_opts=[
            # Written so in nova's "Filter Scheduler" up to Train.
            cfg.DeprecatedOpt("metrics_weight_setting"),
            cfg.DeprecatedOpt("metrics_weight_setting", group="DEFAULT"),
        ],
        help="The metrics that count and by how much, as name=ratio, such as "
        "cpu.percent=-1.0,numa.membw.current=0.5.",
    ),
    cfg.BoolOpt(
        "required",
        default=True,
        help="Whether a host that lacks one of these metrics fails the request when it is weighed, "
        "so that MetricsFilter should leave it out before. Otherwise weight_of_unavailable is its "
        "weight.",
    ),
    cfg.FloatOpt(
        "weight_of_unavailable",
        default=-10000.0,
        help="The weight of a host that lacks one of these metrics, where they are not required.",
    ),
)


def ratios(weight_setting: Iterable[str]) -> tuple[tuple[str, float], ...]:
    """Return each metric that ``weight_setting`` names with its ratio, in the order written."""
    return named_ratios("[metrics] weight_setting", weight_setting)
