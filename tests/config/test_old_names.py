# SPDX-License-Identifier: Apache-2.0
"""Configuration files of earlier nova releases: old names of options, plugins and drivers.

The names are listed in "Description of scheduler configuration options" of the OpenStack
Configuration Reference of Icehouse to Newton, in nova's "Filter Scheduler" of Stein and Train, in
its "Configuration Options" since Ocata, and in the blueprint multiple-scheduler-drivers.
"""

from pathlib import Path

import pytest

from placement_sched.config.conf import new_conf, read_files
from placement_sched.config.options import GROUPS
from placement_sched.config.options.ignored import OF_NOVA
from placement_sched.config.opts import AliasedBoolOpt
from placement_sched.config.settings import Settings
from placement_sched.operations.config_check import check_files, check_settings
from placement_sched.scheduler.plugins import list_opts, make_full_conf, plugins_for, read_settings
from placement_sched.scheduler.weights import all_weighers

pytestmark = pytest.mark.slow

FILES = Path(__file__).parent / "old_files"

FILTER = "filter_scheduler"
#: Old group and name, a value in a file, the current group and name, and the value of the option.
OLD = [
    ("DEFAULT", "scheduler_driver", "chance_scheduler", "scheduler", "driver", "chance_scheduler"),
    ("DEFAULT", "scheduler_max_attempts", "5", "scheduler", "max_attempts", 5),
    (
        "DEFAULT",
        "scheduler_policy_overrides",
        "cpu_allocation_ratio, ram_weight_multiplier",
        "scheduler",
        "policy_overrides",
        ["cpu_allocation_ratio", "ram_weight_multiplier"],
    ),
    (
        "DEFAULT",
        "scheduler_policy_selection",
        "AvailabilityZoneBasedSchedulerPolicyConfigurationSelection",
        "scheduler",
        "policy_selection",
        ["AvailabilityZoneBasedSchedulerPolicyConfigurationSelection"],
    ),
    ("DEFAULT", "scheduler_driver_task_period", "90", "scheduler", "periodic_task_interval", 90),
    ("scheduler", "driver_task_period", "90", "scheduler", "periodic_task_interval", 90),
    (
        "DEFAULT",
        "scheduler_json_config_location",
        "/etc/nova/scheduler.json",
        "scheduler",
        "json_config_location",
        "/etc/nova/scheduler.json",
    ),
    (
        "DEFAULT",
        "scheduler_policy_overrides",
        "cpu_allocation_ratio, enabled_filters",
        "scheduler",
        "policy_overrides",
        ["cpu_allocation_ratio", "enabled_filters"],
    ),
    ("DEFAULT", "scheduler_policy_selection", "hint", "scheduler", "policy_selection", ["hint"]),
    (
        "DEFAULT",
        "scheduler_available_filters",
        "nova.scheduler.filters.standard_filters",
        FILTER,
        "available_filters",
        ["nova.scheduler.filters.standard_filters"],
    ),
    (
        "DEFAULT",
        "scheduler_default_filters",
        "RamFilter, ComputeFilter",
        FILTER,
        "enabled_filters",
        ["RamFilter", "ComputeFilter"],
    ),
    (
        "DEFAULT",
        "scheduler_weight_classes",
        "nova.scheduler.weights.ram.RAMWeigher",
        FILTER,
        "weight_classes",
        ["nova.scheduler.weights.ram.RAMWeigher"],
    ),
    ("DEFAULT", "scheduler_host_subset_size", "3", FILTER, "host_subset_size", 3),
    ("DEFAULT", "ram_weight_multiplier", "-1.5", FILTER, "ram_weight_multiplier", -1.5),
    ("DEFAULT", "disk_weight_multiplier", "2", FILTER, "disk_weight_multiplier", 2.0),
    ("DEFAULT", "io_ops_weight_multiplier", "-2", FILTER, "io_ops_weight_multiplier", -2.0),
    (
        "DEFAULT",
        "soft_affinity_weight_multiplier",
        "2",
        FILTER,
        "soft_affinity_weight_multiplier",
        2.0,
    ),
    (
        "DEFAULT",
        "soft_anti_affinity_weight_multiplier",
        "2",
        FILTER,
        "soft_anti_affinity_weight_multiplier",
        2.0,
    ),
    ("DEFAULT", "max_io_ops_per_host", "6", FILTER, "max_io_ops_per_host", 6),
    ("DEFAULT", "max_instances_per_host", "40", FILTER, "max_instances_per_host", 40),
    ("DEFAULT", "isolated_images", "a, b", FILTER, "isolated_images", ["a", "b"]),
    ("DEFAULT", "isolated_hosts", "cn1, cn2", FILTER, "isolated_hosts", ["cn1", "cn2"]),
    (
        "DEFAULT",
        "restrict_isolated_hosts_to_isolated_images",
        "false",
        FILTER,
        "restrict_isolated_hosts_to_isolated_images",
        False,
    ),
    (
        "DEFAULT",
        "aggregate_image_properties_isolation_namespace",
        "isolation",
        FILTER,
        "aggregate_image_properties_isolation_namespace",
        "isolation",
    ),
    (
        "DEFAULT",
        "aggregate_image_properties_isolation_separator",
        "_",
        FILTER,
        "aggregate_image_properties_isolation_separator",
        "_",
    ),
    ("DEFAULT", "metrics_weight_setting", "a=1.0", "metrics", "weight_setting", ["a=1.0"]),
    ("metrics", "metrics_weight_setting", "a=1.0", "metrics", "weight_setting", ["a=1.0"]),
]
each_name = pytest.mark.parametrize(
    ("group", "name", "value", "new_group", "new_name", "expected"),
    OLD,
    ids=[f"[{row[0]}]{row[1]}" for row in OLD],
)
#: Names that never changed: group, name, a value in a file, and the value of the option.
UNCHANGED = [
    ("DEFAULT", "cpu_allocation_ratio", "16.0", 16.0),
    ("DEFAULT", "ram_allocation_ratio", "1.5", 1.5),
    ("DEFAULT", "disk_allocation_ratio", "1.0", 1.0),
    ("DEFAULT", "initial_cpu_allocation_ratio", "16.0", 16.0),
    ("DEFAULT", "default_availability_zone", "site1", "site1"),
    ("DEFAULT", "internal_service_availability_zone", "inside", "inside"),
    ("DEFAULT", "service_down_time", "90", 90),
    ("scheduler", "max_placement_results", "500", 500),
    ("scheduler", "limit_tenants_to_placement_aggregate", "true", True),
    ("scheduler", "placement_aggregate_required_for_tenants", "true", True),
    ("scheduler", "enable_isolated_aggregate_filtering", "true", True),
    (FILTER, "shuffle_best_same_weighed_hosts", "true", True),
    (FILTER, "cpu_weight_multiplier", "-1.0", -1.0),
    (FILTER, "build_failure_weight_multiplier", "0", 0.0),
    (FILTER, "cross_cell_move_weight_multiplier", "0", 0.0),
    (FILTER, "image_properties_default_architecture", "x86_64", "x86_64"),
    ("metrics", "weight_multiplier", "2.0", 2.0),
    ("metrics", "required", "false", False),
    ("metrics", "weight_of_unavailable", "-5.0", -5.0),
]


