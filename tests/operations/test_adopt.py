# SPDX-License-Identifier: Apache-2.0
"""Adopting OpenStack placement's database: what is added, what is spared, what is refused."""

from uuid import uuid4

import pytest
from sqlalchemy import insert, inspect, select, text

from placement_sched.db.migrate import (
    REVISIONS,
    TRAIN,
    XENA,
    current_revision,
    inspect_schema,
    newest_revision,
    sync_schema,
)
from placement_sched.db.tables import (
    OWN_TABLES,
    compute_nodes,
    consumer_types,
    consumers,
    metadata,
    resource_providers,
)
from placement_sched.db.transaction import Database
from placement_sched.errors import NotAdopted, Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.model.provider import UNKNOWN_TYPE
from placement_sched.operations.adopt import adopt, describe_adoption
from placement_sched.operations.prepare import Preparation, sync
from placement_sched.schemas.node_report import Defaults, parse
from placement_sched.store.compute.compute_nodes import row_of
from placement_sched.store.placement import usages
from tests.conftest import make_settings
from tests.support.empty_databases import KINDS, empty_database
from tests.support.openstack_databases import (
    NEWEST,
    add_openstack_rows,
    create_openstack_schema,
    stamp,
)
from tests.support.reports import NOW, build_report

pytestmark = pytest.mark.all_databases

OURS = {table.name for table in OWN_TABLES} | {"placement_sched_alembic_version"}


@pytest.fixture(params=KINDS)
def empty(request, tmp_path):
    with empty_database(request.param, tmp_path) as url:
        database = Database(make_settings(url))
        yield database
        database.dispose()


@pytest.fixture
def sqlite_empty(tmp_path):
    with empty_database("sqlite", tmp_path) as url:
        database = Database(make_settings(url))
        yield database
        database.dispose()


def tables(database: Database) -> set[str]:
    with database.read() as connection:
        return set(inspect(connection).get_table_names())


@pytest.mark.parametrize("revision", [XENA, NEWEST])
def test_ours_is_added_and_told(empty, revision):
    create_openstack_schema(empty, revision)
    adoption = adopt(empty, utcnow)
    assert set(adoption.created_tables) == OURS
    assert (adoption.found, adoption.revision, adoption.added_columns) == (revision, revision, ())
    assert (adoption.before, adoption.own_revision) == (None, newest_revision())
    assert "VCPU" in adoption.added.resource_classes
    assert "HW_CPU_X86_AVX2" in adoption.added.traits
    assert adoption.changed
    assert current_revision(empty) == newest_revision()


HASH = "sched_allocations_consumer_id_idx"


def hashed(database: Database) -> tuple[str, ...]:
    """The index on OpenStack placement's allocations, where the database has such."""
    return (HASH,) if database.url.get_backend_name() == "postgresql" else ()


@pytest.mark.parametrize(
    ("revision", "theirs"), [(TRAIN, ("consumers_consumer_type_id_idx",)), (NEWEST, ())]
)
def test_indexes_on_tables_that_were_there_are_told(empty, revision, theirs):
    create_openstack_schema(empty, revision)
    assert adopt(empty, utcnow).created_indexes == (*hashed(empty), *theirs)
    assert adopt(empty, utcnow).created_indexes == ()


def test_revision_of_an_earlier_release_of_ours_is_reported(empty):
    create_openstack_schema(empty)
    adopt(empty, utcnow)
    number = text("UPDATE placement_sched_alembic_version SET version_num = '0020'")
    empty.write(lambda connection: connection.execute(number))
    adoption = adopt(empty, utcnow)
    assert (adoption.before, adoption.own_revision) == ("0020", newest_revision())
    assert (adoption.created_tables, adoption.added_columns, adoption.created_indexes) == (
        (),
        (),
        (),
    )
    assert adoption.changed


def test_what_is_in_it_is_counted_and_kept(empty):
    create_openstack_schema(empty)
    uuid = add_openstack_rows(empty)
    counted = adopt(empty, utcnow).census
    assert (counted.providers, counted.root_providers, counted.inventories) == (1, 1, 1)
    assert (counted.allocations, counted.consumers) == (1, 1)
    assert (counted.without_root, counted.incomplete_consumers) == (0, 0)
    assert counted.overfull_inventories == 0
    with empty.read() as connection:
        row = connection.execute(select(resource_providers)).one()
        assert (row.uuid, row.generation) == (uuid, 7)
        assert usages.of_provider(connection, uuid) == (7, {"VCPU": 3})


@pytest.mark.parametrize("revision", [TRAIN, NEWEST])
def test_again_nothing_is_to_do(empty, revision):
    create_openstack_schema(empty, revision)
    first = adopt(empty, utcnow)
    again = adopt(empty, utcnow)
    assert first.changed
    assert not again.changed
    assert (again.before, again.found) == (newest_revision(), first.revision)


