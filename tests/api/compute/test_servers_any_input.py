# SPDX-License-Identifier: Apache-2.0
"""Requests with random input for servers and server groups get documented responses."""

import shutil
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement_sched.api.compute.servers import _PLAIN
from placement_sched.app import create_app
from placement_sched.store.compute.instances import SORT_KEYS
from tests.conftest import Client, make_settings
from tests.exploring import draws
from tests.support.reports import NOW
from tests.support.scheduling import instance

SERVERS, GROUPS = "/compute/v2.1/servers", "/compute/v2.1/os-server-groups"
VERSIONS = st.sampled_from(["2.1", "2.15", "2.26", "2.63", "2.64", "2.73", "2.75", "2.83", "2.96"])
TEXT = st.text(max_size=20)
WORDS = st.sampled_from(
    [
        *("true", "no", "1", "0", "-1", "9" * 30, "", "cn1", "s1", "ACTIVE", "x" * 300),
        *(
            instance(1),
            instance(1).upper(),
            "2026-01-01",
            "9999-12-31T23:59:59-14:00",
            "0001-01-01",
        ),
        *("^s", "(", "[a", "(?i)S", "a{9999999}", "\\", "(?P<x>s)", "s*+", "\u0661"),
    ]
)
SEGMENT = (WORDS | TEXT).filter(lambda text: text not in {"", ".", ".."})
KEYS = ("limit", "offset", "all_projects", "tags", "changes-before", "locked", "x", *_PLAIN)
QUERY = st.lists(
    st.tuples(st.sampled_from(KEYS), WORDS | TEXT)
    | st.tuples(st.just("sort_key"), st.sampled_from(sorted(SORT_KEYS)) | TEXT)
    | st.tuples(st.just("sort_dir"), st.sampled_from(["asc", "desc"]) | TEXT),
    max_size=4,
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
POLICY = st.sampled_from(["affinity", "anti-affinity", "soft-affinity", "legacy"])
RULES = st.fixed_dictionaries({}, optional={"max_server_per_host": WORDS | JSON})
GROUP = st.fixed_dictionaries(
    {},
    optional={
        "name": WORDS | TEXT | JSON,
        "policy": POLICY | JSON,
        "policies": st.lists(POLICY, max_size=2) | JSON,
        "rules": RULES | JSON,
    },
)


@pytest.fixture(scope="module")
def app(sqlite_template, tmp_path_factory):
    """An application with a recorded instance."""
    path = tmp_path_factory.mktemp("any_input") / "placement_sched.db"
    shutil.copy(sqlite_template, path)
    application = create_app(make_settings(f"sqlite:///{path}"), clock=lambda: NOW)
    client = Client(application)
    record = {"display_name": "s1", "host": "cn1", "vm_state": "active"}
    client.put_json(f"/scheduler/v1/instances/{instance(1)}", record)
    yield client
    application.close()


def is_documented(app, method, url, version, body=None):
    """Return whether the API documents the response."""
    headers = {"OpenStack-API-Version": f"compute {version}"}
    if body is None:
        answer = app.request(url, method=method, headers=headers, status="*")
    else:
        answer = app.post_json(url, body, headers=headers, status="*")
    if answer.status_int < 400:
        return True
    (fault,) = answer.json.values()
    return fault["code"] == answer.status_int and answer.status_int in {400, 403, 404}


@settings(max_examples=draws(80), deadline=None)
@given(
    version=VERSIONS,
    path=st.sampled_from(["", "/detail"]) | SEGMENT.map(lambda name: f"/{quote(name, safe='')}"),
    query=QUERY,
)
def test_random_server_queries_get_documented_answers(app, version, path, query):
    url = f"{SERVERS}{path}?{urlencode(query)}"
    assert is_documented(app, "GET", url, version), url


@settings(max_examples=draws(30), deadline=None)
@given(
    version=VERSIONS,
    method=st.sampled_from(["GET", "DELETE"]),
    path=st.just("") | SEGMENT.map(lambda name: f"/{quote(name, safe='')}"),
    query=QUERY,
)
def test_random_group_queries_get_documented_answers(app, version, method, path, query):
    method = method if path else "GET"
    url = f"{GROUPS}{path}?{urlencode(query)}"
    assert is_documented(app, method, url, version), (method, url)


@settings(max_examples=draws(40), deadline=None)
@given(version=VERSIONS, group=GROUP | JSON)
def test_random_groups_are_created_or_rejected(app, version, group):
    assert is_documented(app, "POST", GROUPS, version, {"server_group": group}), group
