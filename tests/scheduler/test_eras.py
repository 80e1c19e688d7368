# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers of nova's eras, with only their imports changed."""

from uuid import UUID

import pytest

from placement_sched.config.conf import new_conf
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.live_settings import with_overrides
from placement_sched.scheduler.plugins import plugins_for, read_settings
from placement_sched.scheduler.utils import parse_options
from placement_sched.scheduler.weighing import run_weighers
from tests.scheduler.explanations import explain_request, put_aggregate
from tests.support.scheduling import flavor, instance, report, spec
from tests.support.states import (
    NOW,
    build_aggregates,
    build_host_state,
    build_instances,
    build_service,
    build_spec,
)

ERAS = "tests.scheduler.eras"
CONF = f"""\
[DEFAULT]
own_project_weight_multiplier = 3.0
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
available_filters = {ERAS}.icehouse.LicenseFilter
available_filters = {ERAS}.stein.TierFilter
available_filters = {ERAS}.today.NoisyNeighbourFilter
enabled_filters = LicenseFilter,TierFilter,NoisyNeighbourFilter
weight_classes = {ERAS}.icehouse.OwnProjectWeigher
ram_weight_multiplier = 5.0
[licenses]
seats_per_host = 1
"""
WEIGHERS = (
    "icehouse.OwnProjectWeigher",
    "icehouse.FreeDiskWeigher",
    "stein.TierRAMWeigher",
    "today.CPUPercentWeigher",
)


@pytest.fixture
def settings(tmp_path):
    file = tmp_path / "eras.conf"
    file.write_text(CONF.replace("icehouse.OwnProjectWeigher", f",{ERAS}.".join(WEIGHERS)))
    return read_settings([str(file)], new_conf())


@pytest.fixture
def passing_hosts(settings):
    """Return a function that returns the hosts that pass a filter."""

    def passing_hosts(name, hosts, spec, **overrides):
        answer = {key.replace("__", "."): value for key, value in overrides.items()}
        plugins = plugins_for(with_overrides(settings, answer), lambda: NOW)
        (plugin,) = (stage for stage in plugins.filters if type(stage).__name__ == name)
        return [host.host for host in run_filters([plugin], hosts, spec).hosts]

    return passing_hosts


@pytest.fixture
def weights(settings):
    """Return a function that returns the raw weight and multiplier of each host."""

    def weights(name, hosts, spec, **overrides):
        response = {key.replace("__", "."): value for key, value in overrides.items()}
        plugins = plugins_for(with_overrides(settings, response), lambda: NOW)
        (plugin,) = (weigher for weigher in plugins.weighers if type(weigher).__name__ == name)
        run = run_weighers([plugin], hosts, spec)
        return {
            answer.host: (answer.weights[name].raw, answer.weights[name].multiplier)
            for answer in run.host_reports()
        }

    return weights


@pytest.mark.parametrize(
    ("fields", "passed"),
    [
        ({}, ["cn1", "cn2", "cn9"]),
        ({"extra_specs": {"license": "yes"}}, ["cn1"]),
        ({"properties": {"os_type": "windows"}}, ["cn1"]),
        ({"properties": {"os_type": "linux"}}, ["cn1", "cn2", "cn9"]),
        ({"extra_specs": {"license": "yes"}, "ignore_hosts": ["cn1"]}, []),
        (
            {
                "extra_specs": {"license": "yes"},
                "project_id": "p1",
                "scheduler_hints": {"no_license": "p1"},
            },
            ["cn1", "cn2", "cn9"],
        ),
    ],
    ids=["none", "flavor", "image", "other image", "ignored", "hint"],
)
def test_icehouse_filter_reads_dictionaries(passing_hosts, fields, passed):
    # cn2 has no free seat, by the option of the file, and cn9 has no license.
    hosts = [
        build_host_state("cn1"),
        build_host_state("cn2", num_instances=1),
        build_host_state("cn9"),
    ]
    assert (
        passing_hosts("LicenseFilter", hosts, build_spec(**{"project_id": "p9"} | fields)) == passed
    )


