# SPDX-License-Identifier: Apache-2.0
"""Hosts with unknown values: filters pass them, and weighers are neutral."""

import pytest

from placement_sched.errors import Conflict, NotExamined
from placement_sched.explain.values import Unexamined
from placement_sched.model.compute_node import UNKNOWN_FIELDS
from placement_sched.scheduler.filtering import list_rejections, run_filters
from placement_sched.scheduler.filters import BaseHostFilter, Rejection
from placement_sched.scheduler.host_state import UNKNOWN_ATTRIBUTES, get_known, make_host_state
from placement_sched.scheduler.weights import BaseHostWeigher, IncrementalWeighing, run_weighers
from placement_sched.schemas.formats import DocumentError
from placement_sched.schemas.node_report import Defaults, read_report
from tests.support.reports import NOW, build_report
from tests.support.states import build_spec

SPEC = build_spec()


def build_host(name, **report):
    document = build_report(host=name, hypervisor_hostname=name, **report)
    return make_host_state(read_report(document, Defaults(now=NOW), in_file=True).node)


@pytest.fixture
def hosts():
    """Return a complete host, and hosts without ``stats`` or NUMA cells."""
    return [
        build_host("cn1", stats={"builds": "7"}),
        build_host("cn2", unknown=["stats"]),
        build_host("cn3", stats={"builds": "9"}, unknown=["numa_topology"]),
    ]


class BuildsFilter(BaseHostFilter):
    """A filter that reads ``stats`` of every host."""

    def rejection(self, host_state, _spec):
        return Rejection("9 builds") if host_state.stats["builds"] == "9" else None


class NovaBuildsFilter(BaseHostFilter):
    """A filter as nova's, which reads all hosts before its first result."""

    def filter_all(self, filter_obj_list, _spec):
        builds = [host.stats["builds"] for host in filter_obj_list]
        return [host for host, text in zip(filter_obj_list, builds, strict=True) if text != "9"]


class BuildsWeigher(BaseHostWeigher):
    by_host = True

    def weigh_hosts(self, hosts, _spec):
        return [float(host.stats["builds"]) for host in hosts]


class NovaBuildsWeigher(BaseHostWeigher):
    def _weigh_object(self, host_state, _spec):
        return float(host_state.stats["builds"])


@pytest.mark.parametrize("name", UNKNOWN_ATTRIBUTES)
def test_unknown_attribute_raises_an_error_that_hasattr_does_not_hide(name):
    state = build_host("cn1", unknown=[UNKNOWN_ATTRIBUTES[name]])
    with pytest.raises(NotExamined) as caught:
        getattr(state, name)
    assert caught.value.field == UNKNOWN_ATTRIBUTES[name]
    with pytest.raises(NotExamined):
        hasattr(state, name)
    assert get_known(state, name) is None


def test_host_with_all_fields_unknown_keeps_its_amounts_and_takes_instances():
    state = build_host("cn1", stats={"num_instances": 3}, unknown=list(UNKNOWN_FIELDS))
    free, numa = state.free_ram_mb, {"cells": [{"cpuset": [0], "memory": 512}]}
    state.consume_from_request(build_spec(numa_topology=numa))
    assert (state.num_instances, state.free_ram_mb < free) == (4, True)
    assert "io_ops: None instances: 4" in repr(state)
    with pytest.raises(AttributeError):
        _ = state.no_such_attribute


@pytest.mark.parametrize("filter_class", [BuildsFilter, NovaBuildsFilter])
def test_host_that_a_filter_cannot_examine_passes_and_is_reported(filter_class, hosts):
    run = run_filters([filter_class()], hosts, SPEC)
    assert [host.host for host in run.hosts] == ["cn1", "cn2"]
    (report,) = run.reports
    assert (report.before, report.after) == (3, 2)
    assert [each.host for each in report.rejected] == ["cn3"]
    assert report.unexamined == (Unexamined("cn2", "cn2", "stats"),)
    assert report.as_json()["not_examined"] == [{"host": "cn2", "node": "cn2", "field": "stats"}]
    rejections = list_rejections(hosts, SPEC, [filter_class()], {})
    assert [[name for name, _ in each] for each in rejections] == [[], [], [filter_class.__name__]]


def test_report_of_a_filter_that_examined_all_hosts_has_no_further_key(hosts):
    (report,) = run_filters([BuildsFilter()], hosts[:1], SPEC).reports
    assert "not_examined" not in report.as_json()


@pytest.mark.parametrize("weigher_class", [BuildsWeigher, NovaBuildsWeigher])
def test_weigher_of_an_unknown_value_gives_all_hosts_the_same_weight(weigher_class, hosts):
    run = run_weighers([weigher_class()], hosts, SPEC)
    assert [(host.obj.host, host.weight) for host in run.hosts] == [
        ("cn1", 0.0), ("cn2", 0.0), ("cn3", 0.0)
    ]  # fmt: skip
    assert run.reports[0].as_json()["not_examined"] == "stats"
    run = run_weighers([weigher_class()], [hosts[0], hosts[2]], SPEC)
    assert [host.obj.host for host in run.hosts] == ["cn3", "cn1"]
    assert "not_examined" not in run.reports[0].as_json()


def test_later_instances_are_weighed_without_the_unknown_values(hosts):
    weighing = IncrementalWeighing([BuildsWeigher()])
    for _ in range(2):
        run = weighing.weigh(hosts, SPEC)
        assert [host.weight for host in run.hosts] == [0.0, 0.0, 0.0]


def test_only_a_fleet_file_may_have_unknown_fields():
    with pytest.raises(DocumentError, match="unknown"):
        read_report(build_report(unknown=["stats"]), Defaults(now=NOW))
    with pytest.raises(DocumentError, match="memory_mb"):
        read_report(build_report(unknown=["memory_mb"]), Defaults(now=NOW), in_file=True)


def test_error_is_a_conflict_with_the_field():
    error = NotExamined("stats")
    assert isinstance(error, Conflict)
    assert error.detail == "stats of the host is unknown"
