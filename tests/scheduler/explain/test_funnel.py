# SPDX-License-Identifier: Apache-2.0
"""Hosts that a request names and that are not there: explain warns of them, capacity refuses."""

import pytest

from placement_sched.scheduler.explain import funnel
from tests.scheduler.test_scheduler import explain
from tests.support.scheduling import report, spec


@pytest.fixture
def cloud(sqlite_app):
    node = report("bm1", host="ironic", hypervisor_hostname="bm1.cloud")
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [report("compute-01"), node])
    return sqlite_app


@pytest.mark.parametrize(
    ("key", "named", "detail"),
    [
        ("force_hosts", "compute-1", "there is no host 'compute-1'; did you mean 'compute-01'?"),
        ("ignore_hosts", "compute-1", "there is no host 'compute-1'; did you mean 'compute-01'?"),
        ("force_nodes", "bm2.cloud", "there is no node 'bm2.cloud'; did you mean 'bm1.cloud'?"),
        ("force_hosts", "xyz", "there is no host 'xyz'; there are: compute-01, ironic"),
    ],
)
def test_a_host_that_is_not_there_is_named_with_the_nearest_one(cloud, key, named, detail):
    told = explain(cloud, spec(**{key: [named]}))
    assert told["funnel"]["warnings"] == [{"key": key, "source": "request_spec", "detail": detail}]
    asked = {"request_spec": spec(**{key: [named]})}
    refused = cloud.post_json("/scheduler/v1/capacity", asked, status=404).json["errors"][0]
    assert refused["detail"].endswith(f"{detail} (at $.request_spec.{key}[0])")


@pytest.mark.parametrize(
    "named",
    [
        {"force_hosts": ["compute-01"]},
        {"ignore_hosts": ["COMPUTE-01", "ironic"]},
        {"force_nodes": ["bm1.cloud"]},
    ],
)
def test_hosts_that_are_there_are_named_without_a_warning(cloud, named):
    assert "warnings" not in explain(cloud, spec(**named))["funnel"]
    cloud.post_json("/scheduler/v1/capacity", {"request_spec": spec(**named)}, status=200)


def test_of_many_unknown_hosts_ten_are_compared_and_the_others_counted(cloud, monkeypatch):
    compared = []
    suggested = funnel.suggest_name

    def noted(noun, name, known):
        compared.append(name)
        return suggested(noun, name, known)

    monkeypatch.setattr(funnel, "suggest_name", noted)
    told = explain(cloud, spec(ignore_hosts=[f"mars-{number}" for number in range(500)]))
    warnings = told["funnel"]["warnings"]
    assert compared == [f"mars-{number}" for number in range(10)]
    assert len(warnings) == 11
    assert warnings[10]["key"] == "ignore_hosts"
    last = "and 490 more names that do not exist, the first 'mars-10'"
    assert warnings[10]["detail"] == last
