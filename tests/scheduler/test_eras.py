# SPDX-License-Identifier: Apache-2.0
"""Filters and weighers of nova's eras work with their import lines changed and nothing else."""

from uuid import UUID

import pytest

from placement_sched.config.conf import new_conf
from placement_sched.scheduler.filtering import run_filters
from placement_sched.scheduler.live_settings import with_overrides
from placement_sched.scheduler.plugins import plugins_for, read_settings
from placement_sched.scheduler.utils import parse_options
from placement_sched.scheduler.weighing import run_weighers
from tests.scheduler.explained import explained, put_aggregate
from tests.support.scheduling import flavor, instance, report, spec
from tests.support.states import NOW, a_host, a_service, a_spec, aggregates, instances_on

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
def passing(settings):
    """Give a function that asks one filter; the hosts that pass."""

    def passing(name, hosts, asked, **overrides):
        told = {key.replace("__", "."): value for key, value in overrides.items()}
        plugins = plugins_for(with_overrides(settings, told), lambda: NOW)
        (plugin,) = (each for each in plugins.filters if type(each).__name__ == name)
        return [host.host for host in run_filters([plugin], hosts, asked).hosts]

    return passing


@pytest.fixture
def weights(settings):
    """Give a function that asks one weigher; the weights of hosts and its multiplier for each."""

    def weights(name, hosts, asked, **overrides):
        told = {key.replace("__", "."): value for key, value in overrides.items()}
        plugins = plugins_for(with_overrides(settings, told), lambda: NOW)
        (plugin,) = (each for each in plugins.weighers if type(each).__name__ == name)
        run = run_weighers([plugin], hosts, asked)
        return {
            told.host: (told.weights[name].raw, told.weights[name].multiplier)
            for told in run.host_reports()
        }

    return weights


# Icehouse: dictionaries, oslo.config's own CONF, a multiplier of no host


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
def test_icehouse_filter_reads_dictionaries(passing, fields, passed):
    # cn2 has no seat left, by the option of the file; cn9 no license at all.
    hosts = [a_host("cn1"), a_host("cn2", num_instances=1), a_host("cn9")]
    assert passing("LicenseFilter", hosts, a_spec(**{"project_id": "p9"} | fields)) == passed


def test_icehouse_filter_sees_the_options_of_the_request(passing):
    hosts = [a_host("cn1"), a_host("cn2", num_instances=1), a_host("cn9")]
    asked = a_spec({"license": "yes"}, project_id="p9")
    assert passing("LicenseFilter", hosts, asked, licenses__seats_per_host=2) == ["cn1", "cn2"]
    assert passing("LicenseFilter", hosts, asked, licenses__licensed_hosts=["cn9"]) == ["cn9"]
    assert hosts[2].limits == {"seats": 1}


def test_icehouse_weighers_have_one_multiplier_for_all_hosts(weights):
    hosts = [a_host("cn1", free_disk_mb=-5), a_host("cn2")]
    hosts[1].instances.update(instances_on("cn2", instance(1), instance(2), project_id="p1"))
    asked = a_spec(project_id="p1")
    assert weights("OwnProjectWeigher", hosts, asked) == {"cn1": (0, 3.0), "cn2": (2, 3.0)}
    changed = {"own_project_weight_multiplier": -1.0}
    assert weights("OwnProjectWeigher", hosts, asked, **changed)["cn1"] == (0, -1.0)
    assert weights("FreeDiskWeigher", hosts, asked) == {"cn1": (0, 2.0), "cn2": (51200, 2.0)}


# Stein: request specs, aggregates, nova's CONF


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
    ids=[
        "anything",
        "hint",
        "list hint",
        "unknown tier",
        "rescheduled",
        "number",
        "text",
        "group",
        "size",
    ],
)
def test_stein_filter_reads_the_request_spec(passing, fields, passed):
    hosts = [
        a_host("cn1", aggregates=aggregates({"tier": "gold,silver", "rank": "1"})),
        a_host("cn2", aggregates=aggregates({"rank": "2", "cpu_allocation_ratio": "2.0"})),
        a_host("cn3"),
        a_host("cn4", service=a_service(disabled=True)),
    ]
    every = [host.host for host in hosts]
    assert passing("TierFilter", hosts, a_spec(**fields)) == (every if passed == "all" else passed)


