# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers that are written for nova run unchanged."""

import re
from datetime import datetime
from pathlib import Path

import pytest
from oslo_config import cfg
from sqlalchemy import update

from placement_sched.config.conf import read_files
from placement_sched.db.tables import instances
from placement_sched.scheduler.plugins import make_full_conf
from tests.conftest import make_settings
from tests.extensions.nova_plugins.conftest import THIRD_PARTY_PLUGIN_FOLDER
from tests.support.scheduling import make_report, make_spec, make_uuid
from tests.support.states import read_settings_text
from tests.support.versions import LATEST_HEADERS

HOST_NAMES = ("cn1", "cn2", "cn3")
HOST_AND_METADATA_BY_AGGREGATE = {
    "rack-a": ("cn1", {"rack": "a", "availability_zone": "az1", "reservation": "p1"}),
    "rack-b": ("cn2", {"rack": "b", "role": "operator", "reservation": "p2"}),
}
RACK_B_FLAVOR = {"extra_specs": {"acme:rack": "<in> b"}}
IMAGE_FOR_CN2_AND_CN3 = {"name": "linux", "properties": {"os_distro": "cn2 cn3"}}

#: The filter, changes of the request, and the hosts that pass.
THIRD_PARTY_FILTER_CASES = [
    ("plugins_of_today.ProjectReservationFilter", {}, "cn1 cn3"),
    ("plugins_of_today.ProjectReservationFilter", {"project_id": "p2"}, "cn2 cn3"),
    ("plugins_of_today.FailureDomainFilter", {}, "cn1 cn2 cn3"),
    (
        "plugins_of_today.FailureDomainFilter",
        {"scheduler_hints": {"away_from": ["cn1"]}},
        "cn2 cn3",
    ),
    ("trait_filter.list_filters", {}, "cn2"),
    ("plugins_of_today.IdleRatioFilter", {}, "cn2 cn3"),
    ("plugins_of_today.CallerRolesFilter", {}, "cn1 cn3"),
    ("plugins_of_icehouse.DatabaseRackFilter", {}, "cn2 cn3"),
    ("plugins_of_icehouse.DefaultZoneFilter", {}, "cn2 cn3"),
    ("plugins_of_icehouse.SameZoneResizeFilter", {}, "cn1 cn2 cn3"),
    ("plugins_of_icehouse.SameZoneResizeFilter", {"instance_uuids": [make_uuid(1)]}, "cn1"),
    ("plugins_of_icehouse.SameZoneResizeFilter", {"instance_uuids": [make_uuid(9)]}, "cn1 cn2 cn3"),
    ("plugins_of_today.NovaFlagsFilter", {}, "cn3"),
    ("plugins_of_today.NotRebuildFilter", {}, "cn2 cn3"),
    (
        "plugins_of_today.SameCpuCountFilter",
        {"scheduler_hints": {"like": [make_uuid(1)]}},
        "cn1 cn2",
    ),
    ("plugins_of_today.SameCpuCountFilter", {"scheduler_hints": {"like": [make_uuid(9)]}}, ""),
    ("plugins_of_today.VcpuMaxUnitFilter", {}, "cn3"),
    ("plugins_of_today.NoServerGroupFilter", {}, "cn2 cn3"),
    (
        "plugins_of_today.HostNamePatternFilter",
        {"scheduler_hints": {"hostname": ["cn[12]"]}},
        "cn1 cn2",
    ),
    ("plugins_of_icehouse.ImageDistroFilter", {"image": IMAGE_FOR_CN2_AND_CN3}, "cn2 cn3"),
    ("plugins_of_icehouse.ExtraSpecOperatorFilter", {"flavor": RACK_B_FLAVOR}, "cn2"),
    ("plugins_of_today.NoBuildingInstancesFilter", {}, "cn2 cn3"),
    ("plugins_of_icehouse.HypervisorVersionFilter", {}, "cn1 cn2 cn3"),
]
#: The weigher, and the raw weights that it gives.
THIRD_PARTY_WEIGHER_CASES = [
    ("plugins_of_today.IdleRatioWeigher", {"cn1": 0, "cn2": 0, "cn3": 0}),
    ("weighers.FreeCpuWeigher", {"cn1": 16, "cn2": 16, "cn3": 32}),
    ("weighers.TotalCpuWeigher", {"cn1": 16, "cn2": 16, "cn3": 32}),
    ("weighers.RackCountWeigher", {"cn1": 1, "cn2": 1, "cn3": 0}),
    ("weighers.VcpuUsageWeigher", {"cn1": -1, "cn2": 0, "cn3": 0}),
]


