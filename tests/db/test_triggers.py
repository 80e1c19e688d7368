# SPDX-License-Identifier: Apache-2.0
"""The triggers of the log of changes are made where they may be, and again where they are lost."""

from contextlib import contextmanager
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, insert, text

from placement_sched.db import tables, triggers
from placement_sched.db.migrate import (
    VERSION_TABLE,
    current_revision,
    newest_revision,
    stop_logging,
    sync_schema,
)
from placement_sched.db.transaction import Database
from placement_sched.store.placement import change_log
from tests.conftest import SERVERS, make_settings
from tests.support.empty_databases import KINDS, empty_database
from tests.support.openstack_databases import add_openstack_rows, create_openstack_schema
from tests.support.placement_copy import Copy

pytestmark = pytest.mark.all_databases

LOGGER = "placement_sched.db.triggers"


@pytest.fixture(params=KINDS)
def empty_url(request, tmp_path):
    with empty_database(request.param, tmp_path) as url:
        yield url


@pytest.fixture
def empty(empty_url):
    database = logging_database(empty_url)
    yield database
    database.dispose()


def logging_database(url):
    return Database(make_settings(url, placement__providers_in_memory=True))


def missing(database):
    with database.read() as connection:
        return triggers.missing_triggers(connection)


def reason(database):
    with database.read() as connection:
        return change_log.reason_without_log(connection)


def drop(database, *names):
    def work(connection):
        for name in names:
            table = next(one for one in triggers.LOGGED if name.startswith(f"sched_{one}_"))
            of_table = f" ON {table}" if connection.dialect.name == "postgresql" else ""
            connection.execute(text(f"DROP TRIGGER {name}{of_table}"))

    database.write(work)


def test_log_is_not_kept_without_its_table(empty):
    assert "the table of the change log is missing" in reason(empty)


def test_sync_makes_all_and_a_second_one_changes_nothing(empty):
    sync_schema(empty)
    assert reason(empty) is None
    sync_schema(empty)
    assert missing(empty) == set()


def test_without_providers_in_memory_there_are_no_triggers(empty):
    """Those that are there are removed; what follows the log then knows that it is not kept."""
    without = Database(make_settings(empty.url.render_as_string(hide_password=False)))
    sync_schema(without)
    with without.read() as connection:
        every = {one.name for one in triggers._build_triggers(connection)}
    assert missing(without) == every
    sync_schema(empty)
    copy = Copy(empty)
    sync_schema(without)
    assert missing(without) == set()
    assert stop_logging(without)
    assert missing(without) == every
    assert not stop_logging(without)
    row = {"resource_provider_id": 1, "resource_class_id": 1, "consumer_id": "c", "used": 1}
    without.write(lambda connection: connection.execute(insert(tables.allocations), row))
    without.dispose()
    assert copy.follow().is_in_doubt
    assert "lacks the triggers" in reason(empty)


def test_lost_triggers_are_noticed_and_made_by_the_next_sync(empty):
    sync_schema(empty)
    lost = ("sched_allocations_inserted", "sched_inventories_deleted")
    drop(empty, *lost)
    assert missing(empty) == set(lost)
    assert "sched_allocations_inserted" in reason(empty)
    sync_schema(empty)
    assert reason(empty) is None


@pytest.mark.parametrize("empty_url", ["postgresql"], indirect=True)
def test_disabled_trigger_is_as_good_as_none(empty):
    sync_schema(empty)
    disable = "ALTER TABLE allocations DISABLE TRIGGER sched_allocations_updated"
    empty.write(lambda connection: connection.execute(text(disable)))
    assert missing(empty) == {"sched_allocations_updated"}
    sync_schema(empty)
    assert reason(empty) is None


@pytest.mark.parametrize("made", [0, 1, 7])
def test_interrupted_sync_goes_on(empty, made):
    """MariaDB commits each trigger: some are there, the revision is not."""
    sync_schema(empty)
    with empty.read() as connection:
        names = [one.name for one in triggers._build_triggers(connection)]
    drop(empty, *names[made:])

    def as_it_was(connection):
        connection.execute(text(f"DELETE FROM {VERSION_TABLE}"))
        if not made:
            connection.execute(text(f"DROP TABLE {tables.provider_changes.name}"))

    empty.write(as_it_was)
    sync_schema(empty)
    assert reason(empty) is None
    assert current_revision(empty) == newest_revision()


