# SPDX-License-Identifier: Apache-2.0
"""Finding plugins: by folder, dotted path, nova's paths and entry points."""

from importlib import import_module

import pytest

from placement_sched.config.conf import CONF, new_conf, read_files
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.scheduler import plugins as plugins_module
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.filters import BaseHostFilter, all_filters
from placement_sched.scheduler.live_settings import with_overrides
from placement_sched.scheduler.plugin import path_of, register
from placement_sched.scheduler.plugins import list_opts, make_full_conf, plugins_for, read_settings
from placement_sched.scheduler.request_filters import all_request_filters
from placement_sched.scheduler.weighing import run_weighers
from placement_sched.scheduler.weights import all_weighers
from tests.scheduler import third_party
from tests.support.states import NOW, a_host, a_spec, aggregates, settings_with

ACME = "tests.scheduler.third_party"


def filter_settings(**options):
    return settings_with(**{f"filter_scheduler__{name}": each for name, each in options.items()})


def names(plugins):
    return [type(plugin).__name__ for plugin in plugins]


# What is shipped


def test_plugins_are_found_in_their_folders():
    assert {kind.__name__ for kind in all_filters()} >= {
        "AggregateInstanceExtraSpecsFilter",
        "AllHostsFilter",
        "ComputeCapabilitiesFilter",
        "ComputeFilter",
        "ImagePropertiesFilter",
    }
    assert {kind.__name__ for kind in all_weighers()} >= {"CPUWeigher", "DiskWeigher", "RAMWeigher"}
    found = {kind.name for kind in all_request_filters()}
    assert found >= {"forbidden_aggregates", "map_az_to_placement_aggregate"}


@pytest.mark.parametrize("kind", [*all_filters(), *all_weighers(), *all_request_filters()])
def test_shipped_plugin_has_a_docstring_and_can_be_made_with_no_arguments(kind):
    assert kind.__doc__
    kind()


@pytest.mark.parametrize("kind", [*all_filters(), *all_weighers(), *all_request_filters()])
def test_every_option_of_a_plugin_has_help(kind):
    assert all(option.help for _, option in kind.options)


def test_plugins_stand_in_the_order_of_the_configuration():
    settings = filter_settings(enabled_filters=["ImagePropertiesFilter", "ComputeFilter"])
    assert names(plugins_for(settings).filters) == ["ImagePropertiesFilter", "ComputeFilter"]


def test_plugins_are_made_once_for_the_same_settings():
    settings = settings_with()
    assert plugins_for(settings) is plugins_for(settings)
    assert plugins_for(settings) is not plugins_for(settings_with())


def test_plugins_have_the_settings_and_the_clock():
    settings = settings_with()
    for plugin in plugins_for(settings, lambda: NOW).filters:
        assert plugin.settings is settings
        assert plugin.now() == NOW


# nova's paths


def test_novas_paths_mean_the_shipped_classes():
    settings = filter_settings(
        available_filters=["nova.scheduler.filters.all_filters"],
        enabled_filters=["ComputeFilter", "nova.scheduler.filters.all_hosts_filter.AllHostsFilter"],
        weight_classes=["nova.scheduler.weights.ram.RAMWeigher"],
    )
    plugins = plugins_for(settings)
    assert names(plugins.filters) == ["ComputeFilter", "AllHostsFilter"]
    assert names(plugins.weighers) == ["RAMWeigher"]


def test_path_of_a_module_that_was_merged_into_another_still_means_its_class():
    settings = filter_settings(
        enabled_filters=["placement_sched.scheduler.filters.same_host_filter.SameHostFilter"]
    )
    assert names(plugins_for(settings).filters) == ["SameHostFilter"]