@pytest.fixture
def build_cloud(nova_shim, sqlite_url, make_app):
    """Return a function that builds an application with options and three hosts."""

    def build_app(**options):
        names = {f"filter_scheduler__{name}": value for name, value in options.items()}
        settings = make_settings(sqlite_url, filter_scheduler__nova_shim=True, **names)
        app = make_app(settings)
        vcpus = {"cn3": 32}
        reports = [make_report(host, vcpus=vcpus.get(host, 16)) for host in HOST_NAMES]
        app.post_json("/scheduler/v1/compute_nodes", reports)
        for name, (host, metadata) in HOST_AND_METADATA_BY_AGGREGATE.items():
            body = {"aggregate": {"name": name, "availability_zone": None}}
            created = app.post_json("/compute/v2.1/os-aggregates", body).json["aggregate"]
            action = f"/compute/v2.1/os-aggregates/{created['id']}/action"
            app.post_json(action, {"set_metadata": {"metadata": metadata}})
            app.post_json(action, {"add_host": {"host": host}})
        app.put("/placement/traits/CUSTOM_GOLD", headers=LATEST_HEADERS)
        provider = f"/placement/resource_providers/{make_report('cn2')['uuid']}"
        generation = app.get(provider, headers=LATEST_HEADERS).json["generation"]
        body = {"resource_provider_generation": generation, "traits": ["CUSTOM_GOLD"]}
        app.put_json(f"{provider}/traits", body, headers=LATEST_HEADERS)
        placed = make_spec(make_uuid(1), force_hosts=["cn1"])
        app.post_json("/scheduler/v1/select_destinations", {"request_spec": placed})
        return app

    return build_app


def explain_scheduling(app, overrides=None, **changes):
    flavor = {"name": "m1", "vcpus": 1, "memory_mb": 1024, "root_gb": 10}
    flavor |= changes.pop("flavor", {})
    body = {"request_spec": make_spec(flavor=flavor, **changes), "overrides": overrides or {}}
    return app.post_json("/scheduler/v1/explain", body).json


def explain_hosts_with_option(app, option, value, **changes):
    """Return the hosts of an explanation with an option of the filter scheduler."""
    overrides = {f"filter_scheduler.{option}": [value]}
    return explain_scheduling(app, overrides=overrides, **changes)["hosts"]


def test_third_party_filters_pass_the_hosts_that_they_pass_in_nova(build_cloud):
    paths = sorted({path for path, *_ in THIRD_PARTY_FILTER_CASES})
    app = build_cloud(available_filters=paths, enabled_filters=[])
    for path, changes, expected in THIRD_PARTY_FILTER_CASES:
        name = "TraitFilter" if path.startswith("trait_filter") else path.rpartition(".")[2]
        hosts = explain_hosts_with_option(app, "enabled_filters", name, **changes)
        assert sorted(host["host"] for host in hosts) == expected.split(), (path, changes)


def test_third_party_weighers_give_the_weights_that_they_give_in_nova(build_cloud):
    app = build_cloud(
        enabled_filters=[], weight_classes=[path for path, _ in THIRD_PARTY_WEIGHER_CASES]
    )
    for path, expected in THIRD_PARTY_WEIGHER_CASES:
        name = path.rpartition(".")[2]
        hosts = explain_hosts_with_option(app, "weight_classes", path)
        assert {host["host"]: host["weights"][name]["raw"] for host in hosts} == expected, path


def test_third_party_weigher_lowers_the_weight_of_hosts_with_older_instances(build_cloud):
    app = build_cloud(enabled_filters=[], weight_classes=["weighers.InstanceAgeWeigher"])
    weights = {
        host["host"]: host["weights"]["InstanceAgeWeigher"]["raw"]
        for host in explain_scheduling(app)["hosts"]
    }
    assert weights["cn1"] < -1 < weights["cn2"] == weights["cn3"] == 0


