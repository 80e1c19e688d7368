# SPDX-License-Identifier: Apache-2.0
"""Nova-managed clouds: objects that are read from nova's databases are not changed."""

import re

import pytest

from placement_sched.app import APIS
from placement_sched.operations.nova_cloud import NovaObjectKind, is_read_from_nova
from tests.support.policies import settings_with_policies
from tests.support.scheduling import make_report
from tests.support.versions import LATEST_HEADERS

#: Makes a cloud nova-managed. No test connects to this database.
NOVA_DATABASE_OPTION = {"api_database.connection": "mysql+pymysql://nova:secret@db/nova_api"}
ROUTES_OF_NOVA_OBJECTS = [
    (api.name, route) for api in APIS for route in api.routes if route.changes
]
NODE_UUID = "11111111-2222-3333-4444-555555555555"
COMPUTE_HEADERS = {"OpenStack-API-Version": "compute 2.96"}


@pytest.fixture
def nova_managed_app(make_app, sqlite_settings):
    """An application with a nova-managed cloud."""
    return make_app(sqlite_settings.with_overrides(NOVA_DATABASE_OPTION))


def check_code_and_get_error_text(response):
    """Return the text of an error of any API."""
    document = response.json
    if "errors" in document:
        (error,) = document["errors"]
        assert error["code"] == "scheduler.read_from_nova"
        return error["detail"]
    (error,) = document.values()
    assert error["code"] == 409
    return error["message"]


@pytest.mark.parametrize(
    ("api", "route"),
    ROUTES_OF_NOVA_OBJECTS,
    ids=lambda value: value if isinstance(value, str) else value.path,
)
def test_write_to_nova_managed_object_is_rejected_with_advice(nova_managed_app, api, route):
    path = re.sub(r"<[^>]+>", NODE_UUID, f"/{api}{route.path}")
    body = {route.action: {}} if route.action else {}
    version = min(route.until, (2, 96))
    headers = {"OpenStack-API-Version": f"compute {version[0]}.{version[1]}"}
    headers = headers if api == "compute" else {}
    ask = getattr(nova_managed_app, f"{route.method.lower()}_json")
    response = ask(path, body, headers=headers, status=409)
    detail = check_code_and_get_error_text(response)
    assert detail == route.changes.rejection
    things, where = route.changes.value
    assert detail.startswith(things)
    assert detail.endswith(f"{where}.")
    assert "secret" not in response.text


def test_every_write_of_nova_managed_resources_is_rejected():
    expected = {
        (api, route.method, route.path, route.action)
        for api, route in ROUTES_OF_NOVA_OBJECTS
        if route.method != "GET"
    }
    nouns = ("os-aggregates", "os-services", "os-server-groups", "compute_nodes", "instances")
    writes = {
        (api.name, route.method, route.path, route.action)
        for api in APIS
        for route in api.routes
        if route.method != "GET" and api.name in {"compute", "scheduler"}
        if route.path.split("/")[2:3] and route.path.split("/")[2] in nouns
    }
    (caching,) = writes - expected
    assert caching[2].endswith("/images")  # the caching of images changes nothing in nova
    assert expected <= writes
    assert {route.changes for _, route in ROUTES_OF_NOVA_OBJECTS} == set(NovaObjectKind)


def test_reads_of_nova_managed_objects_are_200_and_unauthorized_writes_403(nova_managed_app):
    for path in ("os-aggregates", "os-services", "os-server-groups", "os-hypervisors"):
        nova_managed_app.get(f"/compute/v2.1/{path}", headers=COMPUTE_HEADERS, status=200)
    nova_managed_app.get("/scheduler/v1/compute_nodes", status=200)
    nova_managed_app.get("/scheduler/v1/instances", status=200)
    stranger = {"X-Auth-Token": "eve:bank"}
    nova_managed_app.post_json("/compute/v2.1/os-aggregates", {}, headers=stranger, status=403)


def test_provider_creation_and_explain_are_200_in_nova_managed_mode(nova_managed_app):
    provider = {"name": "cn1", "uuid": NODE_UUID}
    nova_managed_app.post_json(
        "/placement/resource_providers", provider, headers=LATEST_HEADERS, status=200
    )
    body = {"request_spec": {"flavor": {"vcpus": 1, "memory_mb": 512}, "num_instances": 1}}
    nova_managed_app.post_json("/scheduler/v1/explain", body, status=200)


def test_nova_managed_mode_requires_the_api_database_url(sqlite_settings):
    assert is_read_from_nova(sqlite_settings.with_overrides(NOVA_DATABASE_OPTION))
    assert not is_read_from_nova(sqlite_settings)
    assert not is_read_from_nova(sqlite_settings.with_overrides({"api_database.connection": ""}))


def test_policies_change_no_ratios_in_nova_managed_mode(make_app, sqlite_url, tmp_path):
    (tmp_path / "before").mkdir()
    app = make_app(
        settings_with_policies(
            sqlite_url, tmp_path / "before", "[dense]\ncpu_allocation_ratio = 2.0\n"
        )
    )
    app.post_json("/scheduler/v1/compute_nodes", [make_report("cn1")])
    body = {"aggregate": {"name": "dense"}}
    aggregate = app.post_json("/compute/v2.1/os-aggregates", body).json["aggregate"]
    action = f"/compute/v2.1/os-aggregates/{aggregate['id']}/action"
    app.post_json(action, {"set_metadata": {"metadata": {"sched_policy": "dense"}}})
    app.post_json(action, {"add_host": {"host": "cn1"}})
    assert read_cpu_ratio(app) == 2.0
    denser = settings_with_policies(sqlite_url, tmp_path, "[dense]\ncpu_allocation_ratio = 8.0\n")
    assert read_cpu_ratio(make_app(denser.with_overrides(NOVA_DATABASE_OPTION))) == 2.0
    assert read_cpu_ratio(make_app(denser)) == 8.0


def read_cpu_ratio(app):
    """Return the allocation ratio of the virtual CPUs of the only provider."""
    (provider,) = app.get("/placement/resource_providers").json["resource_providers"]
    path = f"/placement/resource_providers/{provider['uuid']}/inventories"
    return app.get(path).json["inventories"]["VCPU"]["allocation_ratio"]
