# SPDX-License-Identifier: Apache-2.0
"""Usages of a provider, a project and its users, by consumer type."""

from uuid import uuid4

import pytest

from tests.support.allocation_bodies import build_body, build_version_headers
from tests.support.providers import make_provider
from tests.support.statements import record_statements
from tests.support.versions import LATEST

pytestmark = pytest.mark.all_databases


@pytest.fixture
def provider_with_allocations(app):
    """A provider with allocations of consumers of two users and three types."""
    provider_with_allocations = make_provider(
        app.app.services.database, VCPU=8, DISK_GB=100, MEMORY_MB=64
    )
    for version, amounts, kind, owner in (
        ("1.38", {"VCPU": 1, "DISK_GB": 2}, "INSTANCE", ("p", "anna")),
        ("1.38", {"VCPU": 2}, "INSTANCE", ("p", "bert")),
        ("1.38", {"VCPU": 1}, "MIGRATION", ("p", "bert")),
        ("1.37", {"DISK_GB": 5}, "", ("p", "anna")),
        ("1.38", {"VCPU": 2}, "INSTANCE", ("q", "anna")),
    ):
        body = build_body(version, {provider_with_allocations: amounts}, kind=kind, owner=owner)
        path = f"/placement/allocations/{uuid4()}"
        app.put_json(path, body, headers=build_version_headers(version), status=204)
    return provider_with_allocations


def read_usages(app, query, version):
    return app.get(f"/placement/usages?{query}", headers=build_version_headers(version)).json[
        "usages"
    ]


def test_usages_of_a_provider_are_shown_by_class(app, provider_with_allocations):
    for version in ["1.0", LATEST]:
        path = f"/placement/resource_providers/{provider_with_allocations}/usages"
        assert app.get(path, headers=build_version_headers(version)).json == {
            "resource_provider_generation": 5,
            "usages": {"VCPU": 6, "DISK_GB": 7, "MEMORY_MB": 0},
        }, version


def test_provider_without_inventory_has_no_usages(app):
    uuid = "0a0b0c0d-0000-4000-8000-00000000000f"
    body = {"name": "bare", "uuid": uuid}
    app.post_json("/placement/resource_providers", body, headers=build_version_headers("1.20"))
    path = f"/placement/resource_providers/{uuid}/usages"
    assert app.get(path, headers=build_version_headers(LATEST)).json == {
        "resource_provider_generation": 0,
        "usages": {},
    }
    for unknown in (str(uuid4()), "bare"):
        app.get(path.replace(uuid, unknown), headers=build_version_headers(LATEST), status=404)


def test_read_of_usages_takes_one_sql_statement(app, provider_with_allocations):
    for path in ["/resource_providers/{}/usages", "/usages?project_id=p"]:
        with record_statements(app.app.services.database) as seen:
            app.get(
                "/placement" + path.format(provider_with_allocations),
                headers=build_version_headers(LATEST),
            )
        assert len(seen) == 1, path


def test_project_usages_are_summed_over_all_consumers_before_1_38(app, provider_with_allocations):
    assert read_usages(app, "project_id=p", "1.9") == {"VCPU": 4, "DISK_GB": 7}
    assert read_usages(app, "project_id=p&user_id=bert", "1.37") == {"VCPU": 3}
    assert read_usages(app, "project_id=nobody", "1.9") == {}


def test_project_usages_are_by_consumer_type_from_1_38(app, provider_with_allocations):
    unknown = {"DISK_GB": 5, "consumer_count": 1}
    migration = {"VCPU": 1, "consumer_count": 1}
    assert read_usages(app, "project_id=p", "1.38") == {
        "INSTANCE": {"VCPU": 3, "DISK_GB": 2, "consumer_count": 2},
        "MIGRATION": migration,
        "unknown": unknown,
    }
    assert read_usages(app, "project_id=p&consumer_type=unknown", "1.38") == {"unknown": unknown}
    assert read_usages(app, "project_id=p&user_id=bert&consumer_type=MIGRATION", LATEST) == {
        "MIGRATION": migration
    }
    assert read_usages(app, "project_id=p&consumer_type=NO_SUCH", "1.38") == {}


def test_usages_for_consumer_type_all_are_summed_over_all_types(app, provider_with_allocations):
    assert read_usages(app, "project_id=p&consumer_type=all", "1.38") == {
        "all": {"VCPU": 4, "DISK_GB": 7, "consumer_count": 4}
    }
    assert read_usages(app, "project_id=nobody&consumer_type=all", "1.38") == {}


def test_malformed_queries_of_usages_are_400(sqlite_app):
    for query, version in [
        ("", "1.9"),
        ("user_id=u", "1.9"),
        ("project_id=", "1.9"),
        ("project_id=p&user_id=", "1.9"),
        (f"project_id={'x' * 256}", "1.9"),
        ("project_id=p&surprise=1", LATEST),
        ("project_id=p&consumer_type=INSTANCE", "1.37"),
        ("project_id=p&consumer_type=instance", "1.38"),
        ("project_id=p&consumer_type=", "1.38"),
        (f"project_id=p&consumer_type={'X' * 256}", "1.38"),
    ]:
        response = sqlite_app.get(
            f"/placement/usages?{query}", headers=build_version_headers(version), status=400
        )
        assert "Invalid query string parameters" in response.text, query
    sqlite_app.get(
        "/placement/usages?project_id=p", headers=build_version_headers("1.8"), status=404
    )
