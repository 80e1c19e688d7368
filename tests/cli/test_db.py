# SPDX-License-Identifier: Apache-2.0
"""The ``db`` commands on every database."""

import json
import sqlite3
from contextlib import closing

import pytest
from sqlalchemy import inspect, text
from sqlalchemy.engine import make_url

from placement_sched.db.migrate import (
    REVISIONS,
    TRAIN,
    XENA,
    get_newest_revision,
    list_leave_statements,
)
from placement_sched.db.transaction import Database
from tests.conftest import make_settings
from tests.support.empty_databases import DATABASE_KINDS, empty_database
from tests.support.openstack_databases import NEWEST_REVISION, create_openstack_schema

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]


@pytest.fixture
def run_db_command(run_main):
    """Return a function that runs a command that must succeed, and returns its JSON."""

    def run_db_command(*arguments: str) -> dict:
        status, printed, _ = run_main("db", *arguments, "--format", "json")
        assert status == 0
        return json.loads(printed)

    return run_db_command


def test_db_sync_creates_the_embedded_database(run_command, tmp_path):
    done = run_command("db", "sync")
    assert done.returncode == 0
    assert done.stderr == ""
    assert done.stdout == (
        f"sqlite:///placement_sched.db: schema brought to revision {get_newest_revision()}\n"
    )
    with closing(sqlite3.connect(tmp_path / "placement_sched.db")) as database:
        query = "SELECT COUNT(*) FROM traits WHERE name = 'HW_CPU_X86_AVX2'"
        ((traits,),) = database.execute(query)
    assert traits == 1


def test_db_sync_of_a_synced_database_changes_nothing(
    database_url, run_main, run_db_command, monkeypatch
):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)
    report = run_db_command("sync")
    assert report["before"] == report["revision"] == get_newest_revision()
    report = run_db_command("version")
    assert report["revision"] == report["newest"] == get_newest_revision()
    assert (report["adopted"], report["openstack"]) == (False, None)
    assert run_main("db", "version")[1].endswith(f"newest {get_newest_revision()}\n")


def test_db_version_of_an_empty_database_is_none(run_command, tmp_path):
    refused = run_command("db", "version")
    assert refused.returncode == 1
    assert "the database placement_sched.db does not exist" in refused.stderr
    (tmp_path / "placement_sched.db").touch()
    assert run_command("db", "version").stdout == (
        f"sqlite:///placement_sched.db: schema at revision none, newest {get_newest_revision()}\n"
    )


def test_db_version_hides_the_password_of_the_url(monkeypatch, run_main, postgresql_server):
    url = make_url(postgresql_server).set(password="geheim")
    address = url.render_as_string(hide_password=False)
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", address)
    status, printed, _ = run_main("db", "version")
    assert (status, "geheim" in printed) == (0, False)


def test_invalid_database_url_is_reported_by_option(run_command):
    refused = run_command("db", "sync", OS_PLACEMENT_DATABASE__CONNECTION="nonsense")
    assert refused.returncode == 1
    assert refused.stderr == (
        "placement-sched: [placement_database] connection: not an SQLAlchemy database URL\n"
    )


@pytest.fixture(params=DATABASE_KINDS)
def url_of_train_database(request, tmp_path, monkeypatch):
    """The URL of an OpenStack placement database of Train."""
    with empty_database(request.param, tmp_path) as url:
        database = Database(make_settings(url))
        create_openstack_schema(database, TRAIN)
        database.dispose()
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", url)
        yield url


