# SPDX-License-Identifier: Apache-2.0
"""Configuration files of earlier nova releases: old names of options, plugins and drivers.

The names are listed in "Description of scheduler configuration options" of the OpenStack
Configuration Reference of Icehouse to Newton, in nova's "Filter Scheduler" of Stein and Train, in
its "Configuration Options" since Ocata, and in the blueprint multiple-scheduler-drivers.
"""

from collections.abc import Iterable
from pathlib import Path

import pytest

from placement_sched.config.conf import create_conf, read_files
from placement_sched.config.options import GROUPS
from placement_sched.config.options.ignored import OF_NOVA, WITHOUT_MEANING
from placement_sched.config.settings import AliasedBoolOpt, Settings
from placement_sched.operations.config_check import check_lines, check_settings
from placement_sched.scheduler.plugins import get_plugins, list_opts, make_full_conf, read_settings
from placement_sched.scheduler.weights import all_weighers

pytestmark = pytest.mark.slow

OLD_FILES_FOLDER = Path(__file__).parent / "old_files"

FILTER_GROUP = "filter_scheduler"
#: Old group and name, the current group and name, and a value in a file.
OLD_OPTION_NAMES = [
    ("DEFAULT", "scheduler_driver", "scheduler", "driver", "chance_scheduler"),
    ("DEFAULT", "scheduler_max_attempts", "scheduler", "max_attempts", "5"),
    ("DEFAULT", "scheduler_policy_overrides", "scheduler", "policy_overrides", "a, b"),
    ("DEFAULT", "scheduler_policy_selection", "scheduler", "policy_selection", "hint"),
    ("DEFAULT", "scheduler_driver_task_period", "scheduler", "periodic_task_interval", "90"),
    ("scheduler", "driver_task_period", "scheduler", "periodic_task_interval", "90"),
    ("DEFAULT", "scheduler_json_config_location", "scheduler", "json_config_location", "/a.json"),
    ("DEFAULT", "scheduler_available_filters", FILTER_GROUP, "available_filters", "nova.a.B"),
    ("DEFAULT", "scheduler_default_filters", FILTER_GROUP, "enabled_filters", "RamFilter, AFilter"),
    ("DEFAULT", "scheduler_weight_classes", FILTER_GROUP, "weight_classes", "nova.a.RAMWeigher"),
    ("DEFAULT", "scheduler_host_subset_size", FILTER_GROUP, "host_subset_size", "3"),
    ("DEFAULT", "metrics_weight_setting", "metrics", "weight_setting", "a=1.0"),
    ("metrics", "metrics_weight_setting", "metrics", "weight_setting", "a=1.0"),
    *(
        ("DEFAULT", name, FILTER_GROUP, name, value)
        for name, value in {
            "ram_weight_multiplier": "-1.5",
            "disk_weight_multiplier": "2",
            "io_ops_weight_multiplier": "-2",
            "soft_affinity_weight_multiplier": "2",
            "soft_anti_affinity_weight_multiplier": "2",
            "max_io_ops_per_host": "6",
            "max_instances_per_host": "40",
            "isolated_images": "a, b",
            "isolated_hosts": "cn1, cn2",
            "restrict_isolated_hosts_to_isolated_images": "false",
            "aggregate_image_properties_isolation_namespace": "isolation",
            "aggregate_image_properties_isolation_separator": "_",
        }.items()
    ),
]
#: Names that never changed: group, name, a value in a file, and the value of the option.
OPTIONS_WITH_UNCHANGED_NAMES = [
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
    (FILTER_GROUP, "shuffle_best_same_weighed_hosts", "true", True),
    (FILTER_GROUP, "cpu_weight_multiplier", "-1.0", -1.0),
    (FILTER_GROUP, "build_failure_weight_multiplier", "0", 0.0),
    (FILTER_GROUP, "cross_cell_move_weight_multiplier", "0", 0.0),
    (FILTER_GROUP, "image_properties_default_architecture", "x86_64", "x86_64"),
    ("metrics", "weight_multiplier", "2.0", 2.0),
    ("metrics", "required", "false", False),
    ("metrics", "weight_of_unavailable", "-5.0", -5.0),
]