#: The classes that are shipped, by the modules in which releases of nova have them.
NOVA_MODULES = {
    "filters.affinity_filter": (
        "DifferentHostFilter",
        "SameHostFilter",
        "SimpleCIDRAffinityFilter",
        "ServerGroupAffinityFilter",
        "ServerGroupAntiAffinityFilter",
        "GroupAffinityFilter",
        "GroupAntiAffinityFilter",
    ),
    "filters.aggregate_image_properties_isolation": ("AggregateImagePropertiesIsolation",),
    "filters.aggregate_instance_extra_specs": ("AggregateInstanceExtraSpecsFilter",),
    "filters.aggregate_multitenancy_isolation": ("AggregateMultiTenancyIsolation",),
    "filters.all_hosts_filter": ("AllHostsFilter",),
    "filters.availability_zone_filter": ("AvailabilityZoneFilter",),
    "filters.compute_capabilities_filter": ("ComputeCapabilitiesFilter",),
    "filters.compute_filter": ("ComputeFilter",),
    "filters.core_filter": ("CoreFilter", "AggregateCoreFilter"),
    "filters.disk_filter": ("DiskFilter", "AggregateDiskFilter"),
    "filters.image_props_filter": ("ImagePropertiesFilter",),
    "filters.io_ops_filter": ("IoOpsFilter", "AggregateIoOpsFilter"),
    "filters.isolated_hosts_filter": ("IsolatedHostsFilter",),
    "filters.json_filter": ("JsonFilter",),
    "filters.metrics_filter": ("MetricsFilter",),
    "filters.num_instances_filter": ("NumInstancesFilter", "AggregateNumInstancesFilter"),
    "filters.numa_topology_filter": ("NUMATopologyFilter",),
    "filters.pci_passthrough_filter": ("PciPassthroughFilter",),
    "filters.ram_filter": ("RamFilter", "AggregateRamFilter"),
    "filters.retry_filter": ("RetryFilter",),
    "filters.trusted_filter": ("TrustedFilter",),
    "filters.type_filter": ("TypeAffinityFilter", "AggregateTypeAffinityFilter"),
    "weights.affinity": ("ServerGroupSoftAffinityWeigher", "ServerGroupSoftAntiAffinityWeigher"),
    "weights.compute": ("BuildFailureWeigher",),
    "weights.cpu": ("CPUWeigher",),
    "weights.cross_cell": ("CrossCellWeigher",),
    "weights.disk": ("DiskWeigher",),
    "weights.hypervisor_version": ("HypervisorVersionWeigher",),
    "weights.image_props": ("ImagePropertiesWeigher",),
    "weights.io_ops": ("IoOpsWeigher",),
    "weights.metrics": ("MetricsWeigher",),
    "weights.num_instances": ("NumInstancesWeigher",),
    "weights.pci": ("PCIWeigher",),
    "weights.ram": ("RAMWeigher",),
}
NOVA_PATHS = [f"{module}.{name}" for module, some in NOVA_MODULES.items() for name in some]


@pytest.mark.parametrize("package", ["nova.scheduler", "placement_sched.scheduler"])
@pytest.mark.parametrize("path", NOVA_PATHS)
def test_every_path_of_nova_means_the_shipped_class_in_its_package_and_in_ours(package, path):
    option = "enabled_filters" if path.startswith("filters.") else "weight_classes"
    settings = filter_settings(**{option: [f"{package}.{path}"]})
    plugins = plugins_for(settings)
    found = plugins.filters if option == "enabled_filters" else plugins.weighers
    assert names(found) == [path.rpartition(".")[2]]


@pytest.mark.parametrize("path", NOVA_PATHS)
def test_plugins_of_operators_import_the_shipped_classes_by_novas_modules(path):
    """As in a plugin of nova's whose import lines say placement_sched in place of nova."""
    module, _, name = path.rpartition(".")
    assert getattr(import_module(f"placement_sched.scheduler.{module}"), name).__name__ == name


@pytest.mark.parametrize("kind", [*all_filters(), *all_weighers()])
def test_every_shipped_class_is_found_by_the_path_that_is_shown_of_it(kind):
    option = "enabled_filters" if issubclass(kind, BaseHostFilter) else "weight_classes"
    wanted = {
        f"filter_scheduler__{option}": [path_of(kind)],
        "scheduler__required_aggregates_by_trait": "prefer",  # its weigher runs only then
    }
    plugins = plugins_for(settings_with(**wanted))
    found = plugins.filters if option == "enabled_filters" else plugins.weighers
    assert names(found) == [kind.__name__]


def test_novas_single_filter_can_be_made_available():
    path = "nova.scheduler.filters.compute_filter.ComputeFilter"
    settings = filter_settings(available_filters=[path], enabled_filters=["ComputeFilter"])
    assert names(plugins_for(settings).filters) == ["ComputeFilter"]
    with pytest.raises(ConfigurationError, match="unknown filter 'AllHostsFilter'"):
        plugins_for(filter_settings(available_filters=[path], enabled_filters=["AllHostsFilter"]))


@pytest.mark.parametrize("package", ["nova.scheduler", "placement_sched.scheduler"])
def test_all_weighers_may_be_named_beside_single_ones(package):
    settings = filter_settings(
        weight_classes=[f"{package}.weights.all_weighers", f"{package}.weights.ram.RAMWeigher"]
    )
    wanted = [kind.__name__ for kind in all_weighers() if kind.is_wanted(settings)]
    assert names(plugins_for(settings).weighers) == wanted