def test_db_adopt_prints_its_changes(url_of_train_database, run_main, run_db_command, add_revision):
    status, printed, _ = run_main("db", "adopt", "--yes")
    database_line, first, *rest = printed.splitlines()
    assert status == 0
    parsed = make_url(url_of_train_database)
    server = "" if parsed.get_backend_name() == "sqlite" else f" on {parsed.host}"
    assert database_line == f"database {parsed.database}{server}"
    assert first.endswith(
        "OpenStack placement's database of Train to Wallaby (2.0 to 5.0), revision b5c396305c25"
    )
    printed = "\n".join(rest)
    assert "tables created: consumer_types, placement_sched_alembic_version, sched_agg" in printed
    assert "columns added: consumers.consumer_type_id" in printed
    hashed = (
        "sched_allocations_consumer_id_idx, "
        if url_of_train_database.startswith("postgresql")
        else ""
    )
    assert f"indexes created: {hashed}consumers_consumer_type_id_idx\n" in printed
    assert "standard resource classes added: VCPU, MEMORY_MB" in printed
    assert "found: resource providers 0 (roots 0), inventories 0" in printed
    assert "note: its schema is now at 422ece571366 (Xena)" in printed
    # Adopted again, after an upgrade of this service.
    before, later = get_newest_revision(), add_revision()
    assert run_main("db", "adopt", "--yes")[1].splitlines()[2:-1] == [
        f"tables of placement-sched: upgraded from revision {before} to {later}"
    ]
    add_revision()
    report = run_db_command("adopt", "--yes")
    assert (report["changed"], report["created_indexes"]) == (True, [])
    # Adopted again, without a change.
    report = run_db_command("adopt", "--yes")
    assert (report["changed"], report["created_tables"]) == (False, [])
    assert report["before"] == get_newest_revision()
    assert "already adopted, nothing to do" in run_main("db", "adopt", "--yes")[1]


@pytest.mark.parametrize("url_of_train_database", ["sqlite"], indirect=True)
def test_json_output_of_db_adopt_has_the_openstack_release_and_counts(
    url_of_train_database, run_db_command
):
    report = run_db_command("adopt", "--yes")
    assert report["changed"] is True
    assert report["openstack"] == {
        "before": TRAIN,
        "releases": "Train to Wallaby (2.0 to 5.0)",
        "revision": XENA,
    }
    assert report["found"]["providers"] == 0


@pytest.fixture(params=DATABASE_KINDS)
def url_of_openstack_database(request, tmp_path, monkeypatch):
    """The URL of an OpenStack placement database of the newest release."""
    with empty_database(request.param, tmp_path) as url:
        database = Database(make_settings(url))
        create_openstack_schema(database)
        database.dispose()
        monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", url)
        yield url


def list_table_names(url):
    database = Database(make_settings(url))
    with database.read() as connection:
        names = set(inspect(connection).get_table_names())
    database.dispose()
    return names


def test_db_sync_rejects_an_openstack_database_until_db_adopt(
    url_of_openstack_database, run_main, run_db_command
):
    releases = REVISIONS[NEWEST_REVISION]
    owner = f"OpenStack placement's database of {releases}, revision {NEWEST_REVISION}"
    assert run_main("db", "version")[1].endswith(
        f"schema at revision none, newest {get_newest_revision()}, {owner}, not adopted "
        "(placement-sched db adopt takes it over)\n"
    )
    tables_before = list_table_names(url_of_openstack_database)
    status, printed, error = run_main("db", "sync")
    assert (status, printed) == (1, "")
    assert error == (
        "placement-sched: the database belongs to OpenStack placement "
        f"(revision {NEWEST_REVISION}, {releases}) and is not adopted. "
        "Nothing was changed. Run placement-sched db adopt to take it over\n"
    )
    assert list_table_names(url_of_openstack_database) == tables_before
    assert run_main("db", "adopt", "--yes")[0] == run_main("db", "sync")[0] == 0
    assert run_main("db", "version")[1].endswith(f"{owner}, adopted\n")
    report = run_db_command("version")
    assert (report["adopted"], report["openstack"]["revision"]) == (True, NEWEST_REVISION)