def write_nova_conf(tmp_path: Path, options: Iterable[tuple[str, str, str]]) -> str:
    """Write a file with a section and two lines for each option: group, name and value."""
    file = tmp_path / "nova.conf"
    file.write_text("".join(f"[{group}]\n{name} = {value}\n" for group, name, value in options))
    return str(file)


def read_settings_of_file(file: str) -> Settings:
    return Settings.from_conf(read_files(make_full_conf(), [file]))


def build_expected_warnings(file: str, texts: Iterable[str]) -> list[str]:
    """Return the warnings about the options of a file, which each have two lines."""
    return [f"{file}:{2 * number}: warning: {text}" for number, text in enumerate(texts, 1)]


@pytest.mark.parametrize("is_default_group", [True, False], ids=["DEFAULT", "other groups"])
def test_old_option_names_set_the_current_options_with_a_warning(tmp_path, is_default_group):
    rows = [row for row in OLD_OPTION_NAMES if (row[0] == "DEFAULT") is is_default_group]
    file = write_nova_conf(tmp_path, [(group, name, value) for group, name, _, _, value in rows])
    settings, default = read_settings_of_file(file), Settings.from_conf(make_full_conf())
    for group, name, new_group, new_name, value in rows:
        current = default.with_overrides({f"{new_group}.{new_name}": value})
        old = default.with_overrides({f"{group}.{name}": value})
        expected = getattr(getattr(current, new_group), new_name)
        assert expected != getattr(getattr(default, new_group), new_name)
        assert getattr(getattr(settings, new_group), new_name) == expected
        assert getattr(getattr(old, new_group), new_name) == expected
    assert list(
        map(str, check_lines(read_files(make_full_conf(), [file]), {}))
    ) == build_expected_warnings(
        file,
        (
            f"[{group}] {name} is a deprecated name of [{new_group}] {new_name}"
            for group, name, new_group, new_name, _ in rows
        ),
    )


def test_table_of_old_option_names_has_every_deprecated_name():
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
    assert declared == {(group, name) for group, name, *_ in OLD_OPTION_NAMES}


def test_unchanged_option_names_are_accepted_without_warnings(tmp_path):
    file = write_nova_conf(tmp_path, [row[:3] for row in OPTIONS_WITH_UNCHANGED_NAMES])
    assert check_lines(read_files(make_full_conf(), [file]), {}) == []
    settings = read_settings_of_file(file)
    assert [getattr(getattr(settings, row[0]), row[1]) for row in OPTIONS_WITH_UNCHANGED_NAMES] == [
        row[3] for row in OPTIONS_WITH_UNCHANGED_NAMES
    ]


def test_current_option_name_overrides_the_old_name(tmp_path):
    options = (
        ("DEFAULT", "scheduler_host_subset_size", "3"),
        (FILTER_GROUP, "host_subset_size", "2"),
    )
    settings = read_settings_of_file(write_nova_conf(tmp_path, options))
    assert settings.filter_scheduler.host_subset_size == 2


def test_old_name_of_a_multi_option_can_be_repeated(tmp_path):
    paths = ["nova.scheduler.filters.standard_filters", "acme.filters.AcmeFilter"]
    options = [("DEFAULT", "scheduler_available_filters", path) for path in paths]
    settings = read_settings_of_file(write_nova_conf(tmp_path, options))
    assert settings.filter_scheduler.available_filters == paths


# Options without an effect


def test_ignored_options_are_reported_with_line_and_reason(tmp_path):
    file = write_nova_conf(tmp_path, [(*option, "1") for option in OF_NOVA])
    assert list(
        map(str, check_lines(read_files(make_full_conf(), [file]), {}))
    ) == build_expected_warnings(
        file, (f"[{group}] {name} is ignored: {why}" for (group, name), why in OF_NOVA.items())
    )


def test_no_option_is_both_supported_and_ignored():
    registered_options = {
        (group, name)
        for conf in (create_conf(), make_full_conf())
        for group, options in conf.registered.items()
        for name in options
    }
    assert registered_options.isdisjoint(WITHOUT_MEANING)


# Paths of plugins and drivers