def test_trains_schema_gets_consumer_types_as_xenas_db_sync_brings_them(empty):
    create_openstack_schema(empty, TRAIN)
    adoption = adopt(empty, utcnow)
    assert set(adoption.created_tables) == OURS | {"consumer_types"}
    assert adoption.added_columns == ("consumers.consumer_type_id",)
    assert (adoption.found, adoption.revision) == (TRAIN, XENA)
    with empty.read() as connection:
        inspector = inspect(connection)
        (key,) = inspector.get_foreign_keys("consumers")
        assert key["referred_table"] == "consumer_types"
        # SQLite does not tell the name of a constraint that stands beside its column.
        assert key["name"] in {"consumers_consumer_type_id_fkey", None}
        indexes = {index["name"] for index in inspector.get_indexes("consumers")}
        assert "consumers_consumer_type_id_idx" in indexes
    assert any(XENA in note for note in describe_adoption(adoption))


def test_consumers_of_train_are_kept_and_of_no_known_type(empty):
    """And a service of Train that writes on knows nothing of the new column."""
    create_openstack_schema(empty, TRAIN)
    empty.write(
        lambda connection: connection.execute(
            text(
                "INSERT INTO consumers (uuid, project_id, user_id, generation) "
                f"VALUES ('{uuid4()}', 1, 1, 4)"
            )
        )
    )
    adopt(empty, utcnow)
    empty.write(
        lambda connection: connection.execute(
            text(
                "INSERT INTO consumers (uuid, project_id, user_id, generation) "
                f"VALUES ('{uuid4()}', 1, 1, 5)"
            )
        )
    )
    with empty.read() as connection:
        rows = connection.execute(
            select(consumers.c.generation, consumers.c.consumer_type_id).order_by(consumers.c.id)
        )
        assert [tuple(row) for row in rows] == [(4, None), (5, None)]


def test_a_step_that_died_after_its_first_statement_is_finished(empty):
    create_openstack_schema(empty, TRAIN)
    empty.write(consumer_types.create)
    adoption = adopt(empty, utcnow)
    assert adoption.revision == XENA
    assert adoption.added_columns == ("consumers.consumer_type_id",)
    with empty.read() as connection:
        assert inspect_schema(connection).complete


def test_an_adopted_train_database_serves_usages_by_type(empty):
    create_openstack_schema(empty, TRAIN)
    adopt(empty, utcnow)
    add_openstack_rows(empty)
    with empty.read() as connection:
        (usage,) = usages.of_project(connection, "demo")
    assert (usage.consumer_type, usage.amounts) == (UNKNOWN_TYPE, {"VCPU": 3})


def test_other_tables_and_other_columns_are_left_alone(empty):
    create_openstack_schema(empty)

    def strangers(connection):
        connection.execute(text("ALTER TABLE resource_providers ADD COLUMN theirs INTEGER"))
        connection.execute(text("CREATE TABLE instances (id INTEGER)"))

    empty.write(strangers)
    add_openstack_rows(empty)
    empty.write(
        lambda connection: connection.execute(text("UPDATE resource_providers SET theirs = 42"))
    )
    adopt(empty, utcnow)
    assert "instances" in tables(empty)
    with empty.read() as connection:
        assert connection.scalar(text("SELECT theirs FROM resource_providers")) == 42
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == NEWEST


def test_roots_without_a_compute_node_are_told_not_to_be_hosts(sqlite_empty):
    create_openstack_schema(sqlite_empty)
    uuid = add_openstack_rows(sqlite_empty)
    adoption = adopt(sqlite_empty, utcnow)
    assert adoption.census.roots_without_node == 1
    assert any(
        "PUT /scheduler/v1/compute_nodes/{uuid}" in note for note in describe_adoption(adoption)
    )
    report = parse(build_report(uuid=uuid), Defaults(now=NOW))
    sqlite_empty.write(
        lambda connection: connection.execute(
            insert(compute_nodes), {**row_of(report.node), "version": 1}
        )
    )
    again = adopt(sqlite_empty, utcnow)
    assert again.census.roots_without_node == 0
    assert describe_adoption(again) == ()


def test_overfull_inventories_are_told(empty):
    create_openstack_schema(empty)
    add_openstack_rows(empty, used=9)
    adoption = adopt(empty, utcnow)
    assert adoption.census.overfull_inventories == 1
    assert any("over-allocated" in note for note in describe_adoption(adoption))


def test_data_that_is_not_whole_is_told(sqlite_empty):
    create_openstack_schema(sqlite_empty)
    add_openstack_rows(sqlite_empty, record=False)
    adoption = adopt(sqlite_empty, utcnow)
    assert adoption.census.incomplete_consumers == 1
    assert any("status upgrade check" in note for note in describe_adoption(adoption))


def no_tables(_database):
    pass


def no_revision(database):
    create_openstack_schema(database, None)


def unknown_revision(database):
    create_openstack_schema(database, "0123456789ab")


def several_revisions(database):
    create_openstack_schema(database, XENA)
    database.write(
        lambda connection: connection.execute(
            text(f"INSERT INTO alembic_version VALUES ('{NEWEST}')")
        )
    )


def stein(database):
    create_openstack_schema(database, "b4ed3a175331")


