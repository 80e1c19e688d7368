# SPDX-License-Identifier: Apache-2.0
"""The routes of load, before and after a collection."""

from contextlib import closing

import pytest

from placement_sched.app import create_app
from placement_sched.extensions.load.collection import collect_load
from tests.conftest import AdminClient
from tests.extensions.load.fake_prometheus import build_vector
from tests.support.api_clouds import NODES_PATH
from tests.support.scheduling import make_report

LOAD_PATH = "/scheduler/v1/load"


@pytest.fixture
def app(sqlite_settings, make_app, with_load):
    """An application without collections, on hosts with a slash and a space."""
    app = make_app(with_load(sqlite_settings, prometheus_url=None, server_queries=["ram: ram"]))
    app.post_json(NODES_PATH, [make_report("cn 1"), make_report("rack/cn2")])
    return app


def test_load_without_a_collection_is_missing(app):
    document = app.get(LOAD_PATH).json
    assert document["collects"] is False
    assert (document["interval"], document["max_age"], document["half_life"]) == (60, 180, 600)
    assert [(query["kind"], query["name"]) for query in document["queries"]] == [
        ("host", "cpu"),
        ("server", "ram"),
    ]
    assert {query["collected_at"] for query in document["queries"]} == {None}
    missing = {"query": "cpu", "state": "missing"}
    missing |= dict.fromkeys(("value", "smoothed", "measured_at", "age"))
    assert document["hosts"] == [
        {"host": "cn 1", "values": [missing]},
        {"host": "rack/cn2", "values": [missing]},
    ]


def test_load_of_a_host_is_shown_by_its_name(app, sqlite_settings, with_load, prometheus):
    services = app.app.services
    time = services.clock().astimezone().timestamp()
    prometheus.responses["cpu"] = build_vector(({"nodename": "rack/cn2"}, 0.5), time=time)
    collect_load(services.database, with_load(sqlite_settings), services.clock)
    (value,) = app.get(f"{LOAD_PATH}/rack/cn2").json["values"]
    assert (value["value"], value["smoothed"], value["state"]) == (0.5, 0.5, "ok")
    assert app.get(f"{LOAD_PATH}/cn%201").json["values"][0]["state"] == "missing"


def test_unknown_host_is_404_with_a_suggestion(app):
    (error,) = app.get(f"{LOAD_PATH}/rack/cn3", status=404).json["errors"]
    assert error["code"] == "scheduler.not_found"
    assert "there is no host 'rack/cn3'. Did you mean 'rack/cn2'?" in error["detail"]


def test_routes_of_the_disabled_extension_answer_404(sqlite_settings):
    settings = sqlite_settings.with_overrides({"DEFAULT.disabled_extensions": ["load"]})
    # The client does not check the answer by the full document.
    with closing(create_app(settings)) as application:
        AdminClient(application).get(LOAD_PATH, status=404)