def test_database_that_openstack_placement_made_and_filled_is_logged(empty):
    create_openstack_schema(empty)
    add_openstack_rows(empty)
    sync_schema(empty)
    assert reason(empty) is None
    copy = Copy(empty)
    row = {"resource_provider_id": 1, "resource_class_id": 1, "consumer_id": "c", "used": 1}
    empty.write(lambda connection: connection.execute(insert(tables.allocations), row))
    assert copy.follow().providers == {1}
    assert copy.is_right()


@contextmanager
def user_with(url, rights):
    """Give the database's URL for a new user with these rights on it."""
    server = create_engine(SERVERS["mysql"], isolation_level="AUTOCOMMIT")
    name, there = f"ps_{uuid4().hex[:12]}", server.url.set(database=None)
    its = create_engine(url).url
    with server.connect() as connection:
        connection.execute(text(f"CREATE USER {name}@'%' IDENTIFIED BY 'secret'"))
        connection.execute(text(f"GRANT {rights} ON {its.database}.* TO {name}@'%'"))
    try:
        limited = there.set(username=name, password="secret", database=its.database)
        yield limited.render_as_string(hide_password=False)
    finally:
        with server.connect() as connection:
            connection.execute(text(f"DROP USER {name}@'%'"))
        server.dispose()


@pytest.mark.parametrize("empty_url", ["mysql"], indirect=True)
def test_user_who_may_not_create_triggers_goes_on_without_the_log(empty, caplog):
    """Once the privilege is granted, the next sync makes them."""
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, ALTER, INDEX, REFERENCES"
    url = empty.url.render_as_string(hide_password=False)
    with user_with(url, rights) as limited:
        database = logging_database(limited)
        sync_schema(database)
        assert current_revision(database) == newest_revision()
        (warning,) = [one.getMessage() for one in caplog.records if one.name == LOGGER]
        assert warning.startswith("[placement] providers_in_memory has no effect: ")
        assert "TRIGGER command denied" in warning
        assert "Grant it TRIGGER" in warning
        assert "lacks the triggers" in reason(database)
        row = {"resource_provider_id": 1, "resource_class_id": 1, "consumer_id": "c", "used": 1}
        database.write(lambda connection: connection.execute(insert(tables.allocations), row))
        database.dispose()
    sync_schema(empty)
    assert reason(empty) is None


@pytest.mark.parametrize("empty_url", ["postgresql"], indirect=True)
def test_user_who_does_not_own_the_tables_goes_on_without_the_log(empty, caplog):
    sync_schema(empty)
    without = Database(make_settings(empty.url.render_as_string(hide_password=False)))
    stop_logging(without)
    without.dispose()
    name = f"ps_{uuid4().hex[:12]}"
    for statement in (f"CREATE ROLE {name}", f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}"):
        empty.write(lambda connection, one=statement: connection.execute(text(one)))
    try:
        with empty.writer.begin() as connection:
            connection.execute(text(f"SET LOCAL ROLE {name}"))
            triggers.make_triggers(connection)
        (warning,) = [one.getMessage() for one in caplog.records if one.name == LOGGER]
        assert "may not create the triggers" in warning
        assert "Let it own the tables" in warning
        assert "lacks the triggers" in reason(empty)
    finally:
        empty.write(lambda connection: connection.execute(text(f"DROP OWNED BY {name}")))
        empty.write(lambda connection: connection.execute(text(f"DROP ROLE {name}")))


