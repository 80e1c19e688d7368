# SPDX-License-Identifier: Apache-2.0
"""Liveness and readiness."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import timedelta

import pytest
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.model.clock import utcnow
from placement_sched.model.instance import NovaCell
from placement_sched.operations.prepare import MAX_PREPARING
from placement_sched.store.compute import cells
from tests.conftest import make_settings
from tests.support.clouds import uuid_of
from tests.support.servers import wait_until


def test_liveness_paths_are_200_with_status_live(sqlite_app):
    for path in ["/healthz", "/healthz/", "/healthz/live", "/healthz?live"]:
        response = TestApp(sqlite_app.app).get(path)
        assert response.json == {"status": "live"}, path


def test_process_with_a_prepared_database_is_ready_without_a_token(app):
    for path in ["/healthz/ready", "/healthz?ready", "/healthz/?ready=1"]:
        assert TestApp(app.app).get(path).json == {"status": "ready"}, path


def test_process_with_an_unavailable_database_is_live_but_not_ready(tmp_path):
    application = create_app(make_settings(f"sqlite:///{tmp_path}/none/such.db"))
    client = TestApp(application)
    assert client.get("/healthz").json == {"status": "live"}
    response = client.get("/healthz/ready", status=503)
    assert response.json["status"] == "not ready"
    assert "database" in response.json["reason"]
    assert response.headers["Retry-After"] == "1"
    (tmp_path / "none").mkdir()
    application.close()


def test_process_is_ready_when_its_database_is_available_again(tmp_path):
    application = create_app(
        make_settings(
            f"sqlite:///{tmp_path}/late/late.db", placement_database__sync_on_startup=True
        )
    )
    client = TestApp(application)
    client.get("/healthz?ready", status=503)
    (tmp_path / "late").mkdir()
    assert client.get("/healthz?ready").json == {"status": "ready"}
    application.close()


@pytest.mark.parametrize("empty", [True, False], ids=["empty", "absent"])
def test_configured_sqlite_file_is_prepared_at_start(tmp_path, empty):
    if empty:
        (tmp_path / "own.db").touch()
    application = create_app(make_settings(f"sqlite:///{tmp_path}/own.db"))
    assert TestApp(application).get("/healthz?ready").json == {"status": "ready"}
    application.close()


def test_response_to_head_of_a_health_path_has_no_body(sqlite_app):
    response = TestApp(sqlite_app.app).head("/healthz")
    assert response.body == b""


def test_unknown_methods_and_paths_of_health_are_rejected(sqlite_app):
    client = TestApp(sqlite_app.app)
    assert client.post("/healthz", status=405).headers["Allow"] == "GET, HEAD"
    client.get("/healthz/elsewhere", status=404)


def test_process_is_live_while_its_database_is_locked(tmp_path):
    """Requests that wait for the database never occupy the thread of the liveness check."""
    settings = make_settings(f"sqlite:///{tmp_path}/locked.db", placement_database__lock_timeout=60)
    application = create_app(settings)
    with (
        closing(sqlite3.connect(tmp_path / "locked.db", isolation_level=None)) as rival,
        ThreadPoolExecutor(MAX_PREPARING) as threads,
    ):
        rival.execute("PRAGMA journal_mode=WAL")
        rival.execute("BEGIN IMMEDIATE")
        waiting = [threads.submit(send_traits_request, application) for _ in range(MAX_PREPARING)]
        assert wait_until(lambda: not application.services.ready._slots._value, 50)
        client = TestApp(application)
        assert client.get("/healthz/live").json == {"status": "live"}
        response = client.get("/healthz/ready", status=503)
        assert "being prepared" in response.json["reason"]
        rejection = send_traits_request(application)
        assert rejection.status_int == 503
        assert rejection.headers["Retry-After"] == "1"
        rival.execute("ROLLBACK")
        # A request that waits too long gets 503.
        assert {200} <= {each.result().status_int for each in waiting} <= {200, 503}
    assert send_traits_request(application).status_int == 200
    application.close()


def send_traits_request(application):
    return TestApp(application).get(
        "/placement/traits",
        headers={"X-Auth-Token": "admin", "OpenStack-API-Version": "placement latest"},
        expect_errors=True,
    )


@pytest.mark.all_databases
def test_readiness_has_the_age_of_the_nova_sync(make_app, settings):
    novas = settings.with_overrides({"api_database.connection": "mysql+pymysql://nova@db/nova_api"})
    app = make_app(novas)

    def read_nova_sync_status():
        response = TestApp(app.app).get("/healthz/ready").json
        assert response["status"] == "ready"
        return response["nova"]

    assert read_nova_sync_status() == {"read_seconds_ago": None, "cells_away": []}
    services = app.app.services
    one, two = NovaCell(uuid=uuid_of("one"), name="one"), NovaCell(uuid=uuid_of("two"))
    before = utcnow() - timedelta(seconds=90)

    def record_cell_as_unreachable(connection):
        cells.put(connection, [one, two], utcnow())
        cells.record_read(connection, [one.uuid], utcnow())
        cells.record_read(connection, [two.uuid], before)
        cells.record_failure(connection, one.uuid, "connection refused", utcnow())

    services.database.write(record_cell_as_unreachable)
    age = read_nova_sync_status()
    assert 90 <= age["read_seconds_ago"] < 900
    assert age["cells_away"] == ["one"]
