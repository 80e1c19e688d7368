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
from tests.api.compute.hosts import HYPERVISORS, SERVICES, HostApi
from tests.conftest import Client, make_settings
from tests.exploring import scale_example_count
from tests.support.reports import NOW, node_uuid
from tests.support.scheduling import instance

SERVERS, GROUPS = "/servers", "/os-server-groups"
VERSIONS = st.sampled_from(
    [f"2.{minor}" for minor in (1, 11, 15, 26, 33, 52, 53, 63, 64, 73, 74, 75, 83, 87, 88, 96)]
)
TEXT = st.text(max_size=20)
WORDS = st.sampled_from(
    [
        *("true", "no", "1", "0", "-1", "9" * 30, "", "cn1", "s1", "ACTIVE", "x" * 300, "1e3"),
        *(node_uuid(1), node_uuid(1).upper(), instance(1), instance(1).upper()),
        *("2026-01-01", "9999-12-31T23:59:59-14:00", "0001-01-01", "enable", "force-down"),
        *("^s", "(", "[a", "(?i)S", "a{9999999}", "\\", "(?P<x>s)", "s*+", "\u0661"),
    ]
)
SEGMENT = (WORDS | TEXT).filter(lambda text: text not in {"", ".", ".."})
PATH = SEGMENT.map(lambda name: f"/{quote(name, safe='')}")
KEYS = ("limit", "offset", "all_projects", "x", *sorted(PARAMETERS))
HOST_KEYS = ("limit", "marker", "with_servers", "hypervisor_hostname_pattern", "host", "binary")
QUERY = st.lists(
    st.tuples(st.sampled_from(KEYS), WORDS | TEXT)
    | st.tuples(st.just("sort_key"), st.sampled_from(sorted(SORT_KEYS)) | TEXT)
    | st.tuples(st.just("sort_dir"), st.sampled_from(["asc", "desc"]) | TEXT),
    max_size=4,
)
HOST_QUERY = st.dictionaries(st.sampled_from(HOST_KEYS), WORDS | TEXT, max_size=3)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
CHANGE = JSON | st.fixed_dictionaries(
    {},
    optional={
        "host": st.just("cn1") | JSON,
        "binary": st.just("nova-compute") | JSON,
        "status": st.sampled_from(["enabled", "disabled"]) | JSON,
        "disabled_reason": JSON,
        "forced_down": WORDS | JSON,
    },
)
POLICY = st.sampled_from(["affinity", "anti-affinity", "soft-affinity", "legacy"])
GROUP = JSON | st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS | TEXT | JSON,
        "policy": POLICY | JSON,
        "policies": st.lists(POLICY, max_size=2) | JSON,
        "rules": JSON | st.fixed_dictionaries({}, optional={"max_server_per_host": WORDS | JSON}),
    },
)


@pytest.fixture(scope="module")
def host_api(sqlite_template, tmp_path_factory):
    """A client of an application with a host that has reported, and a recorded instance."""
    path = tmp_path_factory.mktemp("any_input") / "placement_sched.db"
    shutil.copy(sqlite_template, path)
    application = create_app(make_settings(f"sqlite:///{path}"), clock=lambda: NOW)
    hosts = HostApi(Client(application))
    hosts.report_host(1)
    hosts.record_instance(instance(1), "cn1", name="s1")
    yield hosts
    application.close()


def send_request_and_check_error(host_api, method, path, version, body=None):
    """Check that the API documents the response."""
    answer = host_api.request(method, path, body, version=version, status="*")
    if answer.status_int >= 400:
        (fault,) = answer.json.values()
        assert fault["code"] == answer.status_int, (method, path, body)
        assert answer.status_int in {400, 403, 404, 405, 501}, (method, path, body)


@pytest.mark.slow
@settings(max_examples=scale_example_count(40), deadline=None)
@given(
    version=VERSIONS,
    path=st.sampled_from(["", "/detail", "/statistics"])
    | st.tuples(PATH, st.sampled_from(["", "/uptime", "/servers"])).map("".join),
    query=HOST_QUERY,
)
def test_random_hypervisor_queries_get_documented_statuses_and_error_bodies(
    host_api, version, path, query
):
    send_request_and_check_error(
        host_api, "GET", f"{HYPERVISORS}{path}?{urlencode(query)}", version
    )


@settings(max_examples=scale_example_count(40), deadline=None)
@given(
    version=VERSIONS,
    method=st.sampled_from(["GET", "PUT", "DELETE"]),
    path=PATH | st.sampled_from(["/disable", "/disable-log-reason"]),
    body=CHANGE.filter(lambda body: body is not None),
    query=HOST_QUERY,
)
def test_random_service_changes_get_documented_statuses_and_error_bodies(
    host_api, version, method, path, body, query
):
    path = "" if method == "GET" else path
    sent = body if method == "PUT" else None
    send_request_and_check_error(
        host_api, method, f"{SERVICES}{path}?{urlencode(query)}", version, sent
    )


@settings(max_examples=scale_example_count(60), deadline=None)
@given(version=VERSIONS, path=st.sampled_from(["", "/detail"]) | PATH, query=QUERY)
def test_random_server_queries_get_documented_statuses_and_error_bodies(
    host_api, version, path, query
):
    send_request_and_check_error(host_api, "GET", f"{SERVERS}{path}?{urlencode(query)}", version)


@settings(max_examples=scale_example_count(30), deadline=None)
@given(
    version=VERSIONS,
    method=st.sampled_from(["GET", "DELETE"]),
    path=st.just("") | PATH,
    query=QUERY,
)
def test_random_group_queries_get_documented_statuses_and_error_bodies(
    host_api, version, method, path, query
):
    send_request_and_check_error(
        host_api, method if path else "GET", f"{GROUPS}{path}?{urlencode(query)}", version
    )


@settings(max_examples=scale_example_count(40), deadline=None)
@given(version=VERSIONS, group=GROUP)
def test_random_groups_are_created_or_rejected(host_api, version, group):
    send_request_and_check_error(host_api, "POST", GROUPS, version, {"server_group": group})