# What is wrong


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"enabled_filters": ["ComputFilter"]},
            r"unknown filter 'ComputFilter'; did you mean 'ComputeFilter'\?",
        ),
        (
            {"enabled_filters": ["Zzz"]},
            "unknown filter 'Zzz'; the page Plugins of the documentation lists them$",
        ),
        (
            {"available_filters": ["nova.scheduler.filters.ram.RamFiltr"]},
            "there is no 'nova.scheduler.filters.ram.RamFiltr' here",
        ),
        (
            {"enabled_filters": ["no.such.Filter"]},
            r"^\[filter_scheduler\] enabled_filters: 'no.such.Filter' cannot be imported",
        ),
        ({"available_filters": [f"{ACME}.NoFilter"]}, "NoFilter' cannot be imported"),
        ({"available_filters": ["nodots"]}, "'nodots' cannot be imported"),
        ({"available_filters": [f"{ACME}.AcmeWeigher"]}, "AcmeWeigher is not a BaseHostFilter"),
        ({"available_filters": [f"{ACME}.broken"]}, "broken is not a BaseHostFilter"),
        ({"available_filters": [f"{ACME}.NOTHING"]}, "NOTHING is not a BaseHostFilter"),
        (
            {"weight_classes": ["placement_sched.scheduler.weights.ram.RAMWeigh"]},
            "did you mean 'placement_sched.scheduler.weights.ram.RAMWeigher'",
        ),
        (
            {"enabled_filters": [f"{ACME}.NeedsArguments"]},
            "NeedsArguments cannot be created without arguments",
        ),
    ],
)
def test_wrong_name_is_one_line_with_the_nearest_right_one(options, words):
    with pytest.raises(ConfigurationError, match=words) as seen:
        plugins_for(filter_settings(**options))
    assert "\n" not in seen.value.detail


# Strangers


def test_novas_filter_works_with_its_import_line_changed():
    settings = filter_settings(
        available_filters=["nova.scheduler.filters.all_filters", f"{ACME}.AcmeFilter"],
        enabled_filters=["ComputeFilter", "AcmeFilter"],
        weight_classes=[f"{ACME}.AcmeWeigher"],
    )
    plugins = plugins_for(settings, lambda: NOW)
    in_rack = aggregates({"rack": "r1, r2"})
    hosts = [
        a_host("cn1", aggregates=in_rack, num_instances=2),
        a_host("cn2", aggregates=in_rack, num_instances=1),
        a_host("cn3", aggregates=in_rack, num_instances=3),
        a_host("cn4"),
    ]
    spec = a_spec(scheduler_hints={"rack": "r2"})
    run = run_filters(plugins.filters, hosts, spec)
    assert [(each.host, each.reason) for each in run.reports[1].rejected] == [
        ("cn3", "rejected by AcmeFilter"),
        ("cn4", "rejected by AcmeFilter"),
    ]
    weighed = run_weighers(plugins.weighers, run.hosts, spec)
    # 2 and 1 instances of at most 2, times -2
    assert [(host.obj.host, host.weight) for host in weighed.hosts] == [
        ("cn2", -1.0),
        ("cn1", -2.0),
    ]


def test_function_of_a_stranger_may_name_several_filters():
    settings = filter_settings(
        available_filters=[f"{ACME}.acme_filters"], enabled_filters=["OurStyle", "AcmeFilter"]
    )
    assert names(plugins_for(settings).filters) == ["OurStyle", "AcmeFilter"]


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("filter_scheduler__available_filters", "asked_filters"),
        ("filter_scheduler__weight_classes", "asked_weighers"),
        ("scheduler__request_filters", "asked_request_filters"),
    ],
)
def test_what_a_list_names_thousands_of_times_is_looked_for_once(option, named):
    """As a request's overrides may repeat it."""
    others = ["nova.scheduler.filters.all_filters"] if named == "asked_filters" else []
    third_party.ASKED.clear()
    plugins_for(settings_with(**{option: [*others, *[f"{ACME}.{named}"] * 12_000]}))
    assert len(third_party.ASKED) == 1


def test_stranger_sees_the_options_of_its_request_while_it_is_made():
    settings = filter_settings(enabled_filters=[f"{ACME}.AcmeFilter"])
    register(settings.conf, (("acme", CONF._groups["acme"]._opts["most_instances"]["opt"]),))
    changed = Settings.from_conf(settings.conf).with_overrides(
        {"acme.most_instances": 7, "filter_scheduler.enabled_filters": [f"{ACME}.AcmeFilter"]}
    )
    assert plugins_for(settings).filters[0].most == 3
    assert plugins_for(changed).filters[0].most == 7