@pytest.mark.parametrize("empty_url", ["postgresql"], indirect=True)
def test_user_who_may_not_remove_triggers_goes_on_with_them(empty, caplog):
    """An operator who turns the option off need not own the tables."""
    sync_schema(empty)
    name = f"ps_{uuid4().hex[:12]}"
    for statement in (f"CREATE ROLE {name}", f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {name}"):
        empty.write(lambda connection, one=statement: connection.execute(text(one)))
    try:
        with empty.writer.begin() as connection:
            connection.execute(text(f"SET LOCAL ROLE {name}"))
            triggers.remove_triggers(connection)
        (warning,) = [one.getMessage() for one in caplog.records if one.name == LOGGER]
        assert "may not remove them: must be owner" in warning
        assert reason(empty) is None
    finally:
        empty.write(lambda connection: connection.execute(text(f"DROP OWNED BY {name}")))
        empty.write(lambda connection: connection.execute(text(f"DROP ROLE {name}")))


@pytest.mark.parametrize("empty_url", ["mysql"], indirect=True)
def test_service_that_may_not_write_our_tables_may_write_its_own(empty):
    """The triggers run with the privileges of the user that made them."""
    sync_schema(empty)
    copy = Copy(empty)
    url = empty.url.render_as_string(hide_password=False)
    with user_with(url, "SELECT") as limited:
        server = create_engine(SERVERS["mysql"], isolation_level="AUTOCOMMIT")
        other = create_engine(limited)
        with server.connect() as connection:
            rights = f"INSERT ON {empty.url.database}.allocations TO {other.url.username}@'%'"
            connection.execute(text(f"GRANT {rights}"))
        row = {"resource_provider_id": 5, "resource_class_id": 1, "consumer_id": "c", "used": 1}
        with other.begin() as connection:
            connection.execute(insert(tables.allocations), row)
        other.dispose()
        server.dispose()
    assert copy.follow().providers == {5}


@pytest.fixture
def cascading(empty):
    """A database with a foreign key whose deletes InnoDB does without triggers."""
    sync_schema(empty)
    key = (
        "ALTER TABLE inventories ADD CONSTRAINT theirs FOREIGN KEY (resource_provider_id) "
        "REFERENCES resource_providers (id) ON DELETE CASCADE"
    )
    empty.write(lambda connection: connection.execute(text(key)))
    return empty


@pytest.mark.parametrize("empty_url", ["mysql"], indirect=True)
def test_database_whose_changes_would_be_missed_gets_no_triggers(cascading, caplog):
    """A sync says so and succeeds; triggers that are there are removed by the command."""
    assert "theirs" in reason(cascading)
    sync_schema(cascading)
    (warning,) = [one.getMessage() for one in caplog.records if one.name.endswith(".migrate")]
    assert "theirs" in warning
    assert stop_logging(cascading)
    sync_schema(cascading)
    assert "sched_allocations_inserted" in missing(cascading)


@pytest.mark.parametrize("empty_url", ["mysql"], indirect=True)
def test_ids_of_several_servers_are_followed(empty):
    """As those of the nodes of a Galera cluster."""
    sync_schema(empty)
    url = empty.url.update_query_dict({"init_command": "SET auto_increment_increment = 3"})
    other = logging_database(url.render_as_string(hide_password=False))
    copy = Copy(empty)
    for number, database in enumerate((empty, other, other, empty), 1):
        row = {"resource_provider_id": number, "resource_class_id": 1, "consumer_id": "c"}
        database.write(
            lambda connection, row=row: connection.execute(
                insert(tables.allocations), {**row, "used": 1}
            )
        )
        assert copy.follow().providers == {number}
    other.dispose()
    assert copy.is_right()


@pytest.mark.parametrize("empty_url", ["mysql"], indirect=True)
def test_triggers_wait_briefly_for_a_transaction_that_uses_a_table(empty, monkeypatch):
    """Whoever wants the table after them would wait as long as they do."""
    sync_schema(empty)
    drop(empty, "sched_inventories_deleted")
    other = create_engine(empty.url)
    pauses = []

    def pause(seconds):
        pauses.append(seconds)
        using.rollback()

    monkeypatch.setattr("placement_sched.db.migrate.time.sleep", pause)
    with other.connect() as using:
        using.execute(text("SELECT count(*) FROM inventories"))
        sync_schema(empty)
    other.dispose()
    assert len(pauses) == 1
    assert missing(empty) == set()
    with empty.read() as connection:
        waits = connection.execute(text("SELECT @@lock_wait_timeout")).scalar_one()
    assert waits > 60