def write_option(tmp_path: Path, group: str, name: str, value: str) -> str:
    file = tmp_path / "nova.conf"
    file.write_text(f"[{group}]\n{name} = {value}\n")
    return str(file)


def read_settings_file(file: str) -> Settings:
    return Settings.from_conf(read_files(make_full_conf(), [file]))


@each_name
def test_old_name_sets_the_current_option(
    tmp_path, group, name, value, new_group, new_name, expected
):
    settings = read_settings_file(write_option(tmp_path, group, name, value))
    assert getattr(getattr(settings, new_group), new_name) == expected


@each_name
def test_old_name_is_reported_with_line_and_current_name(
    tmp_path, group, name, value, new_group, new_name, expected
):
    file = write_option(tmp_path, group, name, value)
    (problem,) = check_files([file], {}, make_full_conf())
    assert str(problem) == (
        f"{file}:2: warning: [{group}] {name} is a deprecated name of [{new_group}] {new_name}"
    )


@each_name
def test_old_name_works_in_overrides(group, name, value, new_group, new_name, expected):
    settings = Settings.from_conf(make_full_conf()).with_overrides({f"{group}.{name}": value})
    assert getattr(getattr(settings, new_group), new_name) == expected


def test_table_has_every_older_option_name():
    listings = (
        *((group, GROUPS[group]) for group in ("scheduler", "filter_scheduler", "metrics")),
        *list_opts(),
    )
    declared = {
        (old.group or group, old.name or option.dest)
        for group, options in listings
        for option in options
        if not isinstance(option, AliasedBoolOpt)
        for old in option.deprecated_opts
    }
    assert declared == {(group, name) for group, name, *_ in OLD}


