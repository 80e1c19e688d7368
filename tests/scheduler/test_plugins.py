# SPDX-License-Identifier: Apache-2.0
"""Plugins by folder, dotted path, nova's paths and entry points."""

import sys
from importlib import import_module

import pytest

from placement_sched.config.conf import CONF, create_conf, read_files
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError, Invalid
from placement_sched.scheduler import plugins as plugins_module
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.filters import all_filters
from placement_sched.scheduler.live_settings import with_overrides
from placement_sched.scheduler.plugin import get_class_path, register
from placement_sched.scheduler.plugins import (
    get_plugins,
    list_opts,
    make_full_conf,
    read_settings,
    suggest_path,
)
from placement_sched.scheduler.request_filters import ORDER, all_request_filters
from placement_sched.scheduler.weights import all_weighers, run_weighers
from tests.scheduler import third_party
from tests.scheduler.explanations import explain_request, put_hosts
from tests.support.scheduling import make_spec
from tests.support.states import NOW, build_aggregates, build_host_state, build_settings, build_spec

ACME_MODULE = "tests.scheduler.third_party"


def build_filter_scheduler_settings(**options):
    return build_settings(**{f"filter_scheduler__{name}": entry for name, entry in options.items()})


def list_class_names(plugins):
    return [type(plugin).__name__ for plugin in plugins]


def test_shipped_plugin_needs_no_arguments_and_its_options_have_help():
    for kind in (*all_filters(), *all_weighers(), *all_request_filters()):
        assert all(option.help for _, option in kind.options), kind
        kind()


#: The shipped filters that the earlier instances of a request concern.
FILTERS_RUN_FOR_EACH_INSTANCE = """
    AggregateCoreFilter AggregateDiskFilter AggregateIoOpsFilter AggregateNumInstancesFilter
    AggregateRamFilter CoreFilter DiskFilter GroupAffinityFilter GroupAntiAffinityFilter IoOpsFilter
    JsonFilter MetricsFilter NUMATopologyFilter NumInstancesFilter PciPassthroughFilter RamFilter
    RetryFilter ServerGroupAffinityFilter ServerGroupAntiAffinityFilter TopologySpreadFilter
    TypeAffinityFilter
"""
FILTERS_RUN_ON_REBUILD = (
    "AggregateImagePropertiesIsolation ImagePropertiesFilter IsolatedHostsFilter"
)


def test_only_some_filters_run_for_each_instance_or_on_rebuild():
    names = {kind.__name__ for kind in all_filters() if kind().run_filter_for_index(1)}
    assert names == set(FILTERS_RUN_FOR_EACH_INSTANCE.split())
    assert all(kind().run_filter_for_index(0) for kind in all_filters())
    names = {kind.__name__ for kind in all_filters() if kind.RUN_ON_REBUILD}
    assert names == set(FILTERS_RUN_ON_REBUILD.split())


def test_plugins_have_the_configured_order_settings_and_clock():
    settings = build_filter_scheduler_settings(
        enabled_filters=["ImagePropertiesFilter", "ComputeFilter"]
    )
    plugins = get_plugins(settings, lambda: NOW)
    assert list_class_names(plugins.filters) == ["ImagePropertiesFilter", "ComputeFilter"]
    for plugin in plugins.filters:
        assert plugin.settings is settings
        assert plugin.now() == NOW
    assert get_plugins(settings) is get_plugins(settings)
    assert get_plugins(settings) is not get_plugins(build_settings())