@pytest.mark.parametrize("url_of_openstack_database", ["sqlite"], indirect=True)
@pytest.mark.parametrize("sync", ["true", pytest.param("false", marks=pytest.mark.exhaustive)])
def test_serve_ends_with_an_error_on_an_openstack_database_that_is_not_adopted(
    url_of_openstack_database, run_command, sync
):
    tables_before = list_table_names(url_of_openstack_database)
    refused = run_command(
        "serve",
        "--port",
        "0",
        OS_PLACEMENT_DATABASE__CONNECTION=url_of_openstack_database,
        OS_PLACEMENT_DATABASE__SYNC_ON_STARTUP=sync,
    )
    assert refused.returncode == 1
    assert refused.stdout == ""
    assert refused.stderr.endswith("placement-sched db adopt to take it over\n")
    assert list_table_names(url_of_openstack_database) == tables_before


def test_db_adopt_without_a_database_file_is_an_error(run_command, tmp_path):
    refused = run_command("db", "adopt")
    assert refused.returncode == 1
    assert refused.stdout == "database placement_sched.db\n"
    assert refused.stderr == (
        "placement-sched: there is no file placement_sched.db, so there is nothing to adopt\n"
    )
    assert list(tmp_path.glob("*.db")) == []


def list_schema_names(url):
    """Return the names of all tables, indexes and triggers of a database."""
    database = Database(make_settings(url))
    with database.read() as connection:
        inspector = inspect(connection)
        tables = inspector.get_table_names()
        indexes = {str(item["name"]) for table in tables for item in inspector.get_indexes(table)}
        triggers = list_trigger_names(connection)
    database.dispose()
    return {*tables, *indexes, *triggers} - {"sqlite_sequence"}


def list_trigger_names(connection):
    statement = {
        "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
        "postgresql": "SELECT proname FROM pg_proc WHERE proname LIKE 'sched%'",
    }.get(
        connection.dialect.name,
        "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
    )
    return set(connection.scalars(text(statement)))


def test_db_adopt_dry_run_prints_the_changes_and_makes_none(
    url_of_train_database, run_main, run_db_command
):
    original_names = list_schema_names(url_of_train_database)
    status, printed, _ = run_main("db", "adopt", "--dry-run")
    assert status == 0
    assert printed.startswith("database ")
    assert "tables to create: consumer_types, placement_sched_alembic_version, sched_" in printed
    assert printed.endswith("nothing was changed (--dry-run)\n")
    planned = run_db_command("adopt", "--dry-run")
    assert list_schema_names(url_of_train_database) == original_names
    adoption = run_db_command("adopt", "--yes")
    assert planned["found"] is None
    for key in planned.keys() - {"found", "notes", "created_indexes"}:
        assert planned[key] == adoption[key], key
    assert set(planned["created_indexes"]) == set(adoption["created_indexes"])


def test_db_leave_restores_the_schema_before_the_adoption(
    url_of_openstack_database, run_main, run_db_command
):
    original_names = list_schema_names(url_of_openstack_database)
    assert run_main("db", "adopt", "--yes")[0] == 0
    adopted = list_schema_names(url_of_openstack_database)
    assert "sched_leases" in adopted
    status, script, _ = run_main("db", "leave", "--print")
    statements = run_db_command("leave", "--print")["statements"]
    assert status == 0
    assert all(f"{statement};\n" in script for statement in statements)
    assert list_schema_names(url_of_openstack_database) == adopted
    status, printed, _ = run_main("db", "leave", "--yes")
    assert status == 0
    assert printed.startswith("database ")
    assert list_schema_names(url_of_openstack_database) == original_names
    assert run_main("db", "version")[1].endswith("(placement-sched db adopt takes it over)\n")
    status, _, error = run_main("db", "leave", "--yes")
    assert status == 1
    assert error.endswith("no tables of this service, so there is nothing to remove\n")