@pytest.mark.parametrize(
    ("group", "name", "value", "expected"), UNCHANGED, ids=[f"[{g}]{n}" for g, n, *_ in UNCHANGED]
)
def test_unchanged_name_is_accepted_silently(tmp_path, group, name, value, expected):
    file = write_option(tmp_path, group, name, value)
    assert check_files([file], {}, make_full_conf()) == []
    assert getattr(getattr(read_settings_file(file), group), name) == expected


def test_current_name_overrides_the_old_name(tmp_path):
    file = tmp_path / "nova.conf"
    file.write_text(
        "[DEFAULT]\nscheduler_host_subset_size = 3\n[filter_scheduler]\nhost_subset_size = 2\n"
    )
    assert read_settings_file(str(file)).filter_scheduler.host_subset_size == 2


def test_old_name_of_a_multi_option_can_be_repeated(tmp_path):
    file = tmp_path / "nova.conf"
    paths = ["nova.scheduler.filters.standard_filters", "acme.filters.AcmeFilter"]
    file.write_text(
        "[DEFAULT]\n" + "".join(f"scheduler_available_filters = {path}\n" for path in paths)
    )
    assert read_settings_file(str(file)).filter_scheduler.available_filters == paths


# Options without an effect


@pytest.mark.parametrize(("group", "name"), OF_NOVA, ids=str)
def test_ignored_option_is_reported_with_line_and_reason(tmp_path, group, name):
    file = write_option(tmp_path, group, name, "1")
    (problem,) = check_files([file], {}, make_full_conf())
    assert str(problem) == (
        f"{file}:2: warning: [{group}] {name} is ignored: {OF_NOVA[group, name]}"
    )


def test_no_option_is_both_supported_and_ignored():
    known = {
        (group, name)
        for conf in (new_conf(), make_full_conf())
        for group, options in conf.registered.items()
        for name in options
    }
    assert known.isdisjoint(OF_NOVA)


# Paths of plugins and drivers


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("nova.scheduler.filters.ram_filter.RamFilter", "RamFilter"),
        ("nova.scheduler.filters.core_filter.CoreFilter", "CoreFilter"),
        ("nova.scheduler.filters.disk_filter.DiskFilter", "DiskFilter"),
        ("nova.scheduler.filters.core_filter.AggregateCoreFilter", "AggregateCoreFilter"),
        ("nova.scheduler.filters.affinity_filter.GroupAffinityFilter", "GroupAffinityFilter"),
        ("nova.scheduler.filters.affinity_filter.DifferentHostFilter", "DifferentHostFilter"),
        (
            "nova.scheduler.filters.affinity_filter.SimpleCIDRAffinityFilter",
            "SimpleCIDRAffinityFilter",
        ),
        ("nova.scheduler.filters.type_filter.TypeAffinityFilter", "TypeAffinityFilter"),
        (
            "nova.scheduler.filters.type_filter.AggregateTypeAffinityFilter",
            "AggregateTypeAffinityFilter",
        ),
        (
            "nova.scheduler.filters.image_props_filter.ImagePropertiesFilter",
            "ImagePropertiesFilter",
        ),
        (
            "nova.scheduler.filters.availability_zone_filter.AvailabilityZoneFilter",
            "AvailabilityZoneFilter",
        ),
    ],
)
def test_old_filter_path_maps_to_the_current_filter(path, name):
    settings = read_settings().with_overrides({"scheduler_default_filters": [path]})
    assert [type(plugin).__name__ for plugin in plugins_for(settings).filters] == [name]


