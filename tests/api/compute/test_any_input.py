# SPDX-License-Identifier: Apache-2.0
"""Requests of the compute API with random input get documented responses."""

import shutil
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_sched.api.compute.servers import PARAMETERS
from placement_sched.app import create_app
from placement_sched.store.compute.instances import SORT_KEYS
from tests.api.compute.hosts import HYPERVISORS_PATH, SERVICES_PATH, HostApi
from tests.conftest import AdminClient, make_settings
from tests.exploring import scale_example_count
from tests.support.reports import NOW, node_uuid
from tests.support.scheduling import make_uuid

SERVERS_PATH, SERVER_GROUPS_PATH = "/servers", "/os-server-groups"
MIGRATIONS_PATH = "/os-migrations"
MICROVERSIONS = st.sampled_from(
    [
        f"2.{minor}"
        for minor in (1, 11, 15, 26, 33, 52, 53, 59, 63, 64, 66, 73, 74, 75, 80, 87, 88, 96)
    ]
)
SHORT_TEXTS = st.text(max_size=20)
QUERY_VALUES = st.sampled_from(
    [
        *("true", "no", "1", "0", "-1", "9" * 30, "", "cn1", "s1", "ACTIVE", "x" * 300, "1e3"),
        *(node_uuid(1), node_uuid(1).upper(), make_uuid(1), make_uuid(1).upper()),
        *("2026-01-01", "9999-12-31T23:59:59-14:00", "0001-01-01", "enable", "force-down"),
        *("^s", "(", "[a", "(?i)S", "a{9999999}", "\\", "(?P<x>s)", "s*+", "\u0661"),
    ]
)
PATH_SEGMENTS = (QUERY_VALUES | SHORT_TEXTS).filter(lambda text: text not in {"", ".", ".."})
ITEM_PATHS = PATH_SEGMENTS.map(lambda name: f"/{quote(name, safe='')}")
SERVER_QUERY_KEYS = ("limit", "offset", "all_projects", "x", *sorted(PARAMETERS))
HOST_QUERY_KEYS = (
    *("limit", "marker", "with_servers", "hypervisor_hostname_pattern", "host", "binary"),
)
SERVER_QUERIES = st.lists(
    st.tuples(st.sampled_from(SERVER_QUERY_KEYS), QUERY_VALUES | SHORT_TEXTS)
    | st.tuples(st.just("sort_key"), st.sampled_from(sorted(SORT_KEYS)) | SHORT_TEXTS)
    | st.tuples(st.just("sort_dir"), st.sampled_from(["asc", "desc"]) | SHORT_TEXTS),
    max_size=4,
)
MIGRATION_QUERY_KEYS = (
    *("hidden", "host", "instance_uuid", "migration_type", "source_compute", "status", "limit"),
    *("marker", "changes-since", "changes-before", "user_id", "project_id", "x"),
)
MIGRATION_QUERIES = st.lists(
    st.tuples(st.sampled_from(MIGRATION_QUERY_KEYS), QUERY_VALUES | SHORT_TEXTS), max_size=3
)
HOST_QUERIES = st.dictionaries(
    st.sampled_from(HOST_QUERY_KEYS), QUERY_VALUES | SHORT_TEXTS, max_size=3
)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | SHORT_TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(SHORT_TEXTS, inner, max_size=2),
    max_leaves=4,
)
SERVICE_CHANGES = JSON_VALUES | st.fixed_dictionaries(
    {},
    optional={
        "host": st.just("cn1") | JSON_VALUES,
        "binary": st.just("nova-compute") | JSON_VALUES,
        "status": st.sampled_from(["enabled", "disabled"]) | JSON_VALUES,
        "disabled_reason": JSON_VALUES,
        "forced_down": QUERY_VALUES | JSON_VALUES,
    },
)
SERVER_GROUP_POLICIES = st.sampled_from(["affinity", "anti-affinity", "soft-affinity", "legacy"])
SERVER_GROUP_FIELDS = JSON_VALUES | st.fixed_dictionaries(
    {},
    optional={
        "name": QUERY_VALUES | SHORT_TEXTS | JSON_VALUES,
        "policy": SERVER_GROUP_POLICIES | JSON_VALUES,
        "policies": st.lists(SERVER_GROUP_POLICIES, max_size=2) | JSON_VALUES,
        "rules": JSON_VALUES
        | st.fixed_dictionaries({}, optional={"max_server_per_host": QUERY_VALUES | JSON_VALUES}),
    },
)


