"""A database that takes no writes: they are refused with the reason, and accepted again after."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

import pytest
from webtest import TestApp

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.chaos.scale import TRIED
from tests.conftest import make_settings
from tests.invariants import assert_invariants
from tests.mariadb import mariadb
from tests.postgresql import primary_and_standby
from tests.versions import LATEST_HEADERS

#: An account without privileges.
NOBODY = 65534


def write(app, status):
    uuid = str(uuid4())
    return app.post_json(
        "/placement/resource_providers",
        {"uuid": uuid, "name": uuid},
        headers=LATEST_HEADERS,
        status=status,
    )


def check_refusing(app):
    """Writes are refused, again and again; what is read is read."""
    for _ in range(3):
        answer = write(app, 503)
        assert "read-only" in answer.json["errors"][0]["detail"]
        assert answer.headers["Retry-After"] == "1"
        app.get("/placement/resource_providers", headers=LATEST_HEADERS)
        ready = TestApp(app.app).get("/healthz/ready", status=503)
        assert "read-only" in ready.json["reason"]
        assert ready.headers["Retry-After"] == "1"
    assert TestApp(app.app).get("/healthz").json == {"status": "live"}


def check_writing(app):
    write(app, 200)
    assert TestApp(app.app).get("/healthz/ready").json == {"status": "ready"}
    assert_invariants(app.app.services.database)


def prepare(url):
    database = Database(make_settings(url))
    sync(database, utcnow)
    database.dispose()


@pytest.mark.parametrize("lag", [None, 0.0, 30.0], ids=["no standby", "standby", "lag allowed"])
def test_a_standby_of_postgresql_is_written_once_it_is_promoted(make_app, lag, record_property):
    with primary_and_standby(synchronous=True) as (primary, standby):
        primary.ask("ALTER SYSTEM SET synchronous_commit = remote_apply")
        primary.ask("SELECT pg_reload_conf()")
        prepare(primary.url())
        options = {}
        if lag is not None:
            options["placement_database__slave_connection"] = standby.url()
            options["placement_database__max_replica_lag"] = lag
        app = make_app(make_settings(standby.url(), **options))
        check_refusing(app)
        answered = 'placement_sched_standby_reads_total{answered_by="standby"} 3.0'
        assert (answered in TestApp(app.app).get("/metrics").text) is (lag is not None)
        standby.promote()
        check_writing(app)
        app.app.services.database.dispose()
    record_property(TRIED, "1 read-only standby of PostgreSQL promoted")


def test_mariadb_that_is_made_read_only_is_written_again_after(make_app, record_property):
    with mariadb() as server:
        url = server.new_database()
        prepare(url)
        app = make_app(make_settings(url))
        check_writing(app)
        server.run("SET GLOBAL read_only = 1")
        check_refusing(app)
        # Who may write all the same is not refused.
        check_writing(make_app(make_settings(server.url("placement", "root"))))
        server.run("SET GLOBAL read_only = 0")
        check_writing(app)
        app.app.services.database.dispose()
    record_property(TRIED, "1 MariaDB made read-only")


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Let the process be bound by the permissions of files."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.fixture
def file(sqlite_template) -> Iterator[Path]:
    """A database file in a folder that all may reach and write in."""
    folder = Path(tempfile.mkdtemp(prefix="placement_sched_read_only_"))
    folder.chmod(0o777)
    path = folder / "own.db"
    shutil.copy(sqlite_template, path)
    yield path
    shutil.rmtree(folder)


@pytest.mark.parametrize("at_start", [True, False], ids=["from the start", "later"])
def test_sqlite_file_without_permission_is_written_once_it_is_given(
    file, make_app, at_start, record_property
):
    def permit(mode):
        for path in file.parent.iterdir():
            with suppress(FileNotFoundError):
                path.chmod(mode)

    app = make_app(make_settings(f"sqlite:///{file}"))
    if not at_start:
        permit(0o666)
        with ordinary_user():
            check_writing(app)
    permit(0o444)
    app.app.services.database.dispose()
    with ordinary_user():
        check_refusing(app)
    permit(0o666)
    with ordinary_user():
        check_writing(app)
    record_property(TRIED, f"1 SQLite file read-only {'from the start' if at_start else 'later'}")