@pytest.mark.parametrize("every", ["all_filters", "standard_filters"])
def test_both_names_of_all_filters_make_them_available(every):
    overrides = {
        "scheduler_available_filters": [f"nova.scheduler.filters.{every}"],
        "scheduler_default_filters": ["RamFilter", "JsonFilter"],
    }
    filters = plugins_for(read_settings().with_overrides(overrides)).filters
    assert [type(plugin).__name__ for plugin in filters] == ["RamFilter", "JsonFilter"]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("nova.scheduler.weights.ram.RAMWeigher", ["RAMWeigher"]),
        ("nova.scheduler.weights.metrics.MetricsWeigher", ["MetricsWeigher"]),
        ("nova.scheduler.weights.io_ops.IoOpsWeigher", ["IoOpsWeigher"]),
    ],
)
def test_old_weigher_path_maps_to_the_current_weigher(path, names):
    settings = read_settings().with_overrides({"scheduler_weight_classes": [path]})
    assert [type(plugin).__name__ for plugin in plugins_for(settings).weighers] == names


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("nova.scheduler.filter_scheduler.FilterScheduler", "FilterScheduler"),
        ("nova.scheduler.FilterScheduler", "FilterScheduler"),
        ("nova.scheduler.caching_scheduler.CachingScheduler", "CachingScheduler"),
        ("nova.scheduler.chance.ChanceScheduler", "ChanceScheduler"),
        ("filter_scheduler", "FilterScheduler"),
        ("caching_scheduler", "CachingScheduler"),
        ("chance_scheduler", "ChanceScheduler"),
    ],
)
def test_old_driver_path_maps_to_the_current_driver(path, name):
    settings = read_settings().with_overrides({"scheduler_driver": path})
    assert type(plugins_for(settings).driver).__name__ == name


# Whole files


@pytest.mark.parametrize("era", ["icehouse", "stein"])
def test_configuration_with_old_names_is_valid(era, monkeypatch):
    # Releases before placement had no placement database.
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:///file.db")
    file = str(FILES / f"{era}.conf")
    conf = make_full_conf()
    problems = [*check_files([file], {}, conf), *check_settings(read_settings([file], conf))]
    assert [str(problem) for problem in problems if problem.fatal] == []


def test_icehouse_configuration_takes_effect():
    settings = read_settings([str(FILES / "icehouse.conf")], make_full_conf())
    plugins = plugins_for(settings)
    assert [type(plugin).__name__ for plugin in plugins.filters] == [
        "RetryFilter",
        "AvailabilityZoneFilter",
        "RamFilter",
        "CoreFilter",
        "ComputeFilter",
        "ComputeCapabilitiesFilter",
        "ImagePropertiesFilter",
        "IsolatedHostsFilter",
        "IoOpsFilter",
        "NumInstancesFilter",
    ]
    assert type(plugins.driver).__name__ == "FilterScheduler"
    assert [type(plugin) for plugin in plugins.weighers] == [
        kind for kind in all_weighers() if kind.is_wanted(settings)
    ]
    assert settings.filter_scheduler.ram_weight_multiplier == -1.0
    assert settings.filter_scheduler.isolated_hosts == ["cn3"]
    assert settings.filter_scheduler.max_instances_per_host == 40
    assert settings.scheduler.max_attempts == 2
    assert settings.scheduler.periodic_task_interval == 90
    assert settings.DEFAULT.cpu_allocation_ratio == 16.0
    assert settings.DEFAULT.default_availability_zone == "site1"


def test_stein_configuration_takes_effect():
    settings = read_settings([str(FILES / "stein.conf")], make_full_conf())
    plugins = plugins_for(settings)
    assert [type(plugin).__name__ for plugin in plugins.filters] == (
        settings.filter_scheduler.enabled_filters
    )
    assert settings.filter_scheduler.enabled_filters[-1] == "JsonFilter"
    assert settings.filter_scheduler.ram_weight_multiplier == -2.0
    assert settings.scheduler.max_placement_results == 500
    assert settings.scheduler.periodic_task_interval == 30
    assert settings.metrics.weight_setting == ["cpu.percent=-1.0"]
    assert settings.DEFAULT.initial_cpu_allocation_ratio == 16.0
