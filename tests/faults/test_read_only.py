# SPDX-License-Identifier: Apache-2.0
"""Writes to a read-only database are 503 with the reason until it accepts writes again."""

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.event import listen
from webtest import TestApp

from placement_sched.db import transaction
from placement_sched.db.transaction import PAUSE, Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.chaos.scale import TRIED
from tests.conftest import make_settings
from tests.faults.cutting import CuttingProxy
from tests.support.invariants import assert_invariants
from tests.support.mariadb import run_mariadb
from tests.support.postgresql import PostgreSQL, run_postgresql, run_primary_and_standby
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.slow

#: An account without privileges.
NOBODY = 65534


def write_provider(app, status):
    uuid = str(uuid4())
    return app.post_json(
        "/placement/resource_providers",
        {"uuid": uuid, "name": uuid},
        headers=LATEST_HEADERS,
        status=status,
    )


def check_read_only(app):
    """Check that writes are 503 with the reason, and reads succeed."""
    for _ in range(3):
        answer = write_provider(app, 503)
        assert "read-only" in answer.json["errors"][0]["detail"]
        assert answer.headers["Retry-After"] == "1"
        app.get("/placement/resource_providers", headers=LATEST_HEADERS)
        ready = TestApp(app.app).get("/healthz/ready", status=503)
        assert "read-only" in ready.json["reason"]
        assert ready.headers["Retry-After"] == "1"
    assert TestApp(app.app).get("/healthz").json == {"status": "live"}


def check_writable(app):
    write_provider(app, 200)
    assert TestApp(app.app).get("/healthz/ready").json == {"status": "ready"}
    assert_invariants(app.app.services.database)


def check_ready_soon(app):
    """Check that the service becomes ready without a write, once its read connections expire."""
    deadline = time.monotonic() + 3 * PAUSE
    while TestApp(app.app).get("/healthz/ready", expect_errors=True).status_code != 200:
        assert time.monotonic() < deadline
        time.sleep(PAUSE / 10)


def prepare_database(url):
    database = Database(make_settings(url))
    sync(database, utcnow)
    database.dispose()


@contextmanager
def run_replicated_postgresql() -> Iterator[tuple[PostgreSQL, PostgreSQL]]:
    """Run a primary with the schema, and a standby that has applied every commit."""
    with run_primary_and_standby(synchronous=True) as (primary, standby):
        primary.query("ALTER SYSTEM SET synchronous_commit = remote_apply")
        primary.query("SELECT pg_reload_conf()")
        prepare_database(primary.url())
        yield primary, standby


@contextmanager
def run_replicas_behind_proxy() -> Iterator[tuple[PostgreSQL, PostgreSQL, CuttingProxy, str]]:
    """Run a primary and its standby, and a proxy that leads to the standby."""
    with run_replicated_postgresql() as (primary, standby):
        primary.query("ALTER SYSTEM RESET synchronous_standby_names")
        primary.query("SELECT pg_reload_conf()")
        proxy = CuttingProxy(("127.0.0.1", standby.port))
        proxy.start()
        url = make_url(primary.url()).set(port=proxy.port)
        yield primary, standby, proxy, url.render_as_string(hide_password=False)
        proxy.stop()


@pytest.mark.chaos
def test_promoted_postgresql_standby_accepts_writes(make_app, record_property):
    with run_replicated_postgresql() as (_primary, standby):
        app = make_app(make_settings(standby.url()))
        check_read_only(app)
        standby.promote()
        check_writable(app)
        app.app.services.database.dispose()
    record_property(TRIED, "1 read-only standby of PostgreSQL promoted")


@pytest.mark.chaos
def test_mariadb_accepts_writes_after_read_only_mode(make_app, record_property):
    with run_mariadb() as server:
        url = server.new_database()
        prepare_database(url)
        app = make_app(make_settings(url))
        check_writable(app)
        server.run("SET GLOBAL read_only = 1")
        check_read_only(app)
        # The superuser may write to a read-only server.
        check_writable(make_app(make_settings(server.url("placement", "root"))))
        server.run("SET GLOBAL read_only = 0")
        check_writable(app)
        app.app.services.database.dispose()
    record_property(TRIED, "1 MariaDB made read-only")


@pytest.mark.chaos
def test_mariadb_accepts_writes_after_a_read_only_engine(make_app, record_property):
    with run_mariadb() as server:
        app = make_app(make_settings(server.new_database()))
        sync(app.app.services.database, utcnow)
        check_writable(app)
        server.restart("--innodb-read-only=1")
        check_read_only(app)
        server.restart()
        check_writable(app)
        app.app.services.database.dispose()
    record_property(TRIED, "1 MariaDB with a read-only InnoDB")