#: The paths of the shipped classes in releases of nova, by module.
NOVA_PLUGIN_CLASS_PATHS = [
    f"{module}.{name}"
    for module, names in (
        ("filters.affinity_filter", "DifferentHostFilter SameHostFilter"),
        ("filters.affinity_filter", "SimpleCIDRAffinityFilter ServerGroupAffinityFilter"),
        ("filters.affinity_filter", "ServerGroupAntiAffinityFilter GroupAffinityFilter"),
        ("filters.affinity_filter", "GroupAntiAffinityFilter"),
        ("filters.aggregate_image_properties_isolation", "AggregateImagePropertiesIsolation"),
        ("filters.aggregate_instance_extra_specs", "AggregateInstanceExtraSpecsFilter"),
        ("filters.aggregate_multitenancy_isolation", "AggregateMultiTenancyIsolation"),
        ("filters.all_hosts_filter", "AllHostsFilter"),
        ("filters.availability_zone_filter", "AvailabilityZoneFilter"),
        ("filters.compute_capabilities_filter", "ComputeCapabilitiesFilter"),
        ("filters.compute_filter", "ComputeFilter"),
        ("filters.core_filter", "CoreFilter AggregateCoreFilter"),
        ("filters.disk_filter", "DiskFilter AggregateDiskFilter"),
        ("filters.image_props_filter", "ImagePropertiesFilter"),
        ("filters.io_ops_filter", "IoOpsFilter AggregateIoOpsFilter"),
        ("filters.isolated_hosts_filter", "IsolatedHostsFilter"),
        ("filters.json_filter", "JsonFilter"),
        ("filters.metrics_filter", "MetricsFilter"),
        ("filters.num_instances_filter", "NumInstancesFilter AggregateNumInstancesFilter"),
        ("filters.numa_topology_filter", "NUMATopologyFilter"),
        ("filters.pci_passthrough_filter", "PciPassthroughFilter"),
        ("filters.ram_filter", "RamFilter AggregateRamFilter"),
        ("filters.retry_filter", "RetryFilter"),
        ("filters.trusted_filter", "TrustedFilter"),
        ("filters.type_filter", "TypeAffinityFilter AggregateTypeAffinityFilter"),
        ("weights.affinity", "ServerGroupSoftAffinityWeigher ServerGroupSoftAntiAffinityWeigher"),
        ("weights.compute", "BuildFailureWeigher"),
        ("weights.cpu", "CPUWeigher"),
        ("weights.cross_cell", "CrossCellWeigher"),
        ("weights.disk", "DiskWeigher"),
        ("weights.hypervisor_version", "HypervisorVersionWeigher"),
        ("weights.image_props", "ImagePropertiesWeigher"),
        ("weights.io_ops", "IoOpsWeigher"),
        ("weights.metrics", "MetricsWeigher"),
        ("weights.num_instances", "NumInstancesWeigher"),
        ("weights.pci", "PCIWeigher"),
        ("weights.ram", "RAMWeigher"),
    )
    for name in names.split()
]


@pytest.mark.parametrize("package", ["nova.scheduler", "placement_sched.scheduler"])
def test_every_path_of_nova_names_a_class_in_both_packages(package):
    for option in ("enabled_filters", "weight_classes"):
        folder = "filters." if option == "enabled_filters" else "weights."
        paths = [path for path in NOVA_PLUGIN_CLASS_PATHS if path.startswith(folder)]
        named = [path.rpartition(".") for path in paths]
        plugins = get_plugins(
            build_filter_scheduler_settings(**{option: [f"{package}.{path}" for path in paths]})
        )
        result = plugins.filters if option == "enabled_filters" else plugins.weighers
        assert list_class_names(result) == [name for _, _, name in named]
        for module, _, name in named:
            assert getattr(import_module(f"placement_sched.scheduler.{module}"), name)


def test_plugin_class_of_a_merged_module_keeps_its_path():
    path = "placement_sched.scheduler.filters.same_host_filter.SameHostFilter"
    settings = build_filter_scheduler_settings(enabled_filters=["ComputeFilter", path])
    assert list_class_names(get_plugins(settings).filters) == ["ComputeFilter", "SameHostFilter"]


def test_every_shipped_filter_and_weigher_can_be_configured_by_its_path():
    options = {
        "filter_scheduler__enabled_filters": [get_class_path(kind) for kind in all_filters()],
        "filter_scheduler__weight_classes": [get_class_path(kind) for kind in all_weighers()],
        # The weighers of these options run only with them.
        "scheduler__required_aggregates_by_trait": "prefer",
        "filter_scheduler__stranded_resources_weight_multiplier": 1.0,
    }
    plugins = get_plugins(build_settings(**options))
    assert list_class_names(plugins.filters) == [kind.__name__ for kind in all_filters()]
    assert list_class_names(plugins.weighers) == [kind.__name__ for kind in all_weighers()]


def test_single_filter_of_nova_can_be_available():
    path = "nova.scheduler.filters.compute_filter.ComputeFilter"
    settings = build_filter_scheduler_settings(
        available_filters=[path], enabled_filters=["ComputeFilter"]
    )
    assert list_class_names(get_plugins(settings).filters) == ["ComputeFilter"]
    with pytest.raises(ConfigurationError, match="unknown filter 'AllHostsFilter'"):
        get_plugins(
            build_filter_scheduler_settings(
                available_filters=[path], enabled_filters=["AllHostsFilter"]
            )
        )


