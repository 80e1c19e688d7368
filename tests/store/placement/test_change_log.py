"""The log of changes names what was written, by whatever statement, once it is committed."""

from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from sqlalchemy import func, insert, select, text, update

from placement_sched.db import tables
from placement_sched.db.tables import change_marks
from placement_sched.store.placement import (
    change_gaps,
    change_log,
    change_numbers,
    change_positions,
)
from tests.conftest import make_settings
from tests.store.placement.copied import Copy
from tests.versions import LATEST_HEADERS

pytestmark = [pytest.mark.all_databases, pytest.mark.usefixtures("log_of_changes")]

#: Ids of providers that no other test has.
A, B, C = 900_001, 900_002, 900_003

INVENTORY = (
    "resource_provider_id, resource_class_id, total, reserved, min_unit, max_unit, step_size, "
    "allocation_ratio"
)
#: What is there before each write.
BEFORE = (
    (
        "INSERT INTO resource_providers (id, uuid, name, generation, root_provider_id) VALUES "
        f"({A}, 'a', 'a', 0, {A}), ({B}, 'b', 'b', 0, {A})"
    ),
    (
        f"INSERT INTO inventories ({INVENTORY}) VALUES ({A}, 0, 8, 0, 1, 8, 1, 1.0), "
        f"({B}, 0, 8, 0, 1, 8, 1, 1.0)"
    ),
    (
        "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) "
        f"VALUES ({A}, 'x', 0, 1), ({A}, 'y', 0, 2), ({B}, 'y', 1, 3)"
    ),
    (
        "INSERT INTO resource_provider_traits (resource_provider_id, trait_id) "
        f"SELECT {A}, min(id) FROM traits"
    ),
    "INSERT INTO placement_aggregates (id, uuid) VALUES (900001, 'g')",
    (
        f"INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES "
        f"({A}, 900001), ({B}, 900001)"
    ),
)
#: Statements as other services write them, what they are about, and whether that is names.
WRITES = {
    "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) VALUES "
    f"({A}, 'z', 0, 1), ({A}, 'z', 1, 1), ({B}, 'z', 0, 1)": {A, B},
    "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) SELECT "
    f"{C}, consumer_id, resource_class_id, used FROM allocations": {C},
    "UPDATE allocations SET used = used + 1 WHERE consumer_id = 'x'": {A},
    "UPDATE allocations SET used = used + 1": {A, B},
    f"UPDATE allocations SET resource_provider_id = {C} WHERE consumer_id = 'x'": {A, C},
    "UPDATE allocations SET used = 0 WHERE consumer_id = 'nothing'": set(),
    "DELETE FROM allocations WHERE consumer_id = 'y'": {A, B},
    "DELETE FROM allocations": {A, B},
    f"INSERT INTO inventories ({INVENTORY}) VALUES ({B}, 1, 8, 0, 1, 8, 1, 1.0)": {B},
    f"UPDATE inventories SET total = 9 WHERE resource_provider_id = {A}": {A},
    f"UPDATE inventories SET resource_provider_id = {C} WHERE resource_provider_id = {B}": {B, C},
    "DELETE FROM inventories": {A, B},
    f"INSERT INTO resource_provider_traits (resource_provider_id, trait_id) SELECT {B}, max(id) "
    "FROM traits": {B},
    f"UPDATE resource_provider_traits SET resource_provider_id = {B}": {A, B},
    "DELETE FROM resource_provider_traits": {A},
    f"INSERT INTO resource_provider_aggregates (resource_provider_id, aggregate_id) VALUES "
    f"({C}, 900001)": {C},
    f"UPDATE resource_provider_aggregates SET aggregate_id = 7 WHERE resource_provider_id = {B}": {
        B
    },
    "DELETE FROM resource_provider_aggregates": {A, B},
    f"INSERT INTO resource_providers (id, uuid, name) VALUES ({C}, 'c', 'c')": {C},
    f"UPDATE resource_providers SET generation = 1 WHERE id = {A}": {A},
    f"UPDATE resource_providers SET root_provider_id = {B} WHERE id = {B}": {B},
    f"DELETE FROM resource_providers WHERE id = {B}": {B},
    "INSERT INTO traits (name) VALUES ('CUSTOM_T')": {"names"},
    "INSERT INTO resource_classes (id, name) VALUES (20000, 'CUSTOM_C')": {"names"},
    "UPDATE placement_aggregates SET uuid = 'h' WHERE id = 900001": {"names"},
    "DELETE FROM placement_aggregates WHERE id = 900001": {"names"},
}


