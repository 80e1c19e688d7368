"""Every option of the core by group, for registration, the sample and the documentation.

Options of filters, weighers and request filters stand beside those plugins and are added by
``placement_sched.scheduler.loading``.
"""

from oslo_config import cfg

from placement_sched.config import (
    api,
    default,
    filter_scheduler,
    metrics,
    neutron,
    notifications,
    pci,
    placement,
    placement_database,
    scheduler,
    trusted_computing,
    workarounds,
)

GROUPS = (
    default,
    api,
    placement_database,
    placement,
    scheduler,
    filter_scheduler,
    metrics,
    neutron,
    notifications,
    pci,
    trusted_computing,
    workarounds,
)


#: The options of the core that are read anew for each request, so that one may be answered under
#: others. What the rest set up stands while the server runs.
PER_REQUEST = frozenset(
    {
        ("DEFAULT", "default_availability_zone"),
        ("DEFAULT", "service_down_time"),
        ("pci", "alias"),
        ("placement", "allocation_candidates_budget"),
        ("placement", "allocation_candidates_generation_strategy"),
        ("placement", "max_allocation_candidates"),
        ("placement", "max_member_of"),
        ("placement", "max_request_groups"),
        ("placement", "randomize_allocation_candidates"),
        ("scheduler", "default_policy_avoids_policy_aggregates"),
        ("scheduler", "disabled_cells"),
        ("scheduler", "driver"),
        ("scheduler", "max_attempts"),
        ("scheduler", "max_placement_results"),
        ("scheduler", "request_filters"),
        ("scheduler", "strict_extra_specs"),
        ("workarounds", "disable_fallback_pcpu_query"),
        *(("filter_scheduler", option.dest) for option in filter_scheduler.OPTIONS),
        *(("metrics", option.dest) for option in metrics.OPTIONS),
    }
)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``(group name, options)`` pairs, as ``oslo.config.opts`` entry points give them."""
    return [(module.GROUP, list(module.OPTIONS)) for module in GROUPS]