def test_options_of_strangers_are_read_from_the_file(tmp_path):
    file = tmp_path / "acme.conf"
    file.write_text(
        "[filter_scheduler]\n"
        "available_filters = placement_sched.scheduler.filters.all_filters\n"
        f"available_filters = {ACME}.OurStyle\n"
        "enabled_filters = OurStyle\n"
        "[acme_ours]\nlimit = 2\n"
    )
    settings = read_settings([str(file)], new_conf())
    assert settings.acme_ours.limit == 2
    (plugin,) = plugins_for(settings).filters
    assert plugin.host_passes(a_host(num_instances=1), a_spec())
    assert not plugin.host_passes(a_host(num_instances=2), a_spec())
    (looser,) = plugins_for(settings.with_overrides({"acme_ours.limit": 9})).filters
    assert looser.host_passes(a_host(num_instances=2), a_spec())


def test_installed_packages_announce_plugins(installed):
    installed(
        f"[placement_sched.filters]\nacme = {ACME}:AcmeFilter\n"
        f"[placement_sched.weighers]\nacme = {ACME}:AcmeWeigher\n"
        f"[placement_sched.request_filters]\nacme = {ACME}:AcmeRequestFilter\n"
    )
    plugins = plugins_for(filter_settings(enabled_filters=["AcmeFilter"]))
    assert names(plugins.filters) == ["AcmeFilter"]
    assert "AcmeWeigher" in names(plugins.weighers)
    assert names(plugins.request_filters)[-1] == "AcmeRequestFilter"


def test_announced_plugin_that_cannot_be_loaded_is_named(installed):
    installed("[placement_sched.filters]\nacme = no_such_package:AcmeFilter\n")
    with pytest.raises(
        ConfigurationError, match=r"entry point acme \(.*\) of placement_sched\.filters"
    ):
        plugins_for(settings_with())


# Options


def test_options_of_plugins_are_known_to_a_full_conf_and_to_the_process():
    groups = {group: [option.dest for option in options] for group, options in list_opts()}
    assert "ram_weight_multiplier" in groups["filter_scheduler"]
    assert "enable_isolated_aggregate_filtering" in groups["scheduler"]
    assert Settings.from_conf(make_full_conf()).filter_scheduler.ram_weight_multiplier == 1.0
    assert CONF.filter_scheduler.ram_weight_multiplier == 1.0
    assert not hasattr(Settings.from_conf(new_conf()).filter_scheduler, "ram_weight_multiplier")


def test_wrong_filter_in_a_file_is_found_when_it_is_read(tmp_path):
    file = tmp_path / "a.conf"
    file.write_text("[filter_scheduler]\nenabled_filters = ComputeFiltre\n")
    with pytest.raises(ConfigurationError, match="did you mean 'ComputeFilter'"):
        read_settings([str(file)], new_conf())


# Overrides of a request


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("enabled_filters", ["AllHostsFilter"]),
        ("enabled_filters", ["nova.scheduler.filters.compute_filter.ComputeFilter"]),
        ("weight_classes", ["placement_sched.scheduler.weights.ram.RAMWeigher"]),
        ("ram_weight_multiplier", -1.0),
    ],
)
def test_overrides_may_name_what_is_shipped(option, value):
    settings = with_overrides(settings_with(), {f"filter_scheduler.{option}": value})
    assert getattr(settings.filter_scheduler, option) == value


@pytest.mark.parametrize("option", ["available_filters", "enabled_filters", "weight_classes"])
def test_overrides_may_not_import_what_the_operator_did_not_name(option):
    path = f"{ACME}.AcmeFilter"
    asked = {f"filter_scheduler.{option}": [path]}
    with pytest.raises(Invalid, match=f"filter_scheduler.{option}: '{path}'"):
        with_overrides(settings_with(), asked)
    named = filter_settings(**{option: [path]})
    assert getattr(with_overrides(named, asked).filter_scheduler, option) == [path]


@pytest.mark.parametrize(
    "key", ["placement_database.connection", "api.auth_strategy", "auth_strategy", "log_file"]
)
def test_overrides_may_not_change_what_stands_while_the_server_runs(key):
    with pytest.raises(Invalid, match=f"{key}' is not read per request"):
        with_overrides(settings_with(), {key: "keystone"})


def test_conf_read_again_keeps_what_it_knew():
    conf = make_full_conf()
    plugins_module.register_options(conf)
    assert Settings.from_conf(read_files(conf)).filter_scheduler.cpu_weight_multiplier == 1.0