def do(database, *statements):
    """Execute statements in one transaction."""

    def work(connection):
        for statement in statements:
            connection.execute(text(statement))

    database.write(work)


def allocate(connection, *providers):
    for provider in providers:
        row = {"resource_provider_id": provider, "consumer_id": str(uuid4()), "used": 1}
        connection.execute(insert(tables.allocations), {**row, "resource_class_id": 0})


@pytest.fixture
def following(database):
    """A function that tells what was written since it was last called."""
    do(database, *BEFORE)
    copy = Copy(database)

    def written():
        changes = copy.follow()
        assert copy.is_right()
        assert not copy.doubts
        return set(changes.providers) | ({"names"} if changes.names else set())

    return written


@pytest.mark.parametrize("statement", WRITES)
def test_each_statement_is_logged_with_its_providers_and_no_others(database, following, statement):
    do(database, statement)
    assert following() == WRITES[statement]
    assert following() == set()


def test_a_row_inserted_over_another_is_logged(database, following):
    """As MariaDB's REPLACE and all upserts have it."""
    if database.url.get_backend_name() == "mysql":
        do(
            database,
            f"REPLACE INTO resource_provider_aggregates (resource_provider_id, aggregate_id) "
            f"VALUES ({A}, 900001)",
        )
        assert following() == {A}
        conflict = "ON DUPLICATE KEY UPDATE total = 5"
    else:
        conflict = "ON CONFLICT (resource_provider_id, resource_class_id) DO UPDATE SET total = 5"
    values = f"({B}, 0, 8, 0, 1, 8, 1, 1.0)"
    do(database, f"INSERT INTO inventories ({INVENTORY}) VALUES {values} {conflict}")
    assert following() == {B}


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_truncated_table_is_read_again_as_a_whole(database, following):
    with database.read() as connection:
        position = change_log.begin(connection)
        do(database, "TRUNCATE allocations")
        assert change_log.since(connection, position).in_doubt


def test_nothing_is_logged_before_its_commit_nor_after_a_rollback(database, following):
    with database.writer.connect() as connection:
        allocate(connection, A)
        assert following() == set()
        connection.rollback()
        assert following() == set()
        allocate(connection, B)
        connection.commit()
        assert following() == {B}


def test_what_a_savepoint_took_back_is_not_logged(database, following):
    with database.writer.begin() as connection:
        allocate(connection, A)
        with connection.begin_nested() as savepoint:
            allocate(connection, B, C)
            savepoint.rollback()
        allocate(connection, A)
    assert following() == {A}


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_transaction_that_ends_after_many_later_ones_is_logged(database, following):
    with database.writer.connect() as long:
        allocate(long, A)
        for _ in range(30):
            with database.writer.begin() as connection:
                allocate(connection, B)
            with database.writer.connect() as connection:
                allocate(connection, B)
                connection.rollback()
            assert following() == {B}
        long.commit()
    assert following() == {A}


def test_many_rows_of_one_statement_are_one_row_of_the_log_on_postgresql(database, following):
    rows = ", ".join(f"({A}, 'many', {number}, 1)" for number in range(1000))
    with database.read() as connection:
        count = select(func.count()).select_from(tables.provider_changes)
        before = connection.scalar(count)
        do(
            database,
            "INSERT INTO allocations (resource_provider_id, consumer_id, resource_class_id, used) "
            f"VALUES {rows}",
        )
        if database.url.get_backend_name() == "postgresql":
            assert connection.scalar(count) == before + 1
    assert following() == {A}


def test_reading_is_one_statement(database, following):
    following()
    with database.read() as connection:
        position = change_log.begin(connection)
        do(database, f"DELETE FROM allocations WHERE resource_provider_id = {A}")
        database.tally.reset()
        change_log.since(connection, position)
        assert database.tally.statements == 1


