# SPDX-License-Identifier: Apache-2.0
"""``/metrics``: counters, labels and access."""

import os
import re
from time import time
from uuid import uuid4

import pytest
from webtest import TestApp

from placement_sched.api import metrics
from placement_sched.api.metrics import DIRECTORY, Metrics
from placement_sched.errors import ConfigurationError, Unavailable
from placement_sched.model.figures import CloudFigures
from placement_sched.operations import aggregates
from placement_sched.operations.gauges import CloudGauges
from tests.support.allocation_bodies import build_body
from tests.support.clouds import NOW
from tests.support.metrics import read_metric_samples
from tests.support.providers import make_provider
from tests.support.scheduling import make_flavor, make_report, make_spec
from tests.support.statements import record_statements
from tests.support.versions import LATEST, LATEST_HEADERS


def sum_metric_samples(app, name: str, **labels: str) -> float:
    return sum(read_metric_samples(app, name, **labels).values())


def test_request_is_counted_by_api_route_method_status_and_version(sqlite_app):
    for _ in range(3):
        sqlite_app.get(
            f"/placement/resource_providers/{uuid4()}", headers=LATEST_HEADERS, status=404
        )
    assert read_metric_samples(sqlite_app, "requests_total") == {
        (
            ("api", "placement"),
            ("method", "GET"),
            ("microversion", LATEST),
            ("route", "/resource_providers/<uuid>"),
            ("status", "404"),
        ): 3
    }


def test_every_response_of_an_api_is_counted(sqlite_app):
    traits, old = "/placement/traits", {"OpenStack-API-Version": "placement 1.99"}
    requests = (
        ("GET", "/placement/none", LATEST_HEADERS, {"route": "", "status": "404"}),
        ("PUT", traits, LATEST_HEADERS, {"route": "", "status": "405", "method": "PUT"}),
        ("GET", traits, {"X-Auth-Token": ""}, {"status": "401", "microversion": ""}),
        ("GET", traits, old, {"status": "406", "microversion": "", "route": "/traits"}),
        ("BREW", traits, LATEST_HEADERS, {"method": "other", "status": "405"}),
        ("GET", "/compute/v2.1/os-aggregates", {}, {"api": "compute", "microversion": "2.1"}),
        ("GET", "/scheduler/v1/hosts", {}, {"api": "scheduler", "microversion": "1.0"}),
    )
    for method, path, headers, _ in requests:
        TestApp(sqlite_app.app, lint=False).request(
            path, method=method, headers={"X-Auth-Token": "admin", **headers}, expect_errors=True
        )
    samples = read_metric_samples(sqlite_app, "requests_total")
    for *_, labels in requests:
        counts = [count for key, count in samples.items() if labels.items() <= dict(key).items()]
        assert counts == [1], labels
    assert sum(samples.values()) == len(requests)


def test_unknown_paths_and_methods_add_no_metric_labels(sqlite_app):
    for number in range(5):
        TestApp(sqlite_app.app, lint=False).request(
            f"/placement/{number}", method=f"BREW{number}", expect_errors=True
        )
    assert len(read_metric_samples(sqlite_app, "requests_total")) == 1


def test_request_latency_is_measured_by_route(sqlite_app):
    sqlite_app.get("/placement/traits", headers=LATEST_HEADERS)
    labels = {"api": "placement", "route": "/traits", "method": "GET"}
    assert sum_metric_samples(sqlite_app, "request_duration_seconds_count", **labels) == 1
    assert 0 < sum_metric_samples(sqlite_app, "request_duration_seconds_sum", **labels) < 30
    buckets = read_metric_samples(sqlite_app, "request_duration_seconds_bucket", **labels)
    assert max(buckets.values()) == buckets[(("le", "+Inf"),)] == 1


