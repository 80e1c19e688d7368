# SPDX-License-Identifier: Apache-2.0
"""Writes to a read-only database are 503 with the reason until it accepts writes again."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.event import listen
from webtest import TestApp

from placement_sched.db import transaction
from placement_sched.db.transaction import PAUSE, Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.chaos.faults.cutting_proxy import ConnectionCuttingProxy
from tests.chaos.faults.requests import create_provider
from tests.chaos.run_length import TRIED_KEY
from tests.conftest import make_settings
from tests.support.mariadb import run_mariadb
from tests.support.postgresql import PostgreSQL, run_postgresql, run_primary_and_standby
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.chaos


def check_writes_are_rejected(app):
    """Check that writes are 503 with the reason, and reads succeed."""
    for _ in range(3):
        response = create_provider(app, status=503)
        assert "read-only" in response.json["errors"][0]["detail"]
        assert response.headers["Retry-After"] == "1"
        app.get("/placement/resource_providers", headers=LATEST_HEADERS)
        ready = TestApp(app.app).get("/healthz/ready", status=503)
        assert "read-only" in ready.json["reason"]
        assert ready.headers["Retry-After"] == "1"
    assert TestApp(app.app).get("/healthz").json == {"status": "live"}


def check_writes_are_accepted(app):
    create_provider(app, status=200)
    assert TestApp(app.app).get("/healthz/ready").json == {"status": "ready"}
    assert_invariants(app.app.services.database)


def check_service_becomes_ready(app):
    """Check that the service becomes ready without a write, once its read connections expire."""
    deadline = time.monotonic() + 3 * PAUSE
    while TestApp(app.app).get("/healthz/ready", expect_errors=True).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(PAUSE / 10)


def create_schema(url):
    database = Database(make_settings(url))
    sync(database, utcnow)
    database.dispose()


@contextmanager
def run_replicated_postgresql() -> Iterator[tuple[PostgreSQL, PostgreSQL]]:
    """Run a primary with the schema, and a standby that has applied every commit."""
    with run_primary_and_standby(synchronous=True) as (primary, standby):
        primary.query("ALTER SYSTEM SET synchronous_commit = remote_apply")
        primary.query("SELECT pg_reload_conf()")
        create_schema(primary.url())
        yield primary, standby


@contextmanager
def run_primary_and_standby_behind_proxy() -> Iterator[
    tuple[PostgreSQL, PostgreSQL, ConnectionCuttingProxy, str]
]:
    """Run a primary and its standby, and a proxy that leads to the standby."""
    with run_replicated_postgresql() as (primary, standby):
        primary.query("ALTER SYSTEM RESET synchronous_standby_names")
        primary.query("SELECT pg_reload_conf()")
        proxy = ConnectionCuttingProxy(("127.0.0.1", standby.port))
        proxy.start()
        url = make_url(primary.url()).set(port=proxy.port)
        yield primary, standby, proxy, url.render_as_string(hide_password=False)
        proxy.stop()


@contextmanager
def open_app(make_app, url) -> Iterator[TestApp]:
    app = make_app(make_settings(url))
    yield app
    app.app.services.database.dispose()


def test_promoted_postgresql_standby_accepts_writes(make_app, record_property):
    with (
        run_replicated_postgresql() as (_primary, standby),
        open_app(make_app, standby.url()) as app,
    ):
        check_writes_are_rejected(app)
        opened = []
        listen(app.app.services.database.reader.pool, "connect", lambda *_: opened.append(1))
        start = time.monotonic()
        for _ in range(30):
            TestApp(app.app).get("/healthz/ready", status=503)
        assert len(opened) <= 2 + (time.monotonic() - start) / PAUSE
        standby.promote()
        check_writes_are_accepted(app)
    record_property(TRIED_KEY, "1 read-only standby of PostgreSQL promoted")


def test_mariadb_accepts_writes_after_read_only_mode_and_read_only_innodb(
    make_app, record_property
):
    with run_mariadb() as server:
        url = server.new_database()
        # The superuser may write to a read-only server, if it has created the triggers.
        superuser_url = server.url("placement", "root")
        create_schema(superuser_url)
        with open_app(make_app, url) as app:
            check_writes_are_accepted(app)
            server.run("SET GLOBAL read_only = 1")
            check_writes_are_rejected(app)
            check_writes_are_accepted(make_app(make_settings(superuser_url)))
            server.run("SET GLOBAL read_only = 0")
            check_writes_are_accepted(app)
            server.restart("--innodb-read-only=1")
            check_writes_are_rejected(app)
            server.restart()
            check_writes_are_accepted(app)
    record_property(TRIED_KEY, "1 MariaDB made read-only")


@contextmanager
def run_postgresql_with_read_only_sessions():
    """Give a URL, and a function that makes new sessions of the database read-only or not."""
    with run_postgresql() as server:
        server.query("CREATE DATABASE placement")

        def set_read_only(*, read_only):
            action = "SET default_transaction_read_only = on"
            reset = "RESET default_transaction_read_only"
            server.query(f"ALTER DATABASE placement {action if read_only else reset}")
            if read_only:
                server.query(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = 'placement'"
                )

        yield server.url("placement"), set_read_only


@contextmanager
def run_mariadb_with_read_only_sessions():
    """Give the same for MariaDB."""
    with run_mariadb() as server:
        yield (
            server.new_database(),
            lambda *, read_only: server.run(f"SET GLOBAL tx_read_only = {int(read_only)}"),
        )


@pytest.mark.parametrize("first_request", ["a write", "a readiness check"])
@pytest.mark.parametrize(
    "run_server", [run_postgresql_with_read_only_sessions, run_mariadb_with_read_only_sessions]
)
def test_writes_succeed_after_the_database_ends_read_only_sessions(
    make_app, run_server, first_request, record_property
):
    with run_server() as (url, set_read_only):
        create_schema(url)
        with open_app(make_app, url) as app:
            check_writes_are_accepted(app)
            set_read_only(read_only=True)
            app.app.services.database.dispose()
            check_writes_are_rejected(app)
            set_read_only(read_only=False)
            if first_request == "a write":
                check_writes_are_accepted(app)
            check_service_becomes_ready(app)
            check_writes_are_accepted(app)
    record_property(TRIED_KEY, f"1 database read-only by a setting of its sessions ({url[:5]})")


@pytest.mark.parametrize("first_request", ["a write", "a readiness check", "a read"])
def test_write_is_read_after_a_proxy_switches_to_the_primary(
    make_app, monkeypatch, first_request, record_property
):
    with (
        run_primary_and_standby_behind_proxy() as (primary, standby, proxy, url),
        open_app(make_app, url) as app,
    ):
        check_writes_are_rejected(app)
        standby.query("SELECT pg_wal_replay_pause()")
        # Only new connections lead to the primary.
        proxy.set_database_address(("127.0.0.1", primary.port))
        writer = app
        if first_request == "a readiness check":
            check_service_becomes_ready(app)
        if first_request == "a read":
            writer = make_app(make_settings(primary.url()))
            # Let connections be checked at once.
            monkeypatch.setattr(transaction, "CHECK_AGAIN", 0.0)
        uuid = create_provider(writer, status=200).json["uuid"]
        app.get(f"/placement/resource_providers/{uuid}", headers=LATEST_HEADERS)
        check_writes_are_accepted(app)
    record_property(TRIED_KEY, "1 proxy that leads from a standby of PostgreSQL to its primary")
