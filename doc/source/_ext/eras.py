# SPDX-License-Identifier: Apache-2.0
"""``era-*``: plugins and options of nova's releases, and their counterparts here.

The counterparts come from the code. The names in nova are below, for Icehouse (2014.1), Stein (19),
Train (20) and nova 34. ``tests/coexistence/test_nova_34_tables.py`` compares the last column with
nova 34. Sources: "Description of scheduler configuration options" of the OpenStack
Configuration Reference, nova's "Filter Scheduler" of Stein and Train, its "Configuration Options"
and its release notes.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from generated import Generated, older_names, table
from oslo_config import cfg
from sphinx.application import Sphinx

from placement_sched.config.options import GROUPS
from placement_sched.scheduler.drivers import all_drivers
from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.plugins import list_opts
from placement_sched.scheduler.weights import all_weighers

ERAS = ("Icehouse", "Stein", "Train", "nova 34")

_EVER = "Icehouse Stein Train 34"
_SINCE_JUNO = "Stein Train 34"
#: Filters of nova to the releases that have them, and what is to be known of them here.
FILTERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "AggregateCoreFilter": (
            "Icehouse Stein Train",
            "removed in Victoria; enable it for ``cpu_allocation_ratio`` by aggregate",
        ),
        "AggregateDiskFilter": (
            "Stein Train",
            "removed in Victoria; enable it for ``disk_allocation_ratio`` by aggregate",
        ),
        "AggregateImagePropertiesIsolation": (_EVER, ""),
        "AggregateInstanceExtraSpecsFilter": (_EVER, ""),
        "AggregateIoOpsFilter": (_SINCE_JUNO, ""),
        "AggregateMultiTenancyIsolation": (_EVER, ""),
        "AggregateNumInstancesFilter": (_SINCE_JUNO, ""),
        "AggregateRamFilter": (
            "Icehouse Stein Train",
            "removed in Victoria; enable it for ``ram_allocation_ratio`` by aggregate",
        ),
        "AggregateTypeAffinityFilter": (_EVER, ""),
        "AllHostsFilter": (_EVER, ""),
        "AvailabilityZoneFilter": (
            "Icehouse Stein Train",
            "removed in 2023.2; a request filter asks for the zone, with this filter or without",
        ),
        "ComputeCapabilitiesFilter": (_EVER, ""),
        "ComputeFilter": (_EVER, ""),
        "CoreFilter": ("Icehouse Stein", "removed in Train; enable it to have it"),
        "DifferentHostFilter": (_EVER, ""),
        "DiskFilter": ("Icehouse Stein", "removed in Train; enable it to have it"),
        "GroupAffinityFilter": (
            "Icehouse",
            "a name of ServerGroupAffinityFilter; groups made by a hint alone are not known",
        ),
        "GroupAntiAffinityFilter": (
            "Icehouse",
            "a name of ServerGroupAntiAffinityFilter; groups made by a hint alone are not known",
        ),
        "ImagePropertiesFilter": (_EVER, ""),
        "IoOpsFilter": (_EVER, ""),
        "IsolatedHostsFilter": (_EVER, ""),
        "JsonFilter": (_EVER, ""),
        "MetricsFilter": (_EVER, ""),
        "NUMATopologyFilter": (_SINCE_JUNO, ""),
        "NumInstancesFilter": (_EVER, ""),
        "PciPassthroughFilter": (_EVER, ""),
        "RamFilter": ("Icehouse Stein", "removed in Train; enable it to have it"),
        "RetryFilter": (
            "Icehouse Stein Train",
            "removed in Victoria; who asks again names in ``retry`` what was tried",
        ),
        "SameHostFilter": (_EVER, ""),
        "ServerGroupAffinityFilter": (_EVER, ""),
        "ServerGroupAntiAffinityFilter": (_EVER, ""),
        "SimpleCIDRAffinityFilter": (_EVER, ""),
        "TrustedFilter": ("Icehouse", "removed in Queens"),
        "TypeAffinityFilter": ("Icehouse", "removed in Queens; enable it to have it"),
    }
)
WEIGHERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "BuildFailureWeigher": (_SINCE_JUNO, "multiplier 0 to do without, as before Queens"),
        "CPUWeigher": (_SINCE_JUNO, "multiplier 0 to do without, as before Rocky"),
        "CrossCellWeigher": ("Train 34", "multiplier 0 to do without, as before Train"),
        "DiskWeigher": (_SINCE_JUNO, "multiplier 0 to do without, as before Mitaka"),
        "HypervisorVersionWeigher": ("34", "multiplier 0 to do without, as before 2023.2"),
        "ImagePropertiesWeigher": ("34", ""),
        "IoOpsWeigher": (_SINCE_JUNO, "multiplier 0 to do without, as before Juno"),
        "MetricsWeigher": (_EVER, ""),
        "NumInstancesWeigher": ("34", "does not count by default"),
        "PCIWeigher": (_SINCE_JUNO, ""),
        "RAMWeigher": (_EVER, ""),
        "ServerGroupSoftAffinityWeigher": (_SINCE_JUNO, "needed for groups of this policy"),
        "ServerGroupSoftAntiAffinityWeigher": (_SINCE_JUNO, "needed for groups of this policy"),
    }
)
DRIVERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "CachingScheduler": ("Icehouse", "removed in Stein; claims all the same here"),
        "ChanceScheduler": ("Icehouse", "removed in Stein; claims all the same here"),
        "FilterScheduler": (_EVER, "the only one there is, from Xena on"),
    }
)
_FAMILIES = {
    "filters": (FILTERS, all_filters),
    "weighers": (WEIGHERS, all_weighers),
    "drivers": (DRIVERS, all_drivers),
}

_FIRST_FILTERS = (
    "RetryFilter, AvailabilityZoneFilter, RamFilter, ComputeFilter, ComputeCapabilitiesFilter, "
    "ImagePropertiesFilter, ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter"
)
_ZONED_FILTERS = (
    "ComputeFilter, AvailabilityZoneFilter, ComputeCapabilitiesFilter, ImagePropertiesFilter, "
    "ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter"
)
_TODAY_FILTERS = (
    "ComputeFilter, ComputeCapabilitiesFilter, ImagePropertiesFilter, "
    "ServerGroupAntiAffinityFilter, ServerGroupAffinityFilter"
)
_ENABLED = ("filter_scheduler", "enabled_filters")
#: Shown apart from the other options: their values are long.
_NAMING_CLASSES = {
    _ENABLED,
    ("filter_scheduler", "available_filters"),
    ("filter_scheduler", "weight_classes"),
}
#: If a release had no such option.
NONE = "—"
UNSET = "unset"
_EACH = 4


def _ever(value: str) -> tuple[str, ...]:
    return (value,) * _EACH


def _since_juno(value: str) -> tuple[str, ...]:
    return (NONE, value, value, value)


#: Options of scheduling to their defaults in the four releases; those that are not here are not
#: shown.
DEFAULTS: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType(
    {
        ("DEFAULT", "cpu_allocation_ratio"): ("16.0", UNSET, UNSET, UNSET),
        ("DEFAULT", "ram_allocation_ratio"): ("1.5", UNSET, UNSET, UNSET),
        ("DEFAULT", "disk_allocation_ratio"): ("1.0", UNSET, UNSET, UNSET),
        ("DEFAULT", "initial_cpu_allocation_ratio"): (NONE, "16.0", "16.0", "4.0"),
        ("DEFAULT", "initial_ram_allocation_ratio"): (NONE, "1.5", "1.5", "1.0"),
        ("DEFAULT", "initial_disk_allocation_ratio"): (NONE, "1.0", "1.0", "1.0"),
        ("DEFAULT", "default_availability_zone"): _ever("nova"),
        ("DEFAULT", "internal_service_availability_zone"): _ever("internal"),
        ("DEFAULT", "graceful_shutdown_timeout"): (NONE, "60", "60", "180"),
        ("DEFAULT", "report_interval"): _ever("10"),
        ("DEFAULT", "service_down_time"): _ever("60"),
        ("scheduler", "driver"): ("filter_scheduler", "filter_scheduler", "filter_scheduler", NONE),
        ("scheduler", "periodic_task_interval"): ("60", "60", "60", NONE),
        ("scheduler", "max_attempts"): _ever("3"),
        ("scheduler", "workers"): _since_juno(UNSET),
        ("scheduler", "max_placement_results"): _since_juno("1000"),
        ("scheduler", "json_config_location"): (UNSET, NONE, NONE, NONE),
        ("scheduler", "limit_tenants_to_placement_aggregate"): _since_juno("False"),
        ("scheduler", "placement_aggregate_required_for_tenants"): _since_juno("False"),
        ("scheduler", "query_placement_for_image_type_support"): (NONE, NONE, "False", "False"),
        ("scheduler", "enable_isolated_aggregate_filtering"): (NONE, NONE, "False", "False"),
        ("scheduler", "query_placement_for_routed_network_aggregates"): (NONE, NONE, NONE, "False"),
        ("scheduler", "image_metadata_prefilter"): (NONE, NONE, NONE, "False"),
        ("filter_scheduler", "available_filters"): _ever("nova.scheduler.filters.all_filters"),
        ("filter_scheduler", "enabled_filters"): (
            _FIRST_FILTERS,
            _ZONED_FILTERS,
            _ZONED_FILTERS,
            _TODAY_FILTERS,
        ),
        ("filter_scheduler", "weight_classes"): _ever("nova.scheduler.weights.all_weighers"),
        ("filter_scheduler", "host_subset_size"): _ever("1"),
        ("filter_scheduler", "shuffle_best_same_weighed_hosts"): _since_juno("False"),
        ("filter_scheduler", "pci_in_placement"): (NONE, NONE, NONE, "False"),
        ("filter_scheduler", "max_io_ops_per_host"): _ever("8"),
        ("filter_scheduler", "max_instances_per_host"): _ever("50"),
        ("filter_scheduler", "image_properties_default_architecture"): _since_juno(UNSET),
        ("filter_scheduler", "isolated_images"): _ever("empty"),
        ("filter_scheduler", "isolated_hosts"): _ever("empty"),
        ("filter_scheduler", "restrict_isolated_hosts_to_isolated_images"): _ever("True"),
        ("filter_scheduler", "aggregate_image_properties_isolation_namespace"): _ever(UNSET),
        ("filter_scheduler", "aggregate_image_properties_isolation_separator"): _ever("."),
        ("filter_scheduler", "ram_weight_multiplier"): _ever("1.0"),
        ("filter_scheduler", "cpu_weight_multiplier"): _since_juno("1.0"),
        ("filter_scheduler", "disk_weight_multiplier"): _since_juno("1.0"),
        ("filter_scheduler", "io_ops_weight_multiplier"): _since_juno("-1.0"),
        ("filter_scheduler", "soft_affinity_weight_multiplier"): _since_juno("1.0"),
        ("filter_scheduler", "soft_anti_affinity_weight_multiplier"): _since_juno("1.0"),
        ("filter_scheduler", "build_failure_weight_multiplier"): _since_juno("1000000.0"),
        ("filter_scheduler", "cross_cell_move_weight_multiplier"): (
            NONE,
            NONE,
            "1000000.0",
            "1000000.0",
        ),
        ("filter_scheduler", "hypervisor_version_weight_multiplier"): (NONE, NONE, NONE, "1.0"),
        ("filter_scheduler", "num_instances_weight_multiplier"): (NONE, NONE, NONE, "0.0"),
        ("filter_scheduler", "image_props_weight_multiplier"): (NONE, NONE, NONE, "0.0"),
        ("filter_scheduler", "image_props_weight_setting"): (NONE, NONE, NONE, "empty"),
        ("filter_scheduler", "pci_weight_multiplier"): _since_juno("1.0"),
        ("metrics", "weight_multiplier"): _ever("1.0"),
        ("metrics", "weight_setting"): _ever("empty"),
        ("metrics", "required"): _ever("True"),
        ("metrics", "weight_of_unavailable"): _ever("-10000.0"),
    }
)


def options_here() -> Iterator[tuple[str, cfg.Opt]]:
    """Yield group and option of each option that affects scheduling, sorted by group."""
    for name in ("DEFAULT", "scheduler", "filter_scheduler", "metrics"):
        yield from ((name, option) for option in GROUPS[name])
        for group, options in list_opts():
            if group == name:
                yield from ((group, option) for option in options)


def shown(value: Any) -> str:
    """Return a default as the tables show it."""
    if value is None:
        return UNSET
    if isinstance(value, list):
        return ", ".join(value) or "empty"
    return str(value)


class EraNames(Generated):
    """The options of scheduling that have other names, most of them older."""

    def lines(self) -> Iterator[str]:
        """Yield a table."""
        rows = (
            (f"``[{group}] {option.dest}``", ", ".join(f"``{name}``" for name in older))
            for group, option in options_here()
            if (older := list(older_names(group, option)))
        )
        yield from table(("Option", "Other names"), rows)


class EraDefaults(Generated):
    """The options of scheduling whose defaults differ, then and here."""

    def lines(self) -> Iterator[str]:
        """Yield a table."""
        rows = (
            (f"``[{group}] {option.dest}``", *then, shown(option.default))
            for group, option in options_here()
            if (then := DEFAULTS.get((group, option.dest), (NONE,) * _EACH))
            and (group, option.dest) not in _NAMING_CLASSES
            and set(then) != {shown(option.default)}
        )
        yield from table(("Option", *ERAS, "Here"), rows)


class EraFilters(Generated):
    """The filters that ran by default in each era."""

    def lines(self) -> Iterator[str]:
        """Yield a list."""
        for era, filters in zip(ERAS, DEFAULTS[_ENABLED], strict=True):
            yield from (f"{era}", f"    ``{filters}``")
        yield ""


class EraPlugins(Generated):
    """The filters, weighers or drivers that nova had in these eras, and those that are here."""

    required_arguments = 1

    def lines(self) -> Iterator[str]:
        """Yield a table."""
        known, shipped = _FAMILIES[self.arguments[0]]
        here = {kind.__name__ for kind in shipped()}
        rows = (
            (
                name,
                *("yes" if era.split()[-1] in eras.split() else NONE for era in ERAS),
                "yes" if name in here else "not in this release",
                note,
            )
            for name, (eras, note) in known.items()
        )
        ours = ((name, *(NONE,) * _EACH, "yes", "") for name in sorted(here - known.keys()))
        yield from table(("Class", *ERAS, "Here", "To be known"), (*rows, *ours))


def setup(app: Sphinx) -> dict[str, Any]:
    """Make the directives known to Sphinx."""
    app.add_directive("era-names", EraNames)
    app.add_directive("era-defaults", EraDefaults)
    app.add_directive("era-filters", EraFilters)
    app.add_directive("era-plugins", EraPlugins)
    return {"parallel_read_safe": True}