@pytest.mark.parametrize("package", ["nova.scheduler", "placement_sched.scheduler"])
def test_all_weighers_and_single_weighers_may_be_configured(package):
    settings = build_filter_scheduler_settings(
        weight_classes=[f"{package}.weights.all_weighers", f"{package}.weights.ram.RAMWeigher"]
    )
    request = [kind.__name__ for kind in all_weighers() if kind.is_enabled_by(settings)]
    assert list_class_names(get_plugins(settings).weighers) == request


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"enabled_filters": ["Zzz"]},
            "unknown filter 'Zzz'. The page Plugins of the documentation lists them$",
        ),
        (
            {"available_filters": ["nova.scheduler.filters.ram.RamFiltr"]},
            "there is no 'nova.scheduler.filters.ram.RamFiltr' here",
        ),
        ({"available_filters": ["nodots"]}, "'nodots' cannot be imported"),
        (
            {"available_filters": [f"{ACME_MODULE}.list_classes_that_are_no_filters"]},
            "list_classes_that_are_no_filters is not a BaseHostFilter",
        ),
        (
            {"available_filters": [f"{ACME_MODULE}.NUMBER_INSTEAD_OF_PLUGIN"]},
            "NUMBER_INSTEAD_OF_PLUGIN is not a BaseHostFilter",
        ),
    ],
)
def test_error_for_a_wrong_plugin_name_is_one_line(options, words):
    with pytest.raises(ConfigurationError, match=words) as error:
        get_plugins(build_filter_scheduler_settings(**options))
    assert "\n" not in error.value.detail


def test_nova_filter_and_weigher_with_changed_imports_decide_as_in_nova():
    settings = build_filter_scheduler_settings(
        available_filters=["nova.scheduler.filters.all_filters", f"{ACME_MODULE}.AcmeFilter"],
        enabled_filters=["ComputeFilter", "AcmeFilter"],
        weight_classes=[f"{ACME_MODULE}.AcmeWeigher"],
    )
    plugins = get_plugins(settings, lambda: NOW)
    in_rack = build_aggregates({"rack": "r1, r2"})
    hosts = [
        build_host_state("cn1", aggregates=in_rack, num_instances=2),
        build_host_state("cn2", aggregates=in_rack, num_instances=1),
        build_host_state("cn3", aggregates=in_rack, num_instances=3),
        build_host_state("cn4"),
    ]
    spec = build_spec(scheduler_hints={"rack": "r2"})
    run = run_filters(plugins.filters, hosts, spec)
    rejections = [(rejection.host, rejection.reason) for rejection in run.reports[1].rejected]
    assert rejections == [("cn3", "rejected by AcmeFilter"), ("cn4", "rejected by AcmeFilter")]
    weighed = run_weighers(plugins.weighers, run.hosts, spec)
    # 2 and 1 instances of at most 2, times -2
    weights = [(host.obj.host, host.weight) for host in weighed.hosts]
    assert weights == [("cn2", -1.0), ("cn1", -2.0)]


def test_function_at_a_plugin_path_may_return_several_filters():
    settings = build_filter_scheduler_settings(
        available_filters=[f"{ACME_MODULE}.list_acme_filters"],
        enabled_filters=["OptionDeclaringFilter", "AcmeFilter"],
    )
    assert list_class_names(get_plugins(settings).filters) == [
        "OptionDeclaringFilter",
        "AcmeFilter",
    ]


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("filter_scheduler__available_filters", "record_and_list_filters"),
        ("filter_scheduler__weight_classes", "record_and_list_weighers"),
        ("scheduler__request_filters", "record_and_list_request_filters"),
    ],
)
def test_repeated_plugin_path_is_imported_once(option, named):
    defaults = ["nova.scheduler.filters.all_filters"] if named == "record_and_list_filters" else []
    third_party.IMPORTED_PLUGIN_KINDS.clear()
    get_plugins(build_settings(**{option: [*defaults, *[f"{ACME_MODULE}.{named}"] * 12_000]}))
    assert len(third_party.IMPORTED_PLUGIN_KINDS) == 1