def test_old_filter_paths_map_to_the_current_filters():
    paths = [
        "nova.scheduler.filters.ram_filter.RamFilter",
        "nova.scheduler.filters.core_filter.CoreFilter",
        "nova.scheduler.filters.disk_filter.DiskFilter",
        "nova.scheduler.filters.core_filter.AggregateCoreFilter",
        "nova.scheduler.filters.affinity_filter.GroupAffinityFilter",
        "nova.scheduler.filters.affinity_filter.DifferentHostFilter",
        "nova.scheduler.filters.affinity_filter.SimpleCIDRAffinityFilter",
        "nova.scheduler.filters.type_filter.TypeAffinityFilter",
        "nova.scheduler.filters.type_filter.AggregateTypeAffinityFilter",
        "nova.scheduler.filters.image_props_filter.ImagePropertiesFilter",
        "nova.scheduler.filters.availability_zone_filter.AvailabilityZoneFilter",
    ]
    settings = read_settings().with_overrides({"scheduler_default_filters": paths})
    names = [type(plugin).__name__ for plugin in get_plugins(settings).filters]
    assert names == [path.rpartition(".")[2] for path in paths]


@pytest.mark.parametrize("function_name", ["all_filters", "standard_filters"])
def test_all_filters_and_standard_filters_make_all_filters_available(function_name):
    overrides = {
        "scheduler_available_filters": [f"nova.scheduler.filters.{function_name}"],
        "scheduler_default_filters": ["RamFilter", "JsonFilter"],
    }
    filters = get_plugins(read_settings().with_overrides(overrides)).filters
    assert [type(plugin).__name__ for plugin in filters] == ["RamFilter", "JsonFilter"]


def test_old_weigher_paths_map_to_the_current_weighers():
    modules = {"ram": "RAMWeigher", "metrics": "MetricsWeigher", "io_ops": "IoOpsWeigher"}
    paths = [f"nova.scheduler.weights.{module}.{name}" for module, name in modules.items()]
    settings = read_settings().with_overrides({"scheduler_weight_classes": paths})
    names = [type(plugin).__name__ for plugin in get_plugins(settings).weighers]
    assert names == list(modules.values())


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
    assert type(get_plugins(settings).driver).__name__ == name


# Whole files


@pytest.mark.parametrize("era", ["icehouse", "stein"])
def test_nova_conf_with_old_option_names_is_valid(era, monkeypatch):
    # Releases before placement had no placement database.
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", "sqlite:///file.db")
    file = str(OLD_FILES_FOLDER / f"{era}.conf")
    settings = read_settings([file], make_full_conf())
    problems = [*check_lines(settings.conf, {}), *check_settings(settings)]
    assert [str(problem) for problem in problems if problem.fatal] == []


def test_icehouse_configuration_file_sets_filters_weighers_and_options():
    settings = read_settings([str(OLD_FILES_FOLDER / "icehouse.conf")], make_full_conf())
    plugins = get_plugins(settings)
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
        kind for kind in all_weighers() if kind.is_enabled_by(settings)
    ]
    assert settings.filter_scheduler.ram_weight_multiplier == -1.0
    assert settings.filter_scheduler.isolated_hosts == ["cn3"]
    assert settings.filter_scheduler.max_instances_per_host == 40
    assert settings.scheduler.max_attempts == 2
    assert settings.scheduler.periodic_task_interval == 90
    assert settings.DEFAULT.cpu_allocation_ratio == 16.0
    assert settings.DEFAULT.default_availability_zone == "site1"


def test_stein_configuration_file_sets_filters_and_options():
    settings = read_settings([str(OLD_FILES_FOLDER / "stein.conf")], make_full_conf())
    plugins = get_plugins(settings)
    assert [type(plugin).__name__ for plugin in plugins.filters] == (
        settings.filter_scheduler.enabled_filters
    )
    assert settings.filter_scheduler.enabled_filters[-1] == "JsonFilter"
    assert settings.filter_scheduler.ram_weight_multiplier == -2.0
    assert settings.scheduler.max_placement_results == 500
    assert settings.scheduler.periodic_task_interval == 30
    assert settings.metrics.weight_setting == ["cpu.percent=-1.0"]
    assert settings.DEFAULT.initial_cpu_allocation_ratio == 16.0
