# SPDX-License-Identifier: Apache-2.0
"""Adoption of OpenStack placement databases."""

from uuid import uuid4

import pytest
from sqlalchemy import insert, inspect, select, text

from placement_sched.db.migrate import (
    TRAIN,
    XENA,
    get_newest_revision,
    inspect_schema,
    read_current_revision,
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
from placement_sched.store.compute.compute_nodes import build_row
from placement_sched.store.placement import usages
from tests.conftest import make_settings
from tests.support.empty_databases import DATABASE_KINDS, empty_database
from tests.support.openstack_databases import (
    NEWEST_REVISION,
    add_openstack_rows,
    create_openstack_schema,
    stamp_revision,
)
from tests.support.reports import NOW, build_report

pytestmark = pytest.mark.all_databases

OWN_TABLE_NAMES = {table.name for table in OWN_TABLES} | {"placement_sched_alembic_version"}


def open_empty_database(kind, folder):
    with empty_database(kind, folder) as url:
        database = Database(make_settings(url))
        yield database
        database.dispose()


@pytest.fixture(params=DATABASE_KINDS)
def database(request, tmp_path):
    """An empty database without the schema."""
    yield from open_empty_database(request.param, tmp_path)


@pytest.fixture
def empty_sqlite_database(tmp_path):
    yield from open_empty_database("sqlite", tmp_path)


def execute_sql(database, statement):
    database.write(lambda connection: connection.execute(text(statement)))


def list_table_names(database: Database) -> set[str]:
    with database.read() as connection:
        return set(inspect(connection).get_table_names())


#: The index on OpenStack placement's allocations, on PostgreSQL.
CONSUMER_INDEX_NAME = "sched_allocations_consumer_id_idx"


@pytest.mark.parametrize("revision", [NEWEST_REVISION, XENA])
def test_db_adopt_adds_own_tables_once_and_keeps_existing_rows(database, revision):
    create_openstack_schema(database, revision)
    uuid = add_openstack_rows(database)
    adoption = adopt(database, utcnow)
    assert set(adoption.created_tables) == OWN_TABLE_NAMES
    assert (adoption.previous_revision, adoption.revision, adoption.added_columns) == (
        revision,
        revision,
        (),
    )
    assert (adoption.previous_own_revision, adoption.own_revision) == (None, get_newest_revision())
    assert "VCPU" in adoption.added.resource_classes
    assert "HW_CPU_X86_AVX2" in adoption.added.traits
    is_postgresql = database.url.get_backend_name() == "postgresql"
    assert adoption.created_indexes == ((CONSUMER_INDEX_NAME,) if is_postgresql else ())
    assert adoption.changed
    assert read_current_revision(database) == get_newest_revision()
    counted = adoption.row_counts
    assert (counted.providers, counted.root_providers, counted.inventories) == (1, 1, 1)
    assert (counted.allocations, counted.consumers) == (1, 1)
    assert (counted.without_root, counted.incomplete_consumers) == (0, 0)
    assert counted.overfull_inventories == 0
    with database.read() as connection:
        row = connection.execute(select(resource_providers)).one()
        assert (row.uuid, row.generation) == (uuid, 7)
        assert usages.get_by_provider_uuid(connection, uuid) == (7, {"VCPU": 3})
    again = adopt(database, utcnow)
    assert not again.changed
    assert (again.previous_own_revision, again.previous_revision, again.created_indexes) == (
        get_newest_revision(),
        revision,
        (),
    )
    before = list_table_names(database)
    sync(database, utcnow)
    assert list_table_names(database) == before


def test_db_adopt_reports_the_own_revision_before_an_upgrade(database, add_revision):
    create_openstack_schema(database)
    before = adopt(database, utcnow).own_revision
    later = add_revision()
    adoption = adopt(database, utcnow)
    assert (adoption.previous_own_revision, adoption.own_revision) == (before, later)
    assert adoption.created_tables + adoption.added_columns + adoption.created_indexes == ()
    assert adoption.changed


def test_db_adopt_adds_consumer_types_to_a_train_schema(database):
    """A placement service of Train that still writes does not use the new column."""
    create_openstack_schema(database, TRAIN)
    adoption = adopt(database, utcnow)
    assert set(adoption.created_tables) == OWN_TABLE_NAMES | {"consumer_types"}
    assert adoption.added_columns == ("consumers.consumer_type_id",)
    assert "consumers_consumer_type_id_idx" in adoption.created_indexes
    assert (adoption.previous_revision, adoption.revision) == (TRAIN, XENA)
    with database.read() as connection:
        inspector = inspect(connection)
        (key,) = inspector.get_foreign_keys("consumers")
        assert key["referred_table"] == "consumer_types"
        # SQLite does not return the name of a constraint that is written at its column.
        assert key["name"] in {"consumers_consumer_type_id_fkey", None}
        indexes = {index["name"] for index in inspector.get_indexes("consumers")}
        assert "consumers_consumer_type_id_idx" in indexes
    assert any(XENA in note for note in describe_adoption(adoption))
    assert not adopt(database, utcnow).changed
    add_openstack_rows(database)
    with database.read() as connection:
        (usage,) = usages.list_project_usages(connection, "demo")
    assert (usage.consumer_type, usage.amounts) == (UNKNOWN_TYPE, {"VCPU": 3})


def test_db_adopt_adds_the_missing_column_of_consumer_types(database):
    create_openstack_schema(database, TRAIN)
    columns = "uuid, project_id, user_id, generation"
    execute_sql(database, f"INSERT INTO consumers ({columns}) VALUES ('{uuid4()}', 1, 1, 4)")
    database.write(consumer_types.create)
    adoption = adopt(database, utcnow)
    assert adoption.revision == XENA
    assert adoption.added_columns == ("consumers.consumer_type_id",)
    with database.read() as connection:
        assert inspect_schema(connection).complete
        assert connection.scalars(select(consumers.c.consumer_type_id)).all() == [None]


def test_db_adopt_keeps_unknown_tables_and_columns(database):
    create_openstack_schema(database)

    def add_unknown_table_and_column(connection):
        connection.execute(text("ALTER TABLE resource_providers ADD COLUMN theirs INTEGER"))
        connection.execute(text("CREATE TABLE instances (id INTEGER)"))

    database.write(add_unknown_table_and_column)
    add_openstack_rows(database)
    execute_sql(database, "UPDATE resource_providers SET theirs = 42")
    adopt(database, utcnow)
    assert "instances" in list_table_names(database)
    with database.read() as connection:
        assert connection.scalar(text("SELECT theirs FROM resource_providers")) == 42
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == NEWEST_REVISION


def test_db_adopt_reports_root_providers_without_node(empty_sqlite_database):
    create_openstack_schema(empty_sqlite_database)
    uuid = add_openstack_rows(empty_sqlite_database)
    adoption = adopt(empty_sqlite_database, utcnow)
    assert adoption.row_counts.roots_without_node == 1
    assert any(
        "PUT /scheduler/v1/compute_nodes/{uuid}" in note for note in describe_adoption(adoption)
    )
    report = parse(build_report(uuid=uuid), Defaults(now=NOW))
    empty_sqlite_database.write(
        lambda connection: connection.execute(
            insert(compute_nodes), {**build_row(report.node), "version": 1}
        )
    )
    again = adopt(empty_sqlite_database, utcnow)
    assert again.row_counts.roots_without_node == 0
    assert describe_adoption(again) == ()


def test_db_adopt_reports_overcommitted_inventories(database):
    create_openstack_schema(database)
    add_openstack_rows(database, used=9)
    adoption = adopt(database, utcnow)
    assert adoption.row_counts.overfull_inventories == 1
    assert any("over-allocated" in note for note in describe_adoption(adoption))


def test_db_adopt_reports_consumers_without_records(empty_sqlite_database):
    create_openstack_schema(empty_sqlite_database)
    add_openstack_rows(empty_sqlite_database, record=False)
    adoption = adopt(empty_sqlite_database, utcnow)
    assert adoption.row_counts.incomplete_consumers == 1
    assert any("status upgrade check" in note for note in describe_adoption(adoption))


def create_tables_of_several_revisions(database):
    create_openstack_schema(database, XENA)
    execute_sql(database, f"INSERT INTO alembic_version VALUES ('{NEWEST_REVISION}')")


def create_schema_without_a_table(database):
    database.write(
        lambda connection: metadata.create_all(
            connection, tables=[resource_providers, consumer_types, consumers]
        )
    )
    database.write(lambda connection: stamp_revision(connection, NEWEST_REVISION))


def create_schema_without_a_column(database):
    create_openstack_schema(database)
    execute_sql(database, "ALTER TABLE inventories DROP COLUMN step_size")


def create_xena_schema_without_consumer_types(database):
    create_openstack_schema(database, TRAIN)
    execute_sql(database, f"UPDATE alembic_version SET version_num = '{XENA}'")


def make_schema_creator(revision):
    return lambda database: create_openstack_schema(database, revision)


@pytest.mark.parametrize(
    ("create_schema", "error"),
    [
        (lambda _database: None, "no tables of OpenStack placement"),
        (make_schema_creator(None), "placement-manage db stamp"),
        (make_schema_creator("0123456789ab"), f"0123456789ab, which is not .*{NEWEST_REVISION}"),
        (
            create_tables_of_several_revisions,
            f"{XENA}, {NEWEST_REVISION}, which is not a supported revision",
        ),
        (make_schema_creator("b4ed3a175331"), "older than Train"),
        (create_schema_without_a_table, "lacks allocations, inventories, .* and 4 more"),
        (create_schema_without_a_column, r"lacks inventories\.step_size\."),
        (
            create_xena_schema_without_consumer_types,
            "lacks consumer_types, consumers.consumer_type_id",
        ),
        (lambda database: sync(database, utcnow), "already belongs to this service"),
    ],
)
def test_db_adopt_rejects_an_unsupported_schema_unchanged(
    empty_sqlite_database, create_schema, error
):
    create_schema(empty_sqlite_database)
    tables = list_table_names(empty_sqlite_database)
    with pytest.raises(Unavailable, match=error) as rejection:
        adopt(empty_sqlite_database, utcnow)
    assert "\n" not in rejection.value.detail
    assert list_table_names(empty_sqlite_database) == tables


def test_db_adopt_does_not_create_a_missing_sqlite_file(tmp_path):
    absent = tmp_path / "absent.db"
    database = Database(make_settings(f"sqlite:///{absent}"))
    with pytest.raises(Unavailable, match=r"absent\.db"):
        adopt(database, utcnow)
    assert not absent.exists()


@pytest.mark.parametrize(
    ("revision", "error"),
    [
        (NEWEST_REVISION, rf"{NEWEST_REVISION}, .* placement-sched db adopt"),
        (XENA, rf"{XENA}, .* placement-sched db adopt"),
        (TRAIN, r"lacks consumer_types.*db adopt"),
        ("0123456789ab", "0123456789ab, which is not a revision of OpenStack placement"),
        (None, r"did not create .*allocations.*db adopt"),
    ],
)
def test_db_sync_rejects_an_unadopted_database(empty_sqlite_database, revision, error):
    create_openstack_schema(empty_sqlite_database, revision)
    tables = list_table_names(empty_sqlite_database)
    with pytest.raises(NotAdopted, match=error) as rejection:
        sync(empty_sqlite_database, utcnow)
    assert "\n" not in rejection.value.detail
    assert list_table_names(empty_sqlite_database) == tables
    with empty_sqlite_database.read() as connection:
        assert connection.scalar(text("SELECT COUNT(*) FROM traits")) == 0


@pytest.mark.parametrize("adopt_or_sync", [adopt, sync])
def test_adopt_or_sync_completes_an_interrupted_adoption(database, adopt_or_sync):
    create_openstack_schema(database)
    half = OWN_TABLES[: len(OWN_TABLES) // 2]
    database.write(lambda connection: metadata.create_all(connection, tables=half))
    adopt_or_sync(database, utcnow)
    assert list_table_names(database) >= OWN_TABLE_NAMES


@pytest.mark.parametrize("may_sync", [True, False])
def test_preparation_of_an_openstack_database_fails_until_db_adopt(database, may_sync):
    create_openstack_schema(database)
    tables = list_table_names(database)
    url = database.url.render_as_string(hide_password=False)
    settings = make_settings(url, placement_database__sync_on_startup=may_sync)
    ready = Preparation(database, settings, utcnow)
    with pytest.raises(NotAdopted, match="placement-sched db adopt"):
        ready()
    assert list_table_names(database) == tables
    adopt(database, utcnow)
    ready()


@pytest.mark.parametrize("adopt_or_sync", [adopt, sync])
@pytest.mark.parametrize("table", ["allocations", "consumers"])
@pytest.mark.parametrize("database", ["mysql"], indirect=True)
def test_different_collations_are_rejected_with_the_statement_that_converts(
    database, table, adopt_or_sync
):
    create_openstack_schema(database)
    add_openstack_rows(database)
    execute_sql(
        database,
        f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci",
    )
    existing = list_table_names(database)
    with pytest.raises(Unavailable, match=rf"run: ALTER TABLE {table} CONVERT") as rejection:
        adopt(database, utcnow)
    assert "utf8mb4_unicode_520_ci" in rejection.value.detail
    assert list_table_names(database) == existing
    execute_sql(database, rejection.value.detail.partition("run: ")[2])
    assert adopt(database, utcnow).row_counts.consumers == 1
    # Another table is changed after the adoption.
    execute_sql(
        database,
        f"ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_ci",
    )
    with pytest.raises(Unavailable, match=rf"run: ALTER TABLE {table} CONVERT"):
        adopt_or_sync(database, utcnow)