@pytest.fixture(scope="module")
def host_api(sqlite_template, tmp_path_factory):
    """A client of an application with a host that has reported, and a recorded instance."""
    path = tmp_path_factory.mktemp("any_input") / "placement_sched.db"
    shutil.copy(sqlite_template, path)
    application = create_app(make_settings(f"sqlite:///{path}"), clock=lambda: NOW)
    hosts = HostApi(AdminClient(application))
    hosts.report_host(1)
    hosts.record_instance(make_uuid(1), "cn1", name="s1")
    yield hosts
    application.close()


def send_request_and_check_error(host_api, method, path, version, body=None):
    """Check that the API documents the response."""
    response = host_api.request(method, path, body, version=version, status="*")
    if response.status_int >= 400:
        (fault,) = response.json.values()
        assert fault["code"] == response.status_int, (method, path, body)
        assert response.status_int in {400, 403, 404, 405, 501}, (method, path, body)


@pytest.mark.slow
@settings(max_examples=scale_example_count(40), deadline=None)
@given(
    version=MICROVERSIONS,
    path=st.sampled_from(["", "/detail", "/statistics"])
    | st.tuples(ITEM_PATHS, st.sampled_from(["", "/uptime", "/servers"])).map("".join),
    query=HOST_QUERIES,
)
def test_random_hypervisor_queries_get_documented_statuses_and_error_bodies(
    host_api, version, path, query
):
    send_request_and_check_error(
        host_api, "GET", f"{HYPERVISORS_PATH}{path}?{urlencode(query)}", version
    )


@settings(max_examples=scale_example_count(40), deadline=None)
@given(
    version=MICROVERSIONS,
    method=st.sampled_from(["GET", "PUT", "DELETE"]),
    path=ITEM_PATHS | st.sampled_from(["/disable", "/disable-log-reason"]),
    body=SERVICE_CHANGES.filter(lambda body: body is not None),
    query=HOST_QUERIES,
)
def test_random_service_changes_get_documented_statuses_and_error_bodies(
    host_api, version, method, path, body, query
):
    path = "" if method == "GET" else path
    sent = body if method == "PUT" else None
    send_request_and_check_error(
        host_api, method, f"{SERVICES_PATH}{path}?{urlencode(query)}", version, sent
    )


@settings(max_examples=scale_example_count(60), deadline=None)
@given(
    version=MICROVERSIONS, path=st.sampled_from(["", "/detail"]) | ITEM_PATHS, query=SERVER_QUERIES
)
def test_random_server_queries_get_documented_statuses_and_error_bodies(
    host_api, version, path, query
):
    send_request_and_check_error(
        host_api, "GET", f"{SERVERS_PATH}{path}?{urlencode(query)}", version
    )


@settings(max_examples=scale_example_count(40), deadline=None)
@given(version=MICROVERSIONS, query=MIGRATION_QUERIES)
def test_random_migration_queries_get_documented_statuses_and_error_bodies(
    host_api, version, query
):
    path = f"{MIGRATIONS_PATH}?{urlencode(query)}"
    send_request_and_check_error(host_api, "GET", path, version)


@settings(max_examples=scale_example_count(30), deadline=None)
@given(
    version=MICROVERSIONS,
    method=st.sampled_from(["GET", "DELETE"]),
    path=st.just("") | ITEM_PATHS,
    query=SERVER_QUERIES,
)
def test_random_server_group_queries_get_documented_statuses_and_error_bodies(
    host_api, version, method, path, query
):
    send_request_and_check_error(
        host_api,
        method if path else "GET",
        f"{SERVER_GROUPS_PATH}{path}?{urlencode(query)}",
        version,
    )


@settings(max_examples=scale_example_count(40), deadline=None)
@given(version=MICROVERSIONS, group=SERVER_GROUP_FIELDS)
def test_random_server_groups_are_created_or_rejected(host_api, version, group):
    send_request_and_check_error(
        host_api, "POST", SERVER_GROUPS_PATH, version, {"server_group": group}
    )