def test_third_party_weighers_read_the_metadata_of_instances(build_cloud):
    raw_of_cn1 = {
        "PreemptibleCountWeigher": -1,
        "DatabasePreemptibleWeigher": -1,
        "PreemptibleDurationWeigher": -5,
    }
    paths = [f"weighers.{name}" for name in raw_of_cn1]
    app = build_cloud(enabled_filters=[], weight_classes=paths)
    values = {
        "launched_at": datetime(2026, 1, 1, 19),
        "metadata": '{"stop":"any time"}',
        "system_metadata": '{"preemptible":"true"}',
    }
    app.app.services.database.write(
        lambda connection: connection.execute(update(instances).values(values))
    )
    weights = {host["host"]: host["weights"] for host in explain_scheduling(app)["hosts"]}
    for name, raw in raw_of_cn1.items():
        result = {host: reports[name]["raw"] for host, reports in weights.items()}
        assert result == {"cn1": raw, "cn2": 0, "cn3": 0}, name


def test_third_party_filter_reads_the_roles_of_the_caller(build_cloud):
    app = build_cloud(
        available_filters=["plugins_of_today.CallerRolesFilter"],
        enabled_filters=["CallerRolesFilter"],
    )
    body = {"request_spec": make_spec()}
    headers = {"X-Roles": "admin,operator"}
    hosts = app.post_json("/scheduler/v1/explain", body, headers=headers).json["hosts"]
    assert sorted(host["host"] for host in hosts) == list(HOST_NAMES)


def test_every_third_party_plugin_has_a_test():
    texts = [path.read_text() for path in THIRD_PARTY_PLUGIN_FOLDER.glob("*.py")]
    classes = {name for text in texts for name in re.findall(r"^ *class (\w+)", text, re.MULTILINE)}
    tested = Path(__file__).read_text()
    assert {name for name in classes if name not in tested} == set()
    assert len(classes) == 27


@pytest.mark.parametrize(
    ("name", "group"),
    [
        ("cpu_allocation_ratio", None),
        ("scheduler_host_subset_size", None),
        ("host_subset_size", "filter_scheduler"),
    ],
)
def test_option_can_be_imported_by_its_current_and_former_names(name, group):
    make_full_conf().import_opt(name, "nova.module.that.is.not.provided", group)


def test_global_oslo_config_has_the_nova_options_of_the_file(nova_shim, tmp_path):
    text = "[DEFAULT]\ndefault_availability_zone = az9\n[filter_scheduler]\nnova_shim = true\n"
    read_settings_text(tmp_path, text)
    cfg.CONF.import_opt("default_availability_zone", "nova.availability_zones")
    cfg.CONF.import_opt("cpu_allocation_ratio", "nova.scheduler.filters.core_filter")
    cfg.CONF.import_opt("service_down_time", "nova.servicegroup.api")
    with pytest.raises(ImportError, match=r"nova\.service\.Manager is not provided here"):
        exec("from nova.service import Manager")  # noqa: S102 - only its options are provided
    assert "import_opt" not in vars(cfg.CONF)
    with pytest.raises(ImportError, match=r"nova\.acme is not provided here"):
        cfg.CONF.import_opt("acme_option", "nova.acme")
    assert cfg.CONF.default_availability_zone == "az9"
    read_files(cfg.CONF)


def test_options_of_oslo_config_and_of_nova_conf_are_the_same(nova_shim):
    cfg.CONF.register_opts([cfg.StrOpt("rack", default="r1")], "acme_both")
    exec(  # noqa: S102 - the statements of a plugin
        "import nova.conf\nfrom oslo_config import cfg\n"
        "assert nova.conf.CONF.acme_both.rack == 'r1'\n"
        "nova.conf.CONF.register_opts([cfg.StrOpt('row', default='2')], 'acme_both')\n"
        "assert cfg.CONF is nova.conf.CONF and cfg.CONF.acme_both.row == '2'\n"
    )