def test_icehouse_weighers_have_one_multiplier_for_all_hosts(weights):
    hosts = [build_host_state("cn1", free_disk_mb=-5), build_host_state("cn2")]
    hosts[1].instances.update(build_instances("cn2", instance(1), instance(2), project_id="p1"))
    request = build_spec(project_id="p1")
    assert weights("OwnProjectWeigher", hosts, request) == {"cn1": (0, 3.0), "cn2": (2, 3.0)}
    assert weights("FreeDiskWeigher", hosts, request) == {"cn1": (0, 2.0), "cn2": (51200, 2.0)}


@pytest.mark.parametrize(
    ("fields", "passed"),
    [
        ({}, ["cn1", "cn2", "cn3"]),
        ({"scheduler_hints": {"tier": "gold"}}, ["cn1"]),
        ({"scheduler_hints": {"tier": ["gold"]}}, ["cn1"]),
        ({"scheduler_hints": {"tier": "lead"}}, []),
        ({"scheduler_hints": {"tier": "lead"}, "retry": {"num_attempts": 3}}, "all"),
        ({"extra_specs": {"tier:rank": ">= 2", "other:rank": "9"}}, ["cn2"]),
        ({"extra_specs": {"tier:colour": "<or> red <or> blue"}}, []),
        ({"instance_group": {"policy": "anti-affinity", "hosts": ["cn2"]}}, ["cn1", "cn3"]),
        ({"flavor": flavor(vcpus=5)}, ["cn2"]),
    ],
    ids=str,
)
def test_stein_filter_reads_the_request_spec(passing_hosts, fields, passed):
    hosts = [
        build_host_state("cn1", aggregates=build_aggregates({"tier": "gold,silver", "rank": "1"})),
        build_host_state(
            "cn2", aggregates=build_aggregates({"rank": "2", "cpu_allocation_ratio": "2.0"})
        ),
        build_host_state("cn3"),
        build_host_state("cn4", service=build_service(disabled=True)),
    ]
    every = [host.host for host in hosts]
    assert passing_hosts("TierFilter", hosts, build_spec(**fields)) == (
        every if passed == "all" else passed
    )


def test_stein_weigher_has_a_multiplier_for_each_host(weights):
    hosts = [
        build_host_state(
            "cn1", free_ram_mb=-1, aggregates=build_aggregates({"ram_weight_multiplier": "0.5"})
        ),
        build_host_state(
            "cn2", free_ram_mb=99999, aggregates=build_aggregates({"ram_weight_multiplier": "much"})
        ),
        build_host_state(
            "cn3", aggregates=build_aggregates(*[{"ram_weight_multiplier": n} for n in ("3", "-1")])
        ),
        build_host_state("cn4"),
    ]
    assert weights("TierRAMWeigher", hosts, build_spec()) == {
        "cn1": (0, 0.5),
        "cn2": (65536, 5.0),
        "cn3": (8192, -1.0),
        "cn4": (8192, 5.0),
    }
    changed = {"filter_scheduler__ram_weight_multiplier": 7.0}
    assert weights("TierRAMWeigher", hosts, build_spec(), **changed)["cn4"] == (8192, 7.0)


def test_filter_of_today_compares_hosts(passing_hosts):
    noisy = build_spec({"neighbours:noisy": "true"}).flavor
    hosts = [
        build_host_state("cn1"),
        build_host_state("cn2"),
        build_host_state("cn3", metrics=({"name": "x"},)),
    ]
    hosts[0].instances.update(build_instances("cn1", instance(1), instance(2), flavor=noisy))
    hosts[1].instances.update(build_instances("cn2", instance(3), flavor=noisy))
    hosts[2].instances.update(build_instances("cn3", instance(4)))
    name = "NoisyNeighbourFilter"
    assert passing_hosts(name, hosts, build_spec()) == ["cn2", "cn3"]
    assert passing_hosts(name, hosts, build_spec(), neighbours__max_noisy=0) == ["cn3"]
    assert passing_hosts(name, hosts, build_spec(), neighbours__need_metrics=True) == ["cn3"]
    pinned = build_spec(numa_topology={"cells": [{"id": 0, "cpuset": [0], "memory": 512}]})
    assert passing_hosts(name, hosts, pinned) == []
    elsewhere = build_spec(requested_destination={"cell": str(UUID(int=7))})
    assert passing_hosts(name, hosts, elsewhere) == []


