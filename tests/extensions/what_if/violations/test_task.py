# SPDX-License-Identifier: Apache-2.0
"""Violations over HTTP: background computation, pages and filters."""

import pytest

from placement_sched.db.leases import Lease
from placement_sched.extensions.what_if.failover.task import store_result
from placement_sched.extensions.what_if.violations.task import VIOLATION_THREAD
from tests.extensions.what_if.violations.clouds import SSD, load, make_host, make_server
from tests.extensions.what_if.violations.queries import VIOLATIONS_PATH, compute_violations
from tests.support.statements import execute_statements


@pytest.fixture
def cloud(app):
    """A cloud whose servers need a trait that their hosts lack."""
    sizes = {"vcpus": 1, "memory_mb": 512, "root_gb": 1}
    document = {
        "traits": [SSD],
        "flavors": [{"name": "ssd", **sizes, "extra_specs": {f"trait:{SSD}": "required"}}],
        "hosts": [make_host("cn1"), make_host("cn2")],
        "instances": [
            make_server("i1", "cn1", "ssd", project="q"),
            *(make_server(f"i{number}", "cn2", "ssd") for number in (2, 3)),
        ],
    }
    statement = "UPDATE inventories SET reserved = total WHERE resource_class_id = 2 AND "
    provider = "(SELECT id FROM resource_providers WHERE name = 'cn1')"
    return load(app, document, [f"{statement}resource_provider_id = {provider}"])


def list_names(app, **query):
    violations = app.get(VIOLATIONS_PATH, query).json["violations"]
    return sorted(each["name"] for each in violations)


@pytest.mark.all_databases
def test_result_is_computed_in_the_background_and_read_in_pages(cloud):
    (error,) = cloud.get(VIOLATIONS_PATH, status=404).json["errors"]
    assert error["detail"].startswith("The violations were not computed yet")
    compute_violations(cloud)
    result = cloud.get(VIOLATIONS_PATH).json
    assert (result["servers"], result["total"], result["links"]) == (3, 3, [])
    assert result["rules"] == [
        {"rule": f"trait {SSD}", "servers": 3},
        {"rule": "over capacity", "servers": 1},
    ]
    first = cloud.get(VIOLATIONS_PATH, {"limit": "2"}).json
    second = cloud.get(first["links"][0]["href"]).json
    assert second["links"] == []
    assert first["violations"] + second["violations"] == result["violations"]
    assert second["computed_at"] == first["computed_at"] == result["computed_at"]


def test_later_computation_replaces_the_result(sqlite_app):
    load(sqlite_app, {"hosts": [make_host("cn1")]}, ())
    compute_violations(sqlite_app)
    assert sqlite_app.get(VIOLATIONS_PATH).json["servers"] == 0
    document = {"flavors": [{"name": "small", "vcpus": 1, "memory_mb": 1, "root_gb": 1}]}
    load(sqlite_app, {**document, "instances": [make_server("i1", "cn1")]}, ())
    compute_violations(sqlite_app)
    assert sqlite_app.get(VIOLATIONS_PATH).json["servers"] == 1


def test_result_can_be_filtered(cloud):
    compute_violations(cloud)
    assert list_names(cloud, host="cn2") == ["i2", "i3"]
    assert list_names(cloud, project_id="q") == ["i1"]
    assert list_names(cloud, rule="over capacity") == ["i1"]
    assert list_names(cloud, rule="trait") == ["i1", "i2", "i3"]
    assert list_names(cloud, ignore=f"trait {SSD}") == ["i1"]
    assert list_names(cloud, rule="trait", ignore="trait") == []
    ignored = cloud.get(VIOLATIONS_PATH, {"ignore": "trait"}).json
    assert ignored["rules"] == [{"rule": "over capacity", "servers": 1}]
    assert [reason["rule"] for reason in ignored["violations"][0]["reasons"]] == ["over capacity"]


@pytest.mark.parametrize(
    ("query", "detail"),
    [
        ({"host": "cn3"}, "there is no host 'cn3'. Did you mean 'cn1'?"),
        ({"rule": "trat"}, "there is no rule 'trat'. Did you mean 'trait'?"),
        ({"ignore": "RetryFiltr"}, "there is no rule 'RetryFiltr'. Did you mean 'RetryFilter'?"),
        ({"limit": "0"}, None),
        ({"marker": "x"}, None),
        ({"filter": "x"}, None),
    ],
)
def test_invalid_queries_are_400(sqlite_app, query, detail):
    load(sqlite_app, {"hosts": [make_host("cn1")]}, ())
    compute_violations(sqlite_app)
    (error,) = sqlite_app.get(VIOLATIONS_PATH, query, status=400).json["errors"]
    assert detail is None or error["detail"].startswith(detail)


def test_computation_takes_no_parameters(sqlite_app):
    (error,) = sqlite_app.post_json(VIOLATIONS_PATH, {"hosts": []}, status=400).json["errors"]
    assert "hosts" in error["detail"]


def test_second_computation_at_the_same_time_is_409(sqlite_app):
    lease = Lease(sqlite_app.app.services.database, VIOLATION_THREAD, 60)
    assert lease.is_held()
    (error,) = sqlite_app.post_json(VIOLATIONS_PATH, {}, status=409).json["errors"]
    assert error["detail"] == "the violations are being computed, read the result later"
    lease.release()
    compute_violations(sqlite_app)
    compute_violations(sqlite_app)  # the first computation has released its lease


def test_failed_computation_is_logged_and_releases_its_lease(sqlite_app, caplog):
    database = sqlite_app.app.services.database
    execute_statements(database, "ALTER TABLE sched_server_groups RENAME TO elsewhere")
    compute_violations(sqlite_app)
    assert "the violations were not computed" in caplog.text
    execute_statements(database, "ALTER TABLE elsewhere RENAME TO sched_server_groups")
    compute_violations(sqlite_app)
    assert sqlite_app.get(VIOLATIONS_PATH).json["servers"] == 0


def test_result_of_the_failover_computation_is_kept(sqlite_app):
    load(sqlite_app, {"hosts": [make_host("cn1")]}, ())
    compute_violations(sqlite_app)
    store_result(sqlite_app.app.services.scheduler)
    compute_violations(sqlite_app)
    assert sqlite_app.get("/scheduler/v1/failover_capacity").json["covered"] == 1
    assert sqlite_app.get(VIOLATIONS_PATH).json["servers"] == 0
