"""Options of nova's filter scheduler that this release does not use: their plugins are not in it.

``config validate`` tells so, and their names are not taken for misspelt ones of ours. An option
that is registered here is used, whether or not it is named below. Source: nova's "Configuration
Options", Stein to today.
"""

_FILTER_SCHEDULER = """
    build_failure_weight_multiplier cross_cell_move_weight_multiplier
    hypervisor_version_weight_multiplier
    io_ops_weight_multiplier num_instances_weight_multiplier
    soft_affinity_weight_multiplier
    soft_anti_affinity_weight_multiplier
"""
_SCHEDULER = """
    image_metadata_prefilter
    limit_tenants_to_placement_aggregate placement_aggregate_required_for_tenants
    query_placement_for_image_type_support
"""

#: Group and option.
NOT_YET: frozenset[tuple[str, str]] = frozenset(
    (group, option)
    for group, options in (
        ("filter_scheduler", _FILTER_SCHEDULER),
        ("scheduler", _SCHEDULER),
    )
    for option in options.split()
)