def test_what_this_service_writes_is_logged(database, database_url, make_app):
    """Each kind of write of the Placement API, and a reshape."""
    settings = make_settings(database_url, placement__providers_in_memory=True)
    app = make_app(settings, in_memory=True)
    provider, child = str(uuid4()), str(uuid4())
    copy, at = Copy(database), "/placement/resource_providers"
    consumer = {"project_id": "p", "user_id": "u", "consumer_type": "INSTANCE"}
    inventories = {"VCPU": {"total": 8}, "DISK_GB": {"total": 100}}
    headers = {**LATEST_HEADERS, "X-Roles": "admin,service"}

    def write(method, path, *body):
        getattr(app, method)(path, *body, headers=headers)
        changes = copy.follow()
        assert copy.is_right()
        return len(changes.providers), changes.names

    steps = [
        write("post_json", at, {"name": "cn1", "uuid": provider}),
        write("post_json", at, {"name": "c", "uuid": child, "parent_provider_uuid": provider}),
        write(
            "put_json",
            f"{at}/{provider}/inventories",
            {"resource_provider_generation": 0, "inventories": inventories},
        ),
        write("put", "/placement/traits/CUSTOM_NEW"),
        write(
            "put_json",
            f"{at}/{provider}/traits",
            {"resource_provider_generation": 1, "traits": ["CUSTOM_NEW"]},
        ),
        write(
            "put_json",
            f"{at}/{child}/aggregates",
            {"resource_provider_generation": 0, "aggregates": [str(uuid4())]},
        ),
        write(
            "put_json",
            "/placement/allocations/c1c1c1c1-1111-4111-8111-111111111111",
            {
                **consumer,
                "consumer_generation": None,
                "allocations": {provider: {"resources": {"VCPU": 2}}},
            },
        ),
        write(
            "post_json",
            "/placement/reshaper",
            {
                "inventories": {
                    provider: {
                        "resource_provider_generation": 3,
                        "inventories": {"DISK_GB": {"total": 100}},
                    },
                    child: {
                        "resource_provider_generation": 1,
                        "inventories": {"VCPU": {"total": 8}},
                    },
                },
                "allocations": {
                    "c1c1c1c1-1111-4111-8111-111111111111": {
                        **consumer,
                        "consumer_generation": 1,
                        "allocations": {child: {"resources": {"VCPU": 2}}},
                    }
                },
            },
        ),
        write("delete", "/placement/allocations/c1c1c1c1-1111-4111-8111-111111111111"),
        write("delete", f"{at}/{child}"),
    ]
    assert steps == [
        (1, False),
        (1, False),
        (1, False),
        (0, True),
        (1, False),
        (1, True),
        (1, False),
        (2, False),
        (1, False),
        (1, False),
    ]


def test_position_of_another_start_of_the_server_is_in_doubt(database, following):
    with database.read() as connection:
        position = change_log.begin(connection)
        elsewhere = replace(position, server="another")
        assert not change_log.since(connection, position).in_doubt
        assert change_log.since(connection, elsewhere).in_doubt


def test_log_that_was_emptied_or_restored_is_in_doubt(database, following):
    """A dump loaded over it has other rows under the same numbers."""
    with database.read() as connection:
        position = change_log.begin(connection)
        do(database, f"DELETE FROM {tables.change_marks.name}")
        assert change_log.since(connection, position).in_doubt
        position = change_log.begin(connection)
        assert not change_log.since(connection, position).in_doubt
        if database.url.get_backend_name() != "postgresql":
            last = f"WHERE id = {position.last}"
            do(database, f"UPDATE sched_provider_changes SET provider_id = 77 {last}")
            assert change_log.since(connection, position).in_doubt
            do(database, f"DELETE FROM sched_provider_changes {last}")
            assert change_log.since(connection, position).in_doubt


@pytest.mark.parametrize("database_url", ["mysql"], indirect=True)
def test_too_many_gaps_are_in_doubt(database, following, monkeypatch):
    monkeypatch.setattr(change_numbers, "MOST_GAPS", 3)
    with database.read() as connection:
        position = change_log.begin(connection)
        with database.writer.connect() as writing:
            allocate(writing, A, A, A, A)
            writing.rollback()
            allocate(writing, A)
            writing.commit()
        assert change_log.since(connection, position).in_doubt


