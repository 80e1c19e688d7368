# SPDX-License-Identifier: Apache-2.0
"""The triggers of the change log are created if possible, and recreated when missing."""

from contextlib import contextmanager
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, insert, text

from placement_sched.db import tables, triggers
from placement_sched.db.migrate import (
    VERSION_TABLE,
    get_newest_revision,
    read_current_revision,
    stop_logging,
    sync_schema,
)
from placement_sched.db.transaction import Database
from placement_sched.store.placement import change_log
from tests.conftest import DATABASE_SERVER_URLS, make_settings
from tests.store.placement.change_log_copy import ChangeLogCopy
from tests.support.empty_databases import DATABASE_KINDS, empty_database
from tests.support.openstack_databases import add_openstack_rows, create_openstack_schema
from tests.support.statements import execute_statements, run_query

pytestmark = pytest.mark.all_databases

TRIGGERS_LOGGER_NAME = "placement_sched.db.triggers"


@pytest.fixture(params=DATABASE_KINDS)
def empty_database_url(request, tmp_path):
    with empty_database(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def database_with_change_log(empty_database_url):
    database = open_database_with_change_log(empty_database_url)
    yield database
    database.dispose()


def open_database_with_change_log(url):
    return Database(make_settings(url))


def open_database_without_change_log(database):
    url = database.url.render_as_string(hide_password=False)
    return Database(make_settings(url, placement__providers_in_memory=False))


def find_missing_triggers(database):
    return run_query(database, triggers.find_missing_triggers)


def read_missing_log_reason(database):
    return run_query(database, change_log.find_defect)


def drop_triggers(database, *names):
    statements = []
    for name in names:
        table = next(each for each in triggers.LOGGED if name.startswith(f"sched_{each}_"))
        suffix = f" ON {table}" if database.url.get_backend_name() == "postgresql" else ""
        statements.append(f"DROP TRIGGER {name}{suffix}")
    execute_statements(database, *statements)


def insert_allocation(database, provider=1):
    """Insert an allocation of a provider, through a database or an engine."""
    row = {"resource_provider_id": provider, "resource_class_id": 1, "consumer_id": "c", "used": 1}
    statement = insert(tables.allocations)
    if isinstance(database, Database):
        database.write(lambda connection: connection.execute(statement, row))
    else:
        with database.begin() as connection:
            connection.execute(statement, row)


def test_missing_triggers_of_the_change_log_are_created(database_with_change_log):
    """MariaDB commits each trigger, so an interrupted sync leaves some without the revision."""
    assert "the table of the change log is missing" in read_missing_log_reason(
        database_with_change_log
    )
    for _ in range(2):
        sync_schema(database_with_change_log)
        assert find_missing_triggers(database_with_change_log) == set()
        assert read_missing_log_reason(database_with_change_log) is None
    with database_with_change_log.read() as connection:
        names = [trigger.name for trigger in triggers._build_triggers(connection)]
    for created in (len(names) - 1, 7, 0):
        drop_triggers(database_with_change_log, *names[created:])
        assert find_missing_triggers(database_with_change_log) == set(names[created:])
        assert min(names[created:]) in read_missing_log_reason(database_with_change_log)
        statements = [f"DELETE FROM {VERSION_TABLE}"]
        statements += [f"DROP TABLE {tables.provider_changes.name}"] * (not created)
        execute_statements(database_with_change_log, *statements)
        sync_schema(database_with_change_log)
        assert read_missing_log_reason(database_with_change_log) is None
        assert read_current_revision(database_with_change_log) == get_newest_revision()


def test_disabled_provider_cache_removes_the_change_log_triggers(database_with_change_log):
    """Existing triggers are removed, and readers of the log notice that it is not kept."""
    without = open_database_without_change_log(database_with_change_log)
    sync_schema(without)
    with without.read() as connection:
        names = {trigger.name for trigger in triggers._build_triggers(connection)}
    assert find_missing_triggers(without) == names
    sync_schema(database_with_change_log)
    copy = ChangeLogCopy(database_with_change_log)
    sync_schema(without)
    assert find_missing_triggers(without) == set()
    assert stop_logging(without)
    assert find_missing_triggers(without) == names
    assert not stop_logging(without)
    insert_allocation(without)
    without.dispose()
    assert copy.follow().needs_full_reload
    assert "lacks the triggers" in read_missing_log_reason(database_with_change_log)


@pytest.mark.parametrize("empty_database_url", ["postgresql"], indirect=True)
def test_disabled_change_log_trigger_counts_as_missing(database_with_change_log):
    sync_schema(database_with_change_log)
    execute_statements(
        database_with_change_log,
        "ALTER TABLE allocations DISABLE TRIGGER sched_allocations_updated",
    )
    assert find_missing_triggers(database_with_change_log) == {"sched_allocations_updated"}
    sync_schema(database_with_change_log)
    assert read_missing_log_reason(database_with_change_log) is None


def test_changes_in_an_adopted_placement_database_are_logged(database_with_change_log):
    create_openstack_schema(database_with_change_log)
    add_openstack_rows(database_with_change_log)
    sync_schema(database_with_change_log)
    assert read_missing_log_reason(database_with_change_log) is None
    copy = ChangeLogCopy(database_with_change_log)
    insert_allocation(database_with_change_log)
    assert copy.follow().providers == {1}
    assert copy.equals_tables()


@contextmanager
def create_user_with_rights(url, rights):
    """Create a user with these rights on a database, and yield the user's URL of it."""
    server = create_engine(DATABASE_SERVER_URLS["mysql"], isolation_level="AUTOCOMMIT")
    name, base = f"ps_{uuid4().hex[:12]}", server.url.set(database=None)
    database = create_engine(url).url.database
    with server.connect() as connection:
        connection.execute(text(f"CREATE USER {name}@'%' IDENTIFIED BY 'secret'"))
        connection.execute(text(f"GRANT {rights} ON {database}.* TO {name}@'%'"))
    try:
        limited = base.set(username=name, password="secret", database=database)
        yield limited.render_as_string(hide_password=False)
    finally:
        with server.connect() as connection:
            connection.execute(text(f"DROP USER {name}@'%'"))
        server.dispose()


@pytest.mark.parametrize("empty_database_url", ["mysql"], indirect=True)
def test_missing_create_trigger_privilege_disables_the_change_log(database_with_change_log, caplog):
    """Once the privilege is granted, the next sync creates the triggers."""
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES"
    url = database_with_change_log.url.render_as_string(hide_password=False)
    with create_user_with_rights(url, rights) as limited:
        database = open_database_with_change_log(limited)
        sync_schema(database)
        assert read_current_revision(database) == get_newest_revision()
        (warning,) = [
            record.getMessage() for record in caplog.records if record.name == TRIGGERS_LOGGER_NAME
        ]
        assert warning.startswith("[placement] providers_in_memory has no effect: ")
        assert "TRIGGER command denied" in warning
        assert "Grant it TRIGGER" in warning
        assert "lacks the triggers" in read_missing_log_reason(database)
        insert_allocation(database)
        database.dispose()
    sync_schema(database_with_change_log)
    assert read_missing_log_reason(database_with_change_log) is None


@contextmanager
def connect_as_role_without_ownership(database):
    """Give a connection with a new role that may write to the tables but does not own them."""
    name = f"ps_{uuid4().hex[:12]}"

    execute_statements(
        database, f"CREATE ROLE {name}", f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}"
    )
    try:
        with database.writer.begin() as connection:
            connection.execute(text(f"SET LOCAL ROLE {name}"))
            yield connection
    finally:
        execute_statements(database, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


@pytest.mark.parametrize("empty_database_url", ["postgresql"], indirect=True)
def test_change_log_triggers_are_unchanged_without_ownership(database_with_change_log, caplog):
    """The user of an operator who changes the option may not own the tables."""
    sync_schema(database_with_change_log)
    with connect_as_role_without_ownership(database_with_change_log) as connection:
        triggers.remove_triggers(connection)
    assert read_missing_log_reason(database_with_change_log) is None
    without = open_database_without_change_log(database_with_change_log)
    stop_logging(without)
    without.dispose()
    with connect_as_role_without_ownership(database_with_change_log) as connection:
        triggers.make_triggers(connection)
    assert "lacks the triggers" in read_missing_log_reason(database_with_change_log)
    removal, creation = (r.getMessage() for r in caplog.records if r.name == TRIGGERS_LOGGER_NAME)
    assert "may not remove them: must be owner" in removal
    assert "may not create the triggers" in creation
    assert "Let it own the tables" in creation


@pytest.mark.parametrize("empty_database_url", ["mysql"], indirect=True)
def test_user_without_rights_on_the_change_log_can_write_allocations(database_with_change_log):
    """The triggers run with the privileges of the user that created them."""
    sync_schema(database_with_change_log)
    copy = ChangeLogCopy(database_with_change_log)
    url = database_with_change_log.url.render_as_string(hide_password=False)
    with create_user_with_rights(url, "SELECT") as limited:
        server = create_engine(DATABASE_SERVER_URLS["mysql"], isolation_level="AUTOCOMMIT")
        other = create_engine(limited)
        with server.connect() as connection:
            table = f"{database_with_change_log.url.database}.allocations"
            rights = f"INSERT ON {table} TO {other.url.username}@'%'"
            connection.execute(text(f"GRANT {rights}"))
        insert_allocation(other, 5)
        other.dispose()
        server.dispose()
    assert copy.follow().providers == {5}


@pytest.mark.parametrize("empty_database_url", ["mysql"], indirect=True)
def test_cascading_foreign_keys_prevent_change_log_triggers(database_with_change_log, caplog):
    """On InnoDB, such deletes run no triggers. The command removes existing triggers."""
    sync_schema(database_with_change_log)
    execute_statements(
        database_with_change_log,
        "ALTER TABLE inventories ADD CONSTRAINT theirs FOREIGN KEY (resource_provider_id) "
        "REFERENCES resource_providers (id) ON DELETE CASCADE",
    )
    assert "theirs" in read_missing_log_reason(database_with_change_log)
    sync_schema(database_with_change_log)
    warnings = [record for record in caplog.records if record.name.endswith(".migrate")]
    (warning,) = [record.getMessage() for record in warnings]
    assert "theirs" in warning
    assert stop_logging(database_with_change_log)
    sync_schema(database_with_change_log)
    assert "sched_allocations_inserted" in find_missing_triggers(database_with_change_log)


@pytest.mark.parametrize("empty_database_url", ["mysql"], indirect=True)
def test_trigger_creation_waits_briefly_for_table_locks(database_with_change_log, monkeypatch):
    """Other statements on the table would wait as long."""
    sync_schema(database_with_change_log)
    drop_triggers(database_with_change_log, "sched_inventories_deleted")
    other = create_engine(database_with_change_log.url)
    pauses = []

    def record_pause_and_roll_back(seconds):
        pauses.append(seconds)
        using.rollback()

    monkeypatch.setattr("placement_sched.db.migrate.time.sleep", record_pause_and_roll_back)
    with other.connect() as using:
        using.execute(text("SELECT count(*) FROM inventories"))
        sync_schema(database_with_change_log)
    other.dispose()
    assert len(pauses) == 1
    assert find_missing_triggers(database_with_change_log) == set()
    with database_with_change_log.read() as connection:
        waits = connection.execute(text("SELECT @@lock_wait_timeout")).scalar_one()
    assert waits > 60