def lacking_a_table(database):
    database.write(
        lambda connection: metadata.create_all(
            connection, tables=[resource_providers, consumer_types, consumers]
        )
    )
    database.write(lambda connection: stamp(connection, NEWEST))


def lacking_a_column(database):
    create_openstack_schema(database)
    database.write(
        lambda connection: connection.execute(text("ALTER TABLE inventories DROP COLUMN step_size"))
    )


def lacking_consumer_types_at_xena(database):
    create_openstack_schema(database, TRAIN)
    database.write(
        lambda connection: connection.execute(
            text(f"UPDATE alembic_version SET version_num = '{XENA}'")
        )
    )


def ours_alone(database):
    sync(database, utcnow)


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (no_tables, "no tables of OpenStack placement"),
        (no_revision, "placement-manage db stamp"),
        (unknown_revision, f"0123456789ab, which is not .*{NEWEST}"),
        (several_revisions, f"{XENA}, {NEWEST}, which is not a supported revision"),
        (stein, "older than Train"),
        (lacking_a_table, "lacks allocations, inventories, .* and 4 more"),
        (lacking_a_column, r"lacks inventories\.step_size;"),
        (lacking_consumer_types_at_xena, "lacks consumer_types, consumers.consumer_type_id"),
        (ours_alone, "already belongs to this service"),
    ],
)
def test_what_is_not_known_is_refused_and_left_as_it_is(empty, prepare, told):
    prepare(empty)
    before = tables(empty)
    with pytest.raises(Unavailable, match=told) as refusal:
        adopt(empty, utcnow)
    assert "\n" not in refusal.value.detail
    assert tables(empty) == before


def test_a_file_that_is_not_there_is_refused_and_not_made(tmp_path):
    absent = tmp_path / "absent.db"
    database = Database(make_settings(f"sqlite:///{absent}"))
    with pytest.raises(Unavailable, match=r"absent\.db"):
        adopt(database, utcnow)
    assert not absent.exists()


def test_a_database_to_be_adopted_is_not_synced(empty):
    create_openstack_schema(empty, TRAIN)
    before = tables(empty)
    with pytest.raises(Unavailable, match=r"lacks consumer_types.*db adopt"):
        sync(empty, utcnow)
    assert tables(empty) == before


@pytest.mark.parametrize("revision", [XENA, NEWEST])
def test_a_whole_database_that_was_not_adopted_is_not_synced(empty, revision):
    create_openstack_schema(empty, revision)
    before = tables(empty)
    with pytest.raises(NotAdopted, match=rf"{revision}, .* placement-sched db adopt") as refusal:
        sync(empty, utcnow)
    assert "\n" not in refusal.value.detail
    assert tables(empty) == before
    with empty.read() as connection:
        assert connection.scalar(text("SELECT COUNT(*) FROM traits")) == 0


def test_a_database_of_an_unknown_revision_is_not_synced(sqlite_empty):
    create_openstack_schema(sqlite_empty, "0123456789ab")
    with pytest.raises(NotAdopted, match=r"revision 0123456789ab\) .*db adopt"):
        sync(sqlite_empty, utcnow)


def test_tables_that_nothing_tells_the_maker_of_are_not_synced(empty):
    create_openstack_schema(empty, None)
    before = tables(empty)
    with pytest.raises(NotAdopted, match=r"did not create .*allocations.*db adopt"):
        sync(empty, utcnow)
    assert tables(empty) == before


def test_an_adopted_database_is_synced(empty):
    create_openstack_schema(empty)
    adopt(empty, utcnow)
    before = tables(empty)
    sync(empty, utcnow)
    assert tables(empty) == before


def test_an_adoption_that_stopped_half_way_is_finished_by_sync(empty):
    create_openstack_schema(empty)
    half = OWN_TABLES[: len(OWN_TABLES) // 2]
    empty.write(lambda connection: metadata.create_all(connection, tables=half))
    sync(empty, utcnow)
    assert tables(empty) >= OURS


@pytest.mark.parametrize("may_sync", [True, False])
def test_a_server_prepares_no_database_that_was_not_adopted(empty, may_sync):
    create_openstack_schema(empty)
    before = tables(empty)
    url = empty.url.render_as_string(hide_password=False)
    settings = make_settings(url, placement_database__sync_on_startup=may_sync)
    ready = Preparation(empty, settings, utcnow)
    with pytest.raises(NotAdopted, match="placement-sched db adopt"):
        ready()
    assert tables(empty) == before
    adopt(empty, utcnow)
    ready()


def test_a_schema_of_ours_that_was_half_made_is_finished(empty):
    create_openstack_schema(empty)
    half = OWN_TABLES[: len(OWN_TABLES) // 2]
    empty.write(lambda connection: metadata.create_all(connection, tables=half))
    adoption = adopt(empty, utcnow)
    assert set(adoption.created_tables) == OURS - {table.name for table in half}
    sync_schema(empty)


def test_every_known_revision_names_its_releases():
    assert list(REVISIONS) == [TRAIN, XENA, NEWEST]
    assert all("(" in releases for releases in REVISIONS.values())