@pytest.mark.chaos
@pytest.mark.parametrize("first", ["a write", "a readiness check"])
def test_read_only_postgresql_sessions_are_replaced(make_app, first, record_property):
    with run_postgresql() as server:
        server.query("CREATE DATABASE placement")
        url = server.url("placement")
        prepare_database(url)
        app = make_app(make_settings(url))
        check_writable(app)
        server.query("ALTER DATABASE placement SET default_transaction_read_only = on")
        server.query(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'placement'"
        )
        check_read_only(app)
        server.query("ALTER DATABASE placement RESET default_transaction_read_only")
        if first == "a write":
            check_writable(app)
        check_ready_soon(app)
        check_writable(app)
        app.app.services.database.dispose()
    record_property(TRIED, "1 PostgreSQL read-only by a setting of its sessions")


@pytest.mark.chaos
def test_connections_to_a_standby_are_closed_periodically(make_app, record_property):
    with run_replicated_postgresql() as (_primary, standby):
        app = make_app(make_settings(standby.url()))
        opened = []
        listen(app.app.services.database.reader.pool, "connect", lambda *_: opened.append(1))
        start = time.monotonic()
        for _ in range(30):
            TestApp(app.app).get("/healthz/ready", status=503)
        assert len(opened) <= 2 + (time.monotonic() - start) / PAUSE
        app.app.services.database.dispose()
    record_property(TRIED, "1 standby of PostgreSQL with frequent readiness checks")


@pytest.mark.chaos
@pytest.mark.parametrize("first", ["a write", "a readiness check"])
def test_read_only_mariadb_sessions_are_replaced(make_app, first, record_property):
    with run_mariadb() as server:
        url = server.new_database()
        prepare_database(url)
        app = make_app(make_settings(url))
        check_writable(app)
        server.run("SET GLOBAL tx_read_only = 1")
        app.app.services.database.dispose()
        check_read_only(app)
        server.run("SET GLOBAL tx_read_only = 0")
        if first == "a write":
            check_writable(app)
        check_ready_soon(app)
        check_writable(app)
        app.app.services.database.dispose()
    record_property(TRIED, "1 MariaDB read-only by a setting of its sessions")


@pytest.mark.chaos
@pytest.mark.parametrize("first", ["a write", "a readiness check"])
def test_write_is_read_after_a_proxy_switches_to_the_primary(make_app, first, record_property):
    with run_replicas_behind_proxy() as (primary, standby, proxy, url):
        app = make_app(make_settings(url))
        check_read_only(app)
        standby.query("SELECT pg_wal_replay_pause()")
        # Only new connections lead to the primary.
        proxy.set_target(("127.0.0.1", primary.port))
        if first != "a write":
            check_ready_soon(app)
        uuid = write_provider(app, 200).json["uuid"]
        app.get(f"/placement/resource_providers/{uuid}", headers=LATEST_HEADERS)
        check_writable(app)
        app.app.services.database.dispose()
    record_property(TRIED, "1 proxy that leads from a standby of PostgreSQL to its primary")


@pytest.mark.chaos
def test_read_connections_move_to_the_primary_after_a_proxy_switch(
    make_app, monkeypatch, record_property
):
    with run_replicas_behind_proxy() as (primary, standby, proxy, url):
        app = make_app(make_settings(url))
        app.get("/placement/resource_providers", headers=LATEST_HEADERS)
        standby.query("SELECT pg_wal_replay_pause()")
        proxy.set_target(("127.0.0.1", primary.port))
        uuid = write_provider(make_app(make_settings(primary.url())), 200).json["uuid"]
        # Let connections be checked at once.
        monkeypatch.setattr(transaction, "CHECK_AGAIN", 0.0)
        app.get(f"/placement/resource_providers/{uuid}", headers=LATEST_HEADERS)
        app.app.services.database.dispose()
    record_property(TRIED, "1 proxy that leads from a standby to its primary, and a reading worker")


@contextmanager
def without_root_permissions() -> Iterator[None]:
    """Run as an account that file permissions restrict."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def database_file(sqlite_template) -> Iterator[Path]:
    """A database file in a folder that every account may write to."""
    folder = Path(tempfile.mkdtemp(prefix="placement_sched_read_only_"))
    folder.chmod(0o777)
    path = folder / "own.db"
    shutil.copy(sqlite_template, path)
    yield path
    shutil.rmtree(folder)


@pytest.mark.parametrize("at_start", [True, False], ids=["from the start", "later"])
def test_sqlite_file_accepts_writes_after_a_change_of_permissions(
    database_file, make_app, at_start, record_property
):
    def set_permissions(mode):
        for path in database_file.parent.iterdir():
            with suppress(FileNotFoundError):
                path.chmod(mode)

    app = make_app(make_settings(f"sqlite:///{database_file}"))
    if not at_start:
        set_permissions(0o666)
        with without_root_permissions():
            check_writable(app)
    set_permissions(0o444)
    app.app.services.database.dispose()
    with without_root_permissions():
        check_read_only(app)
    set_permissions(0o666)
    with without_root_permissions():
        check_writable(app)
    record_property(TRIED, f"1 SQLite file read-only {'from the start' if at_start else 'later'}")