def test_stein_weigher_asks_for_the_multiplier_of_each_host(weights):
    hosts = [
        a_host("cn1", free_ram_mb=-1, aggregates=aggregates({"ram_weight_multiplier": "0.5"})),
        a_host("cn2", free_ram_mb=99999, aggregates=aggregates({"ram_weight_multiplier": "much"})),
        a_host("cn3", aggregates=aggregates(*[{"ram_weight_multiplier": n} for n in ("3", "-1")])),
        a_host("cn4"),
    ]
    assert weights("TierRAMWeigher", hosts, a_spec()) == {
        "cn1": (0, 0.5),
        "cn2": (65536, 5.0),
        "cn3": (8192, -1.0),
        "cn4": (8192, 5.0),
    }
    changed = {"filter_scheduler__ram_weight_multiplier": 7.0}
    assert weights("TierRAMWeigher", hosts, a_spec(), **changed)["cn4"] == (8192, 7.0)


# Today: option groups, filter_all, what hosts report


def test_filter_of_today_compares_hosts(passing):
    noisy = a_spec({"neighbours:noisy": "true"}).flavor
    hosts = [a_host("cn1"), a_host("cn2"), a_host("cn3", metrics=({"name": "x"},))]
    hosts[0].instances.update(instances_on("cn1", instance(1), instance(2), flavor=noisy))
    hosts[1].instances.update(instances_on("cn2", instance(3), flavor=noisy))
    hosts[2].instances.update(instances_on("cn3", instance(4)))
    ask = "NoisyNeighbourFilter"
    assert passing(ask, hosts, a_spec()) == ["cn2", "cn3"]
    assert passing(ask, hosts, a_spec(), neighbours__max_noisy=0) == ["cn3"]
    assert passing(ask, hosts, a_spec(), neighbours__need_metrics=True) == ["cn3"]
    pinned = a_spec(numa_topology={"cells": [{"id": 0, "cpuset": [0], "memory": 512}]})
    assert passing(ask, hosts, pinned) == []
    elsewhere = a_spec(requested_destination={"cell": str(UUID(int=7))})
    assert passing(ask, hosts, elsewhere) == []


# In a run


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


def test_a_run_asks_all_of_them(cloud):
    asked = spec(flavor=flavor(extra_specs={"license": "yes"}), scheduler_hints={"tier": "gold"})
    told = explained(cloud, asked)
    assert [
        (each["name"], each["before"], each["after"]) for each in told.answer["funnel"]["filters"]
    ] == [("LicenseFilter", 4, 3), ("TierFilter", 3, 3), ("NoisyNeighbourFilter", 3, 3)]
    (refused,) = told.answer["funnel"]["filters"][0]["rejected"]
    assert refused == {"host": "cn4", "node": "cn4", "reason": "rejected by LicenseFilter"}
    assert [each["name"] for each in told.answer["funnel"]["weighers"]] == [
        path.partition(".")[2] for path in WEIGHERS
    ]
    assert told.hosts == ["cn2", "cn1", "cn3"]
    looser = explained(cloud, asked, licenses__licensed_hosts=["cn4", "cn1"])
    assert looser.hosts == ["cn1"]


def test_two_instances_are_placed_by_all_of_them(cloud):
    asked = spec(instance(1), instance(2), flavor=flavor(extra_specs={"license": "yes"}))
    answer = cloud.post_json("/scheduler/v1/select_destinations", {"request_spec": asked}).json
    # The project is on cn2 then, and its weigher likes that more than the rest dislike it.
    chosen = [selections[0]["service_host"] for selections in answer["selections"]]
    assert chosen == ["cn2", "cn2"]


@pytest.mark.parametrize(
    ("part", "there", "absent"),
    [
        (lambda spec: spec.image, "properties", "id"),
        (lambda spec: spec.instance_group, "policy", "uuid"),
        (lambda spec: spec.requested_destination, "host", "cell"),
        (lambda spec: spec.retry, "hosts", "cookies"),
        (lambda spec: spec.limits, "vcpu", "disk_gb"),
    ],
)
def test_parts_of_a_request_tell_what_they_have_as_novas_objects_do(part, there, absent):
    spec = a_spec(
        instance_group={"policy": "affinity"},
        requested_destination={"host": "cn1"},
        retry={"num_attempts": 1, "hosts": []},
        limits={"vcpu": 4},
    )
    assert there in part(spec)
    assert absent not in part(spec)


def test_a_clone_of_a_request_is_another_request():
    spec = a_spec({"a": "1"})
    clone = spec.obj_clone()
    assert clone == spec
    assert clone is not spec
    assert clone.flavor.extra_specs is not spec.flavor.extra_specs


def test_options_of_names_and_values_are_parsed_and_what_is_none_is_logged(caplog):
    found = parse_options(["a=1.5", "b=x", "c", "=2"], converter=float, name="weight_setting")
    assert found == [("a", 1.5)]
    assert [text.split(": ")[1][:5] for text in caplog.messages] == ["'b=x'", "'c' i", "'=2' "]