def test_db_leave_completes_an_interrupted_removal(url_of_openstack_database, run_main):
    original_names = list_schema_names(url_of_openstack_database)
    assert run_main("db", "adopt", "--yes")[0] == 0
    database = Database(make_settings(url_of_openstack_database))
    with database.read() as connection:
        half = list_leave_statements(connection)[:-9]

    def run_half(connection):
        for statement in half:
            connection.exec_driver_sql(statement)

    database.write(run_half)
    database.dispose()
    assert run_main("db", "leave", "--yes")[0] == 0
    assert list_schema_names(url_of_openstack_database) == original_names


def test_db_leave_rejects_a_database_of_this_service(database_url, run_main, monkeypatch):
    monkeypatch.setenv("OS_PLACEMENT_DATABASE__CONNECTION", database_url)
    original_names = list_schema_names(database_url)
    status, _, error = run_main("db", "leave", "--yes")
    assert status == 1
    assert "the database belongs to this service" in error
    assert list_schema_names(database_url) == original_names


@pytest.mark.parametrize("command", ["adopt", "leave"])
@pytest.mark.parametrize("url_of_openstack_database", ["sqlite"], indirect=True)
def test_database_must_be_named_on_the_command_line(
    url_of_openstack_database, run_main, monkeypatch, tmp_path, command
):
    variable = "OS_PLACEMENT_DATABASE__CONNECTION"
    if command == "leave":
        assert run_main("db", "adopt", "--yes")[0] == 0
    original_names = list_schema_names(url_of_openstack_database)
    folder = tmp_path / "etc"
    folder.mkdir()
    file = folder / "placement.conf"
    file.write_text(f"[placement_database]\nconnection = {url_of_openstack_database}\n")
    # The environment wins over the file.
    status, printed, error = run_main("db", command, "--config-file", str(file))
    assert status == 1
    assert printed == f"database {make_url(url_of_openstack_database).database}\n"
    assert error == (
        f"placement-sched: nothing was changed: environment {variable} names the database, not "
        "the command line. Confirm it with --yes, or unset the variable\n"
    )
    monkeypatch.delenv(variable)
    monkeypatch.setenv("OS_PLACEMENT_CONFIG_DIR", str(folder))
    status, _, error = run_main("db", command)
    assert status == 1
    assert error == (
        f"placement-sched: nothing was changed: {file}:2 names the database, not the command "
        f"line. Confirm it with --config-file {file}, or with --yes\n"
    )
    assert list_schema_names(url_of_openstack_database) == original_names
    assert run_main("db", command, "--config-file", str(file))[0] == 0
    assert list_schema_names(url_of_openstack_database) != original_names


@pytest.mark.parametrize("url_of_openstack_database", ["sqlite"], indirect=True)
@pytest.mark.usefixtures("url_of_openstack_database")
def test_config_validate_reports_a_database_that_is_not_adopted_as_an_error(run_main):
    """No server starts with it."""
    status, printed, _ = run_main("config", "validate", "--database")
    assert status == 1
    assert printed.startswith("error: the database belongs to OpenStack placement (revision ")


@pytest.mark.parametrize("url_of_openstack_database", ["sqlite"], indirect=True)
def test_database_with_an_unknown_revision_is_not_called_placements(
    url_of_openstack_database, run_main
):
    database = Database(make_settings(url_of_openstack_database))
    database.write(
        lambda connection: connection.execute(
            text("UPDATE alembic_version SET version_num = 'd67eeaabee36'")
        )
    )
    database.dispose()
    status, printed, _ = run_main("db", "version")
    assert status == 0
    assert printed.endswith(
        ", with tables named as placement's, but revision d67eeaabee36, which is not a "
        "revision of OpenStack placement, not adopted\n"
    )
    status, _, error = run_main("db", "sync")
    assert status == 1
    assert "revision d67eeaabee36, which is not a revision of OpenStack placement" in error
    assert "belongs to" not in error
    assert "is not a supported revision" in run_main("db", "adopt", "--yes")[2]
    printed = run_main("status", "upgrade", "check")[1]
    assert "Name another database" in " ".join(printed.replace("|", " ").split())
