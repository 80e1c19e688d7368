# SPDX-License-Identifier: Apache-2.0
"""Requests with random input for services and hypervisors get documented responses."""

import shutil
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_sched.app import create_app
from tests.api.compute.hosts import HYPERVISORS, SERVICES, HostApi
from tests.conftest import Client, make_settings
from tests.exploring import draws
from tests.support.reports import NOW, node_uuid

VERSIONS = ("2.1", "2.11", "2.33", "2.52", "2.53", "2.74", "2.75", "2.87", "2.88", "2.96")
TEXT = st.text(max_size=20)
WORDS = st.sampled_from(["true", "no", "1", "0", "-1", "99999999999999999999", "cn1", ""])
NAMES = st.sampled_from(
    [
        node_uuid(1),
        node_uuid(1).upper(),
        "1",
        "-1",
        "0",
        "9" * 30,
        "\u0661",
        "1e3",
        "enable",
        "force-down",
    ]
)
SEGMENT = (NAMES | TEXT).filter(lambda text: text not in {"", ".", ".."})
QUERY = st.dictionaries(
    st.sampled_from(
        ["limit", "marker", "with_servers", "hypervisor_hostname_pattern", "host", "binary", "x"]
    ),
    WORDS | NAMES | TEXT,
    max_size=3,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
BODY = JSON | st.fixed_dictionaries(
    {},
    optional={
        "host": st.just("cn1") | JSON,
        "binary": st.just("nova-compute") | JSON,
        "status": st.sampled_from(["enabled", "disabled"]) | JSON,
        "disabled_reason": JSON,
        "forced_down": WORDS | JSON,
    },
)


@pytest.fixture(scope="module")
def host_api(sqlite_template, tmp_path_factory):
    """A client of an application with a host that has reported."""
    path = tmp_path_factory.mktemp("any_input") / "placement_sched.db"
    shutil.copy(sqlite_template, path)
    application = create_app(make_settings(f"sqlite:///{path}"), clock=lambda: NOW)
    hosts = HostApi(Client(application))
    hosts.report(1)
    yield hosts
    application.close()


def is_documented(answer):
    """Return whether the API documents the response."""
    if answer.status_int < 400:
        return True
    (fault,) = answer.json.values()
    return fault["code"] == answer.status_int and answer.status_int in {400, 404, 405, 501}


@pytest.mark.slow
@settings(max_examples=draws(40), deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    path=st.sampled_from(["", "/detail", "/statistics"])
    | SEGMENT.map(lambda name: f"/{quote(name, safe='')}")
    | SEGMENT.map(lambda name: f"/{quote(name, safe='')}/uptime")
    | SEGMENT.map(lambda name: f"/{quote(name, safe='')}/servers"),
    query=QUERY,
)
def test_random_hypervisor_queries_get_documented_answers(host_api, version, path, query):
    url = f"{HYPERVISORS}{path}?{urlencode(query)}"
    assert is_documented(host_api.request("GET", url, version=version, status="*")), url


@settings(max_examples=draws(40), deadline=None)
@given(
    version=st.sampled_from(VERSIONS),
    method=st.sampled_from(["GET", "PUT", "DELETE"]),
    name=SEGMENT | st.sampled_from(["disable", "disable-log-reason"]),
    body=BODY,
    query=QUERY,
)
def test_random_service_changes_get_documented_answers(
    host_api, version, method, name, body, query
):
    path = SERVICES if method == "GET" else f"{SERVICES}/{quote(name, safe='')}"
    sent = body if method == "PUT" else None
    url = f"{path}?{urlencode(query)}"
    options = {"version": version, "status": "*"}
    if method == "PUT" and body is None:
        sent = []
    assert is_documented(host_api.request(method, url, sent, **options)), (method, url, sent)
