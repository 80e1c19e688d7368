# SPDX-License-Identifier: Apache-2.0
"""``db sync``, ``db version`` and ``db adopt`` on every database."""

import json
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.engine import make_url

from placement_sched.cli.main import main
from placement_sched.db.migrate import TRAIN, XENA, newest_revision
from placement_sched.db.transaction import Database
from tests.conftest import make_settings
from tests.support.empty_databases import KINDS, empty_database
from tests.support.openstack_databases import NEWEST, create_openstack_schema

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]


@pytest.fixture
def connection(database_url, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)


def test_sync_creates_the_embedded_database(run, tmp_path):
    done = run("db", "sync")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == (
        f"sqlite:///placement_sched.db: schema brought to revision {newest_revision()}\n"
    )
    with closing(sqlite3.connect(tmp_path / "placement_sched.db")) as database:
        query = "SELECT COUNT(*) FROM traits WHERE name = 'HW_CPU_X86_AVX2'"
        ((traits,),) = database.execute(query)
    assert traits == 1


def test_repeated_sync_reports_no_change(connection, capsys):
    assert main(["db", "sync", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["before"] == report["revision"] == newest_revision()


def test_version_prints_both_revisions(connection, capsys):
    assert main(["db", "version", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["revision"] == report["newest"] == newest_revision()


def test_version_without_our_schema_is_none(run, tmp_path):
    refused = run("db", "version")
    assert refused.returncode == 1
    assert "there is no database placement_sched.db" in refused.stderr
    (tmp_path / "placement_sched.db").touch()
    assert run("db", "version").stdout == (
        f"sqlite:///placement_sched.db: schema at revision none, newest {newest_revision()}\n"
    )


def test_password_is_not_shown(monkeypatch, capsys, postgresql_server):
    url = make_url(postgresql_server).set(password="geheim")
    address = url.render_as_string(hide_password=False)
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", address)
    assert main(["db", "version"]) == 0
    assert "geheim" not in capsys.readouterr().out


def test_missing_database_url_is_reported_by_option(run):
    refused = run("db", "sync", OS_PLACEMENT_DATABASE__CONNECTION="nonsense")
    assert refused.returncode == 1
    assert refused.stderr == (
        "placement-sched: [placement_database] connection: not an SQLAlchemy database URL\n"
    )


@pytest.fixture(params=KINDS)
def train_url(request, tmp_path, monkeypatch):
    """The URL of an OpenStack placement database of Train."""
    with empty_database(request.param, tmp_path) as url:
        database = Database(make_settings(url))
        create_openstack_schema(database, TRAIN)
        database.dispose()
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", url)
        yield url


def test_adopt_prints_its_changes(train_url, capsys):
    assert main(["db", "adopt"]) == 0
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.endswith(
        "OpenStack placement's database of Train to Wallaby (2.0 to 5.0), revision b5c396305c25"
    )
    printed = "\n".join(rest)
    assert "tables created: consumer_types, placement_sched_alembic_version, sched_agg" in printed
    assert "columns added: consumers.consumer_type_id" in printed
    hashed = "sched_allocations_consumer_id_idx, " if train_url.startswith("postgresql") else ""
    assert f"indexes created: {hashed}consumers_consumer_type_id_idx\n" in printed
    assert "standard resource classes added: VCPU, MEMORY_MB" in printed
    assert "found: 0 resource providers (0 roots)" in printed
    assert "note: its schema is now at 422ece571366 (Xena)" in printed


def test_adopt_prints_changes_since_an_earlier_release(train_url, capsys):
    main(["db", "adopt"])
    downgrade_to_0020(train_url)
    capsys.readouterr()
    assert main(["db", "adopt"]) == 0
    assert capsys.readouterr().out.splitlines()[1:-1] == [
        f"own schema: brought from revision 0020 to {newest_revision()}"
    ]
    downgrade_to_0020(train_url)
    assert main(["db", "adopt", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["changed"], report["created_indexes"]) == (True, [])


def downgrade_to_0020(url):
    """Restore the schema of the first revision."""
    database = Database(make_settings(url))
    number = text("UPDATE placement_sched_alembic_version SET version_num = '0020'")
    database.write(lambda connection: connection.execute(number))
    database.dispose()


def test_repeated_adopt_reports_no_change(train_url, capsys):
    assert main(["db", "adopt", "--format", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["changed"] is True
    assert report["openstack"] == {
        "before": TRAIN,
        "releases": "Train to Wallaby (2.0 to 5.0)",
        "revision": XENA,
    }
    assert report["found"]["providers"] == 0
    assert main(["db", "adopt", "--format", "json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (again["changed"], again["created_tables"], again["before"]) == (
        False,
        [],
        newest_revision(),
    )
    assert main(["db", "adopt"]) == 0
    assert "already adopted, nothing to do" in capsys.readouterr().out


def test_sync_before_adoption_suggests_adopt(train_url, capsys):
    assert main(["db", "sync"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.endswith("placement-sched db adopt to take it over\n")


@pytest.fixture(params=KINDS)
def openstack_url(request, tmp_path, monkeypatch):
    """The URL of an OpenStack placement database of the newest release."""
    with empty_database(request.param, tmp_path) as url:
        database = Database(make_settings(url))
        create_openstack_schema(database)
        database.dispose()
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", url)
        yield url


def tables(url):
    database = Database(make_settings(url))
    with database.read() as connection:
        found = set(inspect(connection).get_table_names())
    database.dispose()
    return found


def test_sync_of_an_openstack_database_suggests_adopt(openstack_url, capsys):
    before = tables(openstack_url)
    assert main(["db", "sync"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == (
        f"placement-sched: the database belongs to OpenStack placement (revision {NEWEST}, "
        "2023.2 to 2026.2 (10.0 to 16.0)) and is not adopted; nothing was changed. Run "
        "placement-sched db adopt to take it over\n"
    )
    assert tables(openstack_url) == before
    assert main(["db", "adopt"]) == 0
    assert main(["db", "sync"]) == 0


def test_version_prints_the_owner_of_the_database(openstack_url, capsys):
    main(["db", "version"])
    assert capsys.readouterr().out.endswith(
        f"schema at revision none, newest {newest_revision()}; OpenStack placement's database of "
        f"2023.2 to 2026.2 (10.0 to 16.0), revision {NEWEST}, not adopted (placement-sched db "
        "adopt takes it over)\n"
    )
    main(["db", "adopt"])
    capsys.readouterr()
    main(["db", "version"])
    assert capsys.readouterr().out.endswith(f"revision {NEWEST}, adopted\n")
    main(["db", "version", "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert (report["adopted"], report["openstack"]["revision"]) == (True, NEWEST)


def test_version_of_our_database_prints_no_other_owner(connection, capsys):
    main(["db", "version"])
    assert capsys.readouterr().out.endswith(f"newest {newest_revision()}\n")
    main(["db", "version", "--format", "json"])
    report = json.loads(capsys.readouterr().out)
    assert (report["adopted"], report["openstack"]) == (False, None)


@pytest.mark.parametrize("sync", ["true", "false"])
def test_serve_needs_an_adopted_database(openstack_url, run, sync):
    before = tables(openstack_url)
    refused = run(
        "serve",
        "--port",
        "0",
        OS_PLACEMENT_DATABASE__CONNECTION=openstack_url,
        OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP=sync,
    )
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.endswith("placement-sched db adopt to take it over\n")
    assert tables(openstack_url) == before


def test_adopt_reports_an_unknown_schema_in_one_line(run, tmp_path):
    refused = run("db", "adopt")
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr == (
        "placement-sched: there is no file placement_sched.db, so there is nothing to adopt\n"
    )
    assert list(tmp_path.glob("*.db")) == []
