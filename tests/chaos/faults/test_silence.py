# SPDX-License-Identifier: Apache-2.0
"""Requests end with a reason when a proxy in front of the database holds back all data."""

import threading
import time
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.engine import make_url

from placement_sched.db import commit_marks, engine, transaction
from placement_sched.db.migrate import hold_migration_lock
from placement_sched.db.transaction import Database
from tests.chaos.faults.cutting_proxy import run_database_proxy
from tests.chaos.faults.requests import create_provider
from tests.conftest import make_settings
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import assert_invariants

pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True),
]
PROVIDERS_PATH = "/placement/resource_providers"
#: Seconds for a statement, for its response after that, and for a connection (libpq's minimum).
READ_TIMEOUT, RESPONSE_GRACE, CONNECT_TIMEOUT = 1, 1, 2
#: Maximum seconds of a request in these tests. The defaults are many times longer.
MAX_REQUEST_SECONDS = 20
SLEEP_STATEMENTS = {"postgresql": "SELECT pg_sleep(60)", "mysql": "SELECT SLEEP(60)"}


@pytest.fixture(autouse=True)
def shorten_database_timeouts(monkeypatch):
    monkeypatch.setattr(engine, "GRACE", RESPONSE_GRACE)
    monkeypatch.setattr(transaction, "MAX_PING_WAIT", 1.0)


def add_connect_timeout(url):
    url_with_timeout = make_url(url).update_query_dict({"connect_timeout": str(CONNECT_TIMEOUT)})
    return url_with_timeout.render_as_string(hide_password=False)


def check_request_ends_in_time(send):
    """Return the response, which must arrive within ``MAX_REQUEST_SECONDS``."""
    start = time.monotonic()
    response = send()
    assert time.monotonic() - start < MAX_REQUEST_SECONDS
    return response


def check_requests_are_503(app):
    """Check that each kind of request is 503 with the reason."""
    for send in (
        lambda: create_provider(app, status=503),
        lambda: app.get(PROVIDERS_PATH, headers=LATEST_HEADERS, status=503),
    ):
        response = check_request_ends_in_time(send)
        assert "does not answer" in response.json["errors"][0]["detail"]
        assert response.headers["Retry-After"] == "1"
    ready = check_request_ends_in_time(lambda: app.get("/healthz/ready", status=503))
    assert "does not answer" in ready.json["reason"]


def check_requests_are_served(app):
    create_provider(app, status=200)
    app.get(PROVIDERS_PATH, headers=LATEST_HEADERS, status=200)
    app.get("/healthz/ready", status=200)


@pytest.mark.chaos
def test_requests_end_and_recover_when_a_proxy_holds_back_data(database_url, database, make_app):
    with run_database_proxy(database_url) as (proxy, url):
        app = make_app(
            make_settings(add_connect_timeout(url), placement_database__read_timeout=READ_TIMEOUT)
        )
        check_requests_are_served(app)
        proxy.hold_back_data()
        check_requests_are_503(app)
        proxy.release_data()
        check_requests_are_served(app)
    assert_invariants(database)


def test_readiness_fails_quickly_when_a_proxy_holds_back_data(database_url, make_app):
    with run_database_proxy(database_url) as (proxy, url):
        # Other requests have a timeout of a minute or more.
        app = make_app(make_settings(add_connect_timeout(url)))
        check_requests_are_served(app)
        proxy.hold_back_data()
        ready = check_request_ends_in_time(lambda: app.get("/healthz/ready", status=503))
        assert "does not answer" in ready.json["reason"]
        proxy.release_data()
        check_requests_are_served(app)


@pytest.mark.chaos
@pytest.mark.parametrize("resumes", [False, True], ids=["stays silent", "resumes in time"])
def test_delayed_commit_is_200_if_it_succeeds_in_time_and_otherwise_503(
    database_url, database, make_app, monkeypatch, resumes
):
    monkeypatch.setattr(commit_marks, "MAX_COMMIT_QUERY_TIME", 10.0 if resumes else 0.0)
    with run_database_proxy(database_url) as (proxy, url):
        app = make_app(
            make_settings(add_connect_timeout(url), placement_database__read_timeout=READ_TIMEOUT)
        )
        check_requests_are_served(app)
        proxy.holds_commit = True
        if resumes:
            timer = threading.Timer(READ_TIMEOUT + RESPONSE_GRACE + 1, proxy.release_data)
            timer.start()
        body = {"uuid": str(uuid4()), "name": str(uuid4())}
        response = check_request_ends_in_time(
            lambda: app.post_json(PROVIDERS_PATH, body, headers=LATEST_HEADERS, expect_errors=True)
        )
        if resumes:
            assert response.status_int == 200
            timer.join(60)
        else:
            assert response.status_int == 503
            detail = response.json["errors"][0]["detail"]
            assert "not known whether the transaction was committed" in detail
            # The COMMIT reaches the database now, or its transaction has ended.
            proxy.release_data()
        check_requests_are_served(app)
        providers = app.get(f"{PROVIDERS_PATH}?uuid={body['uuid']}", headers=LATEST_HEADERS)
        assert len(providers.json["resource_providers"]) <= 1
        if resumes:
            assert len(providers.json["resource_providers"]) == 1
    assert_invariants(database)


@pytest.mark.chaos
def test_schema_change_has_no_timeout(database_url):
    database = Database(make_settings(database_url, placement_database__read_timeout=READ_TIMEOUT))
    slow = SLEEP_STATEMENTS[database.reader.dialect.name].replace(
        "60", str(READ_TIMEOUT + RESPONSE_GRACE + 1)
    )

    def sleep_under_migration_lock(connection):
        with hold_migration_lock(database, connection):
            connection.execute(text(slow))

    database.write(sleep_under_migration_lock)
    database.dispose()