@pytest.fixture
def cloud(tmp_path, sqlite_url, make_app):
    file = tmp_path / "eras.conf"
    text = CONF.replace("icehouse.OwnProjectWeigher", f",{ERAS}.".join(WEIGHERS))
    file.write_text(f"{text}[placement_database]\nconnection = {sqlite_url}\n")
    app = make_app(read_settings([str(file)], new_conf()))
    metrics = [
        {"name": "cpu.percent", "value": 90, "source": "x", "timestamp": "2026-01-01T00:00:00Z"}
    ]
    reports = [report(f"cn{n}") for n in (1, 2, 3, 4)]
    reports[1]["metrics"] = metrics
    app.post_json("/scheduler/v1/compute_nodes", reports)
    put_aggregate(app, 1, {"tier": "gold"}, "cn1", "cn2", "cn3")
    return app


def test_run_with_plugins_of_all_eras(cloud):
    request = spec(flavor=flavor(extra_specs={"license": "yes"}), scheduler_hints={"tier": "gold"})
    answer = explain_request(cloud, request)
    assert [
        (stage["name"], stage["before"], stage["after"])
        for stage in answer.answer["funnel"]["filters"]
    ] == [("LicenseFilter", 4, 3), ("TierFilter", 3, 3), ("NoisyNeighbourFilter", 3, 3)]
    (rejection,) = answer.answer["funnel"]["filters"][0]["rejected"]
    assert rejection == {"host": "cn4", "node": "cn4", "reason": "rejected by LicenseFilter"}
    assert [weigher["name"] for weigher in answer.answer["funnel"]["weighers"]] == [
        path.partition(".")[2] for path in WEIGHERS
    ]
    assert answer.hosts == ["cn2", "cn1", "cn3"]


def test_two_instances_with_plugins_of_all_eras(cloud):
    request = spec(instance(1), instance(2), flavor=flavor(extra_specs={"license": "yes"}))
    answer = cloud.post_json("/scheduler/v1/select_destinations", {"request_spec": request}).json
    # The weigher prefers cn2, which now has an instance of the project, more than others reject
    # it.
    chosen = [selections[0]["service_host"] for selections in answer["selections"]]
    assert chosen == ["cn2", "cn2"]


@pytest.mark.parametrize(
    ("part", "present", "absent"),
    [
        (lambda spec: spec.image, "properties", "id"),
        (lambda spec: spec.instance_group, "policy", "uuid"),
        (lambda spec: spec.requested_destination, "host", "cell"),
        (lambda spec: spec.retry, "hosts", "cookies"),
        (lambda spec: spec.limits, "vcpu", "disk_gb"),
    ],
)
def test_parts_of_a_request_support_in_as_in_nova(part, present, absent):
    spec = build_spec(
        instance_group={"policy": "affinity"},
        requested_destination={"host": "cn1"},
        retry={"num_attempts": 1, "hosts": []},
        limits={"vcpu": 4},
    )
    assert present in part(spec)
    assert absent not in part(spec)


def test_clone_of_a_request_is_a_copy():
    spec = build_spec({"a": "1"})
    clone = spec.obj_clone()
    assert clone == spec
    assert clone is not spec
    assert clone.flavor.extra_specs is not spec.flavor.extra_specs


def test_invalid_name_and_value_pairs_are_logged(caplog):
    options = parse_options(["a=1.5", "b=x", "c", "=2"], converter=float, name="weight_setting")
    assert options == [("a", 1.5)]
    expected = "weight_setting: expected NAME=NUMBER, got"
    assert caplog.messages == [f"{expected} 'b=x'", f"{expected} 'c'", f"{expected} '=2'"]