@pytest.mark.all_databases
def test_sql_statements_are_counted(app):
    app.get("/placement/resource_classes", headers=LATEST_HEADERS)
    app.get("/placement/resource_classes", headers=LATEST_HEADERS)
    labels = {"route": "/resource_classes"}
    each = sum_metric_samples(app, "request_statements_sum", **labels) / 2
    assert sum_metric_samples(app, "request_statements_count", **labels) == 2
    assert each == int(each)
    assert 1 <= each <= 3
    app.get("/placement/")
    assert sum_metric_samples(app, "request_statements_sum") == 2 * each
    assert sum_metric_samples(app, "request_statements_count") == 3


def test_number_of_found_allocation_candidates_is_counted(app, database):
    for _ in range(3):
        make_provider(database, VCPU=8)
    app.get("/placement/allocation_candidates?resources=VCPU:1", headers=LATEST_HEADERS)
    app.get("/placement/allocation_candidates?resources=VCPU:9", headers=LATEST_HEADERS)
    app.get("/placement/traits", headers=LATEST_HEADERS)
    labels = {"api": "placement", "route": "/allocation_candidates"}
    assert sum_metric_samples(app, "request_candidates_sum", **labels) == 3
    assert sum_metric_samples(app, "request_candidates_count") == 2


def put_claim(app, provider, amount, status):
    body = build_body(LATEST, {provider: {"VCPU": amount}} if amount else {})
    consumer = str(uuid4())
    app.put_json(f"/placement/allocations/{consumer}", body, headers=LATEST_HEADERS, status=status)
    return consumer


def count_claims(app, outcome):
    return sum_metric_samples(app, "claims_total", outcome=outcome)


def test_claims_won_and_lost_are_counted(app, database):
    provider = make_provider(database, VCPU=8)
    put_claim(app, provider, 6, 204)
    put_claim(app, provider, 6, 409)
    put_claim(app, provider, 2, 204)
    assert (count_claims(app, "won"), count_claims(app, "lost")) == (2, 1)


def test_malformed_writes_and_removals_are_not_counted_as_claims(sqlite_app, sqlite_database):
    provider = make_provider(sqlite_database, VCPU=8)
    put_claim(sqlite_app, provider, -1, 400)
    consumer = put_claim(sqlite_app, provider, 1, 204)
    sqlite_app.delete(f"/placement/allocations/{consumer}", headers=LATEST_HEADERS)
    put_claim(sqlite_app, provider, 0, 204)
    assert (count_claims(sqlite_app, "won"), count_claims(sqlite_app, "lost")) == (1, 0)


def test_claims_of_select_destinations_are_counted(sqlite_app):
    host = make_report("cn1")
    sqlite_app.put_json(f"/scheduler/v1/compute_nodes/{host['uuid']}", host)
    for claiming in (False, True):
        body = {"request_spec": make_spec(str(uuid4())), "claim": claiming}
        sqlite_app.post_json("/scheduler/v1/select_destinations", body)
    labels = {"api": "scheduler"}
    assert sum_metric_samples(sqlite_app, "claims_total", outcome="won", **labels) == 1
    labels["route"] = "/v1/select_destinations"
    assert sum_metric_samples(sqlite_app, "request_candidates_sum", **labels) == 2


def test_decisions_are_counted_by_outcome_policy_and_last_stage(sqlite_app):
    sqlite_app.post_json(
        "/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2", vcpus=64)]
    )
    select = "/scheduler/v1/select_destinations"
    for vcpus in (1, 1, 999):
        body = {"request_spec": make_spec(flavor=make_flavor(vcpus=vcpus)), "claim": False}
        sqlite_app.post_json(select, body, status=200 if vcpus == 1 else 409)
    impossible = make_spec(ignore_hosts=["cn1", "cn2"])
    sqlite_app.post_json(select, {"request_spec": impossible}, status=409)
    sqlite_app.post_json(
        "/scheduler/v1/explain", {"request_spec": make_spec()}
    )  # is not a decision
    samples = read_metric_samples(sqlite_app, "scheduler_decisions_total", policy="default")
    assert {tuple(value for _, value in key): number for key, number in samples.items()} == {
        ("", "selected", ""): 2,
        ("resources", "no_valid_host", "allocation_candidates"): 1,
        ("ignore_hosts", "no_valid_host", "filters"): 1,
    }