def test_third_party_plugin_is_created_with_the_options_of_the_request():
    settings = build_filter_scheduler_settings(enabled_filters=[f"{ACME_MODULE}.AcmeFilter"])
    register(settings.conf, (("acme", CONF._groups["acme"]._opts["most_instances"]["opt"]),))
    changed = Settings.from_conf(settings.conf).with_overrides(
        {
            "acme.most_instances": 7,
            "filter_scheduler.enabled_filters": [f"{ACME_MODULE}.AcmeFilter"],
        }
    )
    assert get_plugins(settings).filters[0].most == 3
    assert get_plugins(changed).filters[0].most == 7


def test_options_of_third_party_plugins_are_read_from_the_file(tmp_path):
    file = tmp_path / "acme.conf"
    file.write_text(
        "[filter_scheduler]\n"
        "available_filters = placement_sched.scheduler.filters.all_filters\n"
        f"available_filters = {ACME_MODULE}.OptionDeclaringFilter\n"
        "enabled_filters = OptionDeclaringFilter\n"
        "[acme_ours]\nlimit = 2\n"
    )
    settings = read_settings([str(file)], create_conf())
    assert settings.acme_ours.limit == 2
    (plugin,) = get_plugins(settings).filters
    assert plugin.host_passes(build_host_state(num_instances=1), build_spec())
    assert not plugin.host_passes(build_host_state(num_instances=2), build_spec())
    (changed_plugin,) = get_plugins(settings.with_overrides({"acme_ours.limit": 9})).filters
    assert changed_plugin.host_passes(build_host_state(num_instances=2), build_spec())


def test_installed_packages_provide_plugins(install_package):
    install_package(
        f"[placement_sched.filters]\nacme = {ACME_MODULE}:AcmeFilter\n"
        f"[placement_sched.weighers]\nacme = {ACME_MODULE}:AcmeWeigher\n"
        f"[placement_sched.request_filters]\nacme = {ACME_MODULE}:AcmeRequestFilter\n"
    )
    plugins = get_plugins(build_filter_scheduler_settings(enabled_filters=["AcmeFilter"]))
    assert list_class_names(plugins.filters) == ["AcmeFilter"]
    assert "AcmeWeigher" in list_class_names(plugins.weighers)
    assert list_class_names(plugins.request_filters)[-1] == "AcmeRequestFilter"


def test_options_of_plugins_are_registered():
    groups = {group: [option.dest for option in options] for group, options in list_opts()}
    assert "ram_weight_multiplier" in groups["filter_scheduler"]
    assert "enable_isolated_aggregate_filtering" in groups["scheduler"]
    assert Settings.from_conf(make_full_conf()).filter_scheduler.ram_weight_multiplier == 1.0
    assert CONF.filter_scheduler.ram_weight_multiplier == 1.0
    assert not hasattr(Settings.from_conf(create_conf()).filter_scheduler, "ram_weight_multiplier")
    conf = make_full_conf()
    plugins_module.register_options(conf)
    assert Settings.from_conf(read_files(conf)).filter_scheduler.cpu_weight_multiplier == 1.0


@pytest.mark.parametrize("option", ["available_filters", "enabled_filters", "weight_classes"])
def test_option_overrides_may_not_import_other_modules(option):
    path = f"{ACME_MODULE}.AcmeFilter"
    request = {f"filter_scheduler.{option}": [path]}
    with pytest.raises(Invalid, match=f"filter_scheduler.{option}: '{path}'"):
        with_overrides(build_settings(), request)
    named = build_filter_scheduler_settings(**{option: [path]})
    assert getattr(with_overrides(named, request).filter_scheduler, option) == [path]


REQUEST_FILTERS_PACKAGE = "placement_sched.scheduler.request_filters"
ALL_REQUEST_FILTERS_PATH = f"{REQUEST_FILTERS_PACKAGE}.all_request_filters"
REQUEST_FILTER_NAMES = [kind.name for kind in all_request_filters()]


def build_settings_with_request_filters(*names):
    return build_settings(scheduler__request_filters=list(names))


def list_request_filters(*names):
    """Return the names of the request filters in the order of their runs."""
    return [
        plugin.name
        for plugin in get_plugins(build_settings_with_request_filters(*names)).request_filters
    ]


def list_shipped_filters_without(*names):
    return [name for name in REQUEST_FILTER_NAMES if name not in names]


