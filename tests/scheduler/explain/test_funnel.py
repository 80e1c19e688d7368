# SPDX-License-Identifier: Apache-2.0
"""Warnings about unknown hosts of a request.

Summary of a funnel in the log line of a slow request.
"""

import pytest

from placement_sched.scheduler.explain import funnel
from tests.support.clouds import uuid_of
from tests.support.scheduling import explain_request, make_flavor, make_report, make_spec
from tests.support.versions import LATEST_HEADERS


@pytest.fixture(scope="module")
def cloud(make_shared_app):
    app = make_shared_app()
    node = make_report("bm1", host="ironic", hypervisor_hostname="bm1.cloud")
    app.post_json("/scheduler/v1/compute_nodes", [make_report("compute-01"), node])
    return app


@pytest.mark.parametrize(
    ("key", "named", "detail"),
    [
        ("force_hosts", "compute-1", "there is no host 'compute-1'. Did you mean 'compute-01'?"),
        ("ignore_hosts", "compute-1", "there is no host 'compute-1'. Did you mean 'compute-01'?"),
        ("force_nodes", "bm2.cloud", "there is no node 'bm2.cloud'. Did you mean 'bm1.cloud'?"),
        ("force_hosts", "xyz", "there is no host 'xyz'. There are: compute-01, ironic"),
    ],
)
def test_unknown_host_in_a_request_is_a_warning_with_the_nearest_name(cloud, key, named, detail):
    response = explain_request(cloud, make_spec(**{key: [named]}))
    warnings = response["funnel"]["warnings"]
    assert warnings == [{"key": key, "source": "request_spec", "detail": detail}]


@pytest.mark.parametrize(
    "named",
    [
        {"force_hosts": ["compute-01"]},
        {"ignore_hosts": ["COMPUTE-01", "ironic"]},
        {"force_nodes": ["bm1.cloud"]},
    ],
)
def test_existing_hosts_in_a_request_cause_no_warning(cloud, named):
    assert "warnings" not in explain_request(cloud, make_spec(**named))["funnel"]


def test_at_most_ten_unknown_hosts_have_a_warning(cloud, monkeypatch):
    compared = []
    suggested = funnel.suggest_name

    def record_compared_name(noun, name, names):
        compared.append(name)
        return suggested(noun, name, names)

    monkeypatch.setattr(funnel, "suggest_name", record_compared_name)
    response = explain_request(
        cloud, make_spec(ignore_hosts=[f"mars-{number}" for number in range(500)])
    )
    warnings = response["funnel"]["warnings"]
    assert compared == [f"mars-{number}" for number in range(10)]
    assert len(warnings) == 11
    assert warnings[10]["key"] == "ignore_hosts"
    last = "and 490 more names without a host or node, such as 'mars-10'"
    assert warnings[10]["detail"] == last


def test_roots_without_compute_node_are_no_hosts_and_no_near_miss(sqlite_app):
    reports = [make_report(name, memory_mb=1024) for name in ("cn1", "cn2")]
    sqlite_app.post_json("/scheduler/v1/compute_nodes", reports)
    large = {"MEMORY_MB": {"total": 65536}, "VCPU": {"total": 64}, "DISK_GB": {"total": 1000}}
    segment = {"IPV4_ADDRESS": {"total": 200}}
    for name, inventories in (("old2", large), ("old1", large), ("segment", segment)):
        body = {"name": name, "uuid": uuid_of(name)}
        sqlite_app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)
        path = f"/placement/resource_providers/{uuid_of(name)}/inventories"
        body = {"inventories": inventories, "resource_provider_generation": 0}
        sqlite_app.put_json(path, body, headers=LATEST_HEADERS)
    flavor = make_flavor(memory_mb=4096, extra_specs={"trait:HW_CPU_X86_AVX2": "required"})
    explained = explain_request(sqlite_app, make_spec(flavor=flavor))["funnel"]
    candidates = explained["allocation_candidates"]
    assert (candidates["providers"], candidates["hosts"]) == (2, 0)
    assert [miss["hosts"] for miss in candidates["nearest_misses"]] == [2]
    assert "MEMORY_MB" in str(candidates["nearest_misses"])
    assert explained["warnings"] == [
        {
            "key": "compute_nodes",
            "source": "providers",
            "detail": "2 root providers have the resources but no compute node, so that no "
            "instance is placed there: old1, old2",
        }
    ]