def count_failures(app):
    samples = read_metric_samples(app, "scheduler_no_valid_host_total")
    return {tuple(dict(key).values()): number for key, number in samples.items()}


def test_failed_requests_are_counted_by_kind_of_reason_and_resource_class(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    select = "/scheduler/v1/select_destinations"
    for changes in (
        {"flavor": make_flavor(vcpus=999)},
        {"flavor": make_flavor(vcpus=998)},
        {"flavor": make_flavor(memory_mb=10**6)},
        {"ignore_hosts": ["cn1", "cn2"]},
    ):
        body = {"request_spec": make_spec(**changes), "claim": False}
        sqlite_app.post_json(select, body, status=409)
    sqlite_app.post_json(select, {"request_spec": make_spec()})
    assert count_failures(sqlite_app) == {
        ("capacity", "VCPU"): 2,
        ("capacity", "MEMORY_MB"): 1,
        ("ignored_host", ""): 1,
    }


def test_custom_resource_classes_after_the_first_share_a_label(sqlite_app, monkeypatch):
    monkeypatch.setattr(metrics, "MAX_METRIC_NAMES", 2)
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    names = [f"CUSTOM_{letter}" for letter in "ABCDA"]
    for name in names:
        sqlite_app.put(
            f"/placement/resource_classes/{name}",
            headers={"OpenStack-API-Version": "placement 1.7"},
        )
        flavor = make_flavor(extra_specs={f"resources:{name}": "1"})
        body = {"request_spec": make_spec(flavor=flavor), "claim": False}
        sqlite_app.post_json("/scheduler/v1/select_destinations", body, status=409)
    body = {"request_spec": make_spec(flavor=make_flavor(vcpus=999)), "claim": False}
    sqlite_app.post_json("/scheduler/v1/select_destinations", body, status=409)
    assert count_failures(sqlite_app) == {
        ("capacity", "CUSTOM_A"): 2,
        ("capacity", "CUSTOM_B"): 1,
        ("capacity", "other"): 2,
        ("capacity", "VCPU"): 1,
    }


def test_duration_of_each_stage_is_observed_once_per_request_of_several_instances(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), make_report("cn2")])
    request_spec = {key: value for key, value in make_spec().items() if key != "instance_uuids"}
    body = {"request_spec": {**request_spec, "num_instances": 3}}
    sqlite_app.post_json("/scheduler/v1/select_destinations", body)
    samples = read_metric_samples(sqlite_app, "scheduler_stage_duration_seconds_count")
    assert {stage: number for ((_, stage),), number in samples.items()} == {
        "request_filters": 1,
        "search": 1,
        "host_states": 1,
        "filters": 1,
        "weighers": 1,
        "claim": 1,
    }


def test_cloud_metrics_have_labels_of_class_and_zone(app, database):
    """cn1 is in az1, cn2 in no zone and silent, cn3 disabled."""
    silent = make_report("cn2", last_seen_up="2020-01-01T00:00:00Z")
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1"), silent, make_report("cn3")])

    def create_zone(connection):
        aggregate = aggregates.create(connection, str(uuid4()), "zone", "az1", NOW)
        aggregates.add_hosts(connection, aggregate.id, ["cn1"], NOW)

    database.write(create_zone)
    headers = {"OpenStack-API-Version": "compute 2.53"}
    path = "/compute/v2.1/os-services"
    (service,) = app.get(f"{path}?host=cn3", headers=headers).json["services"]
    app.put_json(f"{path}/{service['id']}", {"status": "disabled"}, headers=headers)
    placed = make_spec(force_hosts=["cn1"], flavor=make_flavor(vcpus=4))
    app.post_json("/scheduler/v1/select_destinations", {"request_spec": placed})
    hosts = {state: number for ((_, state),), number in read_metric_samples(app, "hosts").items()}
    assert hosts == {"up": 1, "down": 1, "disabled": 1}
    free = read_metric_samples(app, "resources_free", resource_class="VCPU")
    used = read_metric_samples(app, "resources_used", resource_class="VCPU")
    assert free == {(("zone", "az1"),): 60, (("zone", "nova"),): 128}
    assert used == {(("zone", "az1"),): 4, (("zone", "nova"),): 0}