@pytest.mark.parametrize("database_url", ["mysql"], indirect=True)
def test_gaps_are_looked_for_until_their_transactions_have_ended(database, following, monkeypatch):
    """Also where other transactions, which began later, go on."""
    monkeypatch.setattr(change_gaps, "PAUSE", 0.0)
    with database.read() as connection, database.writer.connect() as writing:
        changes = change_log.since(connection, change_log.begin(connection))
        allocate(writing, A, A)
        with database.writer.connect() as other:
            allocate(other, A)
            other.rollback()
            allocate(other, B)
            other.commit()
        for _ in range(5):
            changes = change_log.since(connection, changes.position)
            assert len(changes.position.awaited) == 3
        writing.commit()
        changes = change_log.since(connection, changes.position)
        assert changes.providers == {A}
        for _ in range(2):
            changes = change_log.since(connection, changes.position)
        assert changes.position.awaited == set()


class TestTrimming:
    """What a mark was shown is deleted, and readers that lack it notice."""

    NOW = timedelta(0)

    def trim(self, connection, position, keep=NOW):
        return change_log.trim(connection, position, keep=keep, spacing=self.NOW)

    def test_rows_that_are_young_stay(self, database, following):
        with database.read() as connection:
            position = change_log.begin(connection)
            do(database, "UPDATE allocations SET used = 7")
            for _ in range(3):
                assert change_log.trim(connection, position) == 0
            assert change_log.since(connection, position).providers == {A, B}

    def test_marks_from_before_the_clock_went_back_are_followed_by_others(
        self, database, following
    ):
        with database.read() as connection:
            position = change_log.begin(connection)
            change_log.trim(connection, position)
            before = len(change_positions.marks(connection))
            change_log.trim(connection, position)
            assert len(change_positions.marks(connection)) == before
            ahead = change_positions.time_there(connection) + timedelta(days=365)
            database.write(
                lambda writing: writing.execute(update(change_marks).values(created_at=ahead))
            )
            change_log.trim(connection, position)
            *_, newest = change_positions.marks(connection)
            assert newest.created_at < ahead - timedelta(days=364)
            # Once that is old, those of the future go with it.
            change_log.trim(connection, position, keep=self.NOW)
            assert change_positions.marks(connection) == (newest,)

    def test_old_rows_go_and_late_readers_are_in_doubt(self, database, following):
        with database.read() as connection:
            early = change_log.begin(connection)
            do(database, "UPDATE allocations SET used = 7")
            changes = change_log.since(connection, early)
            self.trim(connection, changes.position)
            later = change_log.since(connection, changes.position).position
            assert self.trim(connection, later) > 0
            assert change_log.since(connection, early).in_doubt
            do(database, f"UPDATE allocations SET used = 8 WHERE resource_provider_id = {A}")
            assert change_log.since(connection, later).providers == {A}

    def test_reader_that_starts_again_is_right(self, database):
        do(database, *BEFORE)
        with database.read() as connection:
            copy = Copy(database)
            for number in range(5):
                do(database, f"UPDATE allocations SET used = {number}")
                copy.follow()
                self.trim(connection, copy.position)
                copy = Copy(database)
                do(database, f"UPDATE inventories SET total = {number}")
                copy.follow()
                assert copy.is_right()
            left = connection.scalar(select(func.count()).select_from(tables.provider_changes))
        assert left < 20

    @pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
    def test_rows_of_a_transaction_that_was_open_at_the_mark_stay(self, database, following):
        with database.read() as connection, database.writer.connect() as long:
            position = change_log.begin(connection)
            allocate(long, A)
            do(database, f"UPDATE allocations SET used = 7 WHERE resource_provider_id = {B}")
            changes = change_log.since(connection, position)
            assert changes.providers == {B}
            self.trim(connection, changes.position)
            changes = change_log.since(connection, changes.position)
            long.commit()
            self.trim(connection, changes.position)
            assert change_log.since(connection, changes.position).providers == {A}


def test_the_log_is_kept(database):
    with database.read() as connection:
        assert change_log.why_not_kept(connection) is None
        assert change_log.is_kept(connection)