def test_shipped_request_filters_run_in_the_order_of_nova_before_own_filters():
    assert list_request_filters() == [name for name in ORDER if name in REQUEST_FILTER_NAMES]
    assert REQUEST_FILTER_NAMES[-1] == "required_aggregates_by_trait"


#: The options that enable request filters. They are false by default.
ENABLING_OPTION_BY_FILTER = {
    "forbidden_aggregates": "enable_isolated_aggregate_filtering",
    "require_image_type_support": "query_placement_for_image_type_support",
    "require_tenant_aggregate": "limit_tenants_to_placement_aggregate",
    "routed_networks_filter": "query_placement_for_routed_network_aggregates",
    "transform_image_metadata": "image_metadata_prefilter",
}


def test_each_request_filter_is_enabled_always_or_by_its_option():
    for kind in all_request_filters():
        plugin, option = kind(), ENABLING_OPTION_BY_FILTER.get(kind.name)
        is_default = option is None and kind.name != "required_aggregates_by_trait"
        assert plugin.enabled(build_settings()) is is_default, kind
        if option is not None:
            assert plugin.enabled(build_settings(**{f"scheduler__{option}": True})), kind


@pytest.mark.parametrize(
    ("names", "last"),
    [
        (["forbidden_aggregates"], ["forbidden_aggregates"]),
        (["isolate_aggregates"], ["forbidden_aggregates"]),
        (["ForbiddenAggregates"], ["forbidden_aggregates"]),
        (
            [f"{REQUEST_FILTERS_PACKAGE}.forbidden_aggregates.ForbiddenAggregates"],
            ["forbidden_aggregates"],
        ),
        (
            ["owner_nova_filter", "isolate_aggregates", "RequireTenantAggregate"],
            ["owner_nova_filter", "forbidden_aggregates", "require_tenant_aggregate"],
        ),
        (
            ["isolate_aggregates", "compute_status_filter", "forbidden_aggregates"],
            ["forbidden_aggregates", "compute_status_filter"],
        ),
        (
            [f"{ACME_MODULE}.AcmeTraitFilter", "isolate_aggregates"],
            ["acme_trait", "forbidden_aggregates"],
        ),
        (
            [f"{ACME_MODULE}.AcmeTraitFilter", ALL_REQUEST_FILTERS_PATH],
            ["acme_trait", *REQUEST_FILTER_NAMES],
        ),
    ],
    ids=str,
)
def test_configured_request_filters_run_last_in_their_order(names, last):
    assert list_request_filters(*names) == [*list_shipped_filters_without(*last), *last]


@pytest.fixture
def make_app_with_config_text(sqlite_url, make_app, tmp_path):
    """Return a function that creates a client of a server with a configuration file."""

    def build_app(text=""):
        file = tmp_path / "acme.conf"
        file.write_text(f"[placement_database]\nconnection = {sqlite_url}\n{text}")
        return make_app(read_settings([str(file)], create_conf()))

    return build_app


def test_third_party_request_filter_named_by_its_path_narrows_requests(make_app_with_config_text):
    app = make_app_with_config_text(
        f"[scheduler]\nrequest_filters = {ACME_MODULE}.AcmeTraitFilter\n"
    )
    put_hosts(app, cn1=["CUSTOM_ACME"], cn2=[])
    response = explain_request(app, make_spec())
    assert response.request_filter_names == [*REQUEST_FILTER_NAMES, "acme_trait"]
    result = response.get_request_filter_report("acme_trait")
    assert result == {"applied": True, "changes": {"root_required": ["CUSTOM_ACME"]}}
    assert response.hosts == ["cn1"]


def test_request_filter_of_an_installed_package_runs_after_the_shipped_filters(
    install_package, make_app_with_config_text
):
    install_package(f"[placement_sched.request_filters]\nacme = {ACME_MODULE}:AcmeTraitFilter\n")
    app = make_app_with_config_text("[acme_requests]\ntrait = CUSTOM_ACME\n")
    put_hosts(app, cn1=["CUSTOM_ACME"], cn2=[])
    response = explain_request(app, make_spec())
    assert response.request_filter_names == [*REQUEST_FILTER_NAMES, "acme_trait"]
    assert response.hosts == ["cn1"]