def test_cloud_metrics_are_read_at_most_once_a_minute(sqlite_app):
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    assert sum_metric_samples(sqlite_app, "hosts") == 1
    sqlite_app.post_json("/scheduler/v1/compute_nodes", [make_report("cn2")])
    with record_statements(sqlite_app.app.services.database) as seen:
        assert sum_metric_samples(sqlite_app, "hosts") == 1
    assert len(seen) == 0


def test_worker_processes_share_cloud_metrics(tmp_path):
    read = []

    def read_cloud_figures():
        read.append(1)
        return CloudFigures({"up": len(read)}, {("VCPU", "az1"): 8}, {("VCPU", "az1"): 3})

    first, second = (CloudGauges(read_cloud_figures, str(tmp_path)) for _ in range(2))
    shown = [
        {
            (gauge.name, *sample.labels.values()): sample.value
            for gauge in each
            for sample in gauge.samples
        }
        for each in (list(first.collect()), list(second.collect()))
    ]
    assert shown[0] == shown[1]
    assert shown[0]["placement_sched_resources_free", "VCPU", "az1"] == 5
    assert len(read) == 1


def test_cloud_metrics_are_reread_after_the_clock_went_back(tmp_path):
    read = []

    def read_cloud_figures():
        read.append(1)
        return CloudFigures({"up": len(read)}, {}, {})

    list(CloudGauges(read_cloud_figures, str(tmp_path)).collect())
    (file,) = tmp_path.iterdir()
    ahead = time() + 365 * 86_400
    os.utime(file, (ahead, ahead))
    (hosts, *_) = CloudGauges(read_cloud_figures, str(tmp_path)).collect()
    assert [sample.value for sample in hosts.samples] == [2]


def test_cloud_metrics_are_absent_while_the_database_is_unavailable():
    def raise_unavailable():
        raise Unavailable("away")

    assert list(CloudGauges(raise_unavailable, None).collect()) == []


def test_metrics_of_two_applications_in_one_process_are_separate(sqlite_settings, make_app):
    first, second = make_app(sqlite_settings), make_app(sqlite_settings)
    first.get("/placement/traits", headers=LATEST_HEADERS)
    assert sum_metric_samples(first, "requests_total") == 1
    assert sum_metric_samples(second, "requests_total") == 0


def test_metrics_need_no_token_are_read_only_and_in_text_or_openmetrics_format(sqlite_app):
    client = TestApp(sqlite_app.app)
    assert client.get("/metrics").content_type == "text/plain"
    openmetrics = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert openmetrics.content_type == "application/openmetrics-text"
    assert openmetrics.text.endswith("# EOF\n")
    assert client.post("/metrics", status=405).headers["Allow"] == "GET, HEAD"
    assert client.head("/metrics").body == b""
    client.get("/metrics/elsewhere", status=404)


def test_missing_metrics_directory_is_reported_at_start(monkeypatch, tmp_path):
    monkeypatch.setenv(DIRECTORY, str(tmp_path / "none"))
    with pytest.raises(ConfigurationError, match=re.escape(str(tmp_path / "none"))):
        Metrics()


def test_timeout_of_an_exhausted_connection_pool_is_counted(make_configured_app):
    config = "[placement_database]\nmax_pool_size = 1\nmax_overflow = 0\npool_timeout = 0\n"
    app = make_configured_app(config)
    headers = {**LATEST_HEADERS, "X-Auth-Token": "admin"}
    app.get("/placement/traits", headers=headers)
    assert sum_metric_samples(app, "database_pool_timeouts_total") == 0
    with app.app.services.database.read():
        app.get("/placement/traits", headers=headers, status=503)
    assert sum_metric_samples(app, "database_pool_timeouts_total") == 1