@pytest.mark.parametrize(
    "name", ["acme_trait", "acme_label", "AcmeTraitFilter", f"{ACME_MODULE}.AcmeTraitFilter"]
)
def test_request_filter_of_an_installed_package_may_have_any_of_its_names(install_package, name):
    install_package(f"[placement_sched.request_filters]\nacme = {ACME_MODULE}:AcmeTraitFilter\n")
    assert list_request_filters(name, "compute_status_filter") == [
        *list_shipped_filters_without("compute_status_filter"),
        "acme_trait",
        "compute_status_filter",
    ]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("ForbidenAggregates", "Did you mean 'ForbiddenAggregates'?"),
        ("zzz", "unknown request filter 'zzz'"),
        ("acme_trait", "unknown request filter 'acme_trait'"),
        (
            f"{REQUEST_FILTERS_PACKAGE}.forbidden_aggregates.ForbidenAggregates",
            f"Did you mean '{REQUEST_FILTERS_PACKAGE}.forbidden_aggregates.ForbiddenAggregates'?",
        ),
        (f"{ACME_MODULE}.list_acme_filters", "list_acme_filters is not a BaseRequestFilter"),
        (f"{REQUEST_FILTERS_PACKAGE}.require_aggregates", "require_aggregates returns no classes"),
        (
            f"{REQUEST_FILTERS_PACKAGE}.BaseRequestFilter",
            "BaseRequestFilter is the abstract base class",
        ),
        ("nova.scheduler.filters.compute_filter.ComputeFilter", "there is no "),
    ],
)
def test_error_for_a_wrong_request_filter_name_names_the_option(name, words):
    with pytest.raises(ConfigurationError) as error:
        list_request_filters("compute_status_filter", name)
    assert error.value.detail.startswith("[scheduler] request_filters: ")
    assert words in error.value.detail
    assert "\n" not in error.value.detail


@pytest.fixture
def module_that_records_its_import(tmp_path, monkeypatch):
    """Return the path of a class in a module whose import leaves a file."""
    trace = tmp_path / "imported"
    (tmp_path / "bomb.py").write_text(
        f"open({str(trace)!r}, 'w').close()\nfrom {ACME_MODULE} import AcmeTraitFilter as Bomb\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield "bomb.Bomb", trace
    sys.modules.pop("bomb", None)


def test_option_overrides_import_no_modules(sqlite_app, module_that_records_its_import):
    path, trace = module_that_records_its_import
    for value in ([path], path, ["compute_status_filter", path]):
        body = {"request_spec": make_spec(), "overrides": {"scheduler.request_filters": value}}
        response = sqlite_app.post_json("/scheduler/v1/explain", body, status=400)
        (error,) = response.json["errors"]
        assert f"scheduler.request_filters: '{path}'" in error["detail"]
    assert not trace.exists()
    # The configuration may import the same path.
    assert list_request_filters(path)[-1] == "acme_trait"
    assert trace.exists()


def test_option_overrides_may_use_the_request_filters_of_the_configuration():
    path = f"{ACME_MODULE}.AcmeTraitFilter"
    running = build_settings_with_request_filters(path)
    request = {"scheduler.request_filters": ["compute_status_filter", path]}
    changed = with_overrides(running, request)
    assert [request_filter.name for request_filter in get_plugins(changed).request_filters][
        -2:
    ] == ["compute_status_filter", "acme_trait"]
    with pytest.raises(Invalid):
        with_overrides(build_settings_with_request_filters(), request)


@pytest.mark.parametrize(
    ("path", "suggestion"),
    [
        ("acme.filters.F1", ""),
        ("acme.filters.Filter", ""),
        ("acme.ram_filter.RamFilter", ". Did you mean 'placement_sched.filters.RamFilter'?"),
        ("placement_sched.filter.RamF", ". Did you mean 'placement_sched.filters.RamFilter'?"),
    ],
)
def test_path_is_suggested_by_more_than_a_common_ending(path, suggestion):
    names = ("RamFilter", "DiskFilter", "IoOpsFilter")
    existing = {name: f"placement_sched.filters.{name}" for name in names}
    assert suggest_path(path, existing, ValueError()) == suggestion


def test_name_that_several_unknown_filters_resemble_is_suggested_once():
    names = ["RamFiltr", "RamFilte", "QuantumFilter"]
    settings = build_filter_scheduler_settings(enabled_filters=names)
    with pytest.raises(ConfigurationError, match=r"mean 'RamFilter' for 'RamFiltr' and 'RamFilte'"):
        get_plugins(settings)
