# SPDX-License-Identifier: Apache-2.0
"""Adoption of OpenStack placement databases."""

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
    stamp_revision,
)
from tests.support.reports import NOW, build_report

pytestmark = pytest.mark.all_databases

OURS = {table.name for table in OWN_TABLES} | {"placement_sched_alembic_version"}


@pytest.fixture(params=KINDS)
def empty_database_of_any_kind(request, tmp_path):
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


def table_names(database: Database) -> set[str]:
    with database.read() as connection:
        return set(inspect(connection).get_table_names())


@pytest.mark.parametrize("revision", [XENA, NEWEST])
def test_own_tables_are_added_and_reported(empty_database_of_any_kind, revision):
    create_openstack_schema(empty_database_of_any_kind, revision)
    adoption = adopt(empty_database_of_any_kind, utcnow)
    assert set(adoption.created_tables) == OURS
    assert (adoption.found, adoption.revision, adoption.added_columns) == (revision, revision, ())
    assert (adoption.before, adoption.own_revision) == (None, newest_revision())
    assert "VCPU" in adoption.added.resource_classes
    assert "HW_CPU_X86_AVX2" in adoption.added.traits
    assert adoption.changed
    assert current_revision(empty_database_of_any_kind) == newest_revision()


HASH = "sched_allocations_consumer_id_idx"


def hash_indexes(database: Database) -> tuple[str, ...]:
    """The hash indexes on OpenStack placement's allocations, if the database has them."""
    return (HASH,) if database.url.get_backend_name() == "postgresql" else ()


@pytest.mark.parametrize(
    ("revision", "theirs"), [(TRAIN, ("consumers_consumer_type_id_idx",)), (NEWEST, ())]
)
def test_indexes_on_existing_tables_are_reported(empty_database_of_any_kind, revision, theirs):
    create_openstack_schema(empty_database_of_any_kind, revision)
    assert adopt(empty_database_of_any_kind, utcnow).created_indexes == (
        *hash_indexes(empty_database_of_any_kind),
        *theirs,
    )
    assert adopt(empty_database_of_any_kind, utcnow).created_indexes == ()


def test_revision_of_an_earlier_release_of_ours_is_reported(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind)
    adopt(empty_database_of_any_kind, utcnow)
    number = text("UPDATE placement_sched_alembic_version SET version_num = '0020'")
    empty_database_of_any_kind.write(lambda connection: connection.execute(number))
    adoption = adopt(empty_database_of_any_kind, utcnow)
    assert (adoption.before, adoption.own_revision) == ("0020", newest_revision())
    assert (adoption.created_tables, adoption.added_columns, adoption.created_indexes) == (
        (),
        (),
        (),
    )
    assert adoption.changed


def test_existing_rows_are_counted_and_kept(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind)
    uuid = add_openstack_rows(empty_database_of_any_kind)
    counted = adopt(empty_database_of_any_kind, utcnow).census
    assert (counted.providers, counted.root_providers, counted.inventories) == (1, 1, 1)
    assert (counted.allocations, counted.consumers) == (1, 1)
    assert (counted.without_root, counted.incomplete_consumers) == (0, 0)
    assert counted.overfull_inventories == 0
    with empty_database_of_any_kind.read() as connection:
        row = connection.execute(select(resource_providers)).one()
        assert (row.uuid, row.generation) == (uuid, 7)
        assert usages.of_provider(connection, uuid) == (7, {"VCPU": 3})


@pytest.mark.parametrize("revision", [TRAIN, NEWEST])
def test_second_adoption_has_nothing_to_do(empty_database_of_any_kind, revision):
    create_openstack_schema(empty_database_of_any_kind, revision)
    first = adopt(empty_database_of_any_kind, utcnow)
    again = adopt(empty_database_of_any_kind, utcnow)
    assert first.changed
    assert not again.changed
    assert (again.before, again.found) == (newest_revision(), first.revision)


def test_train_schema_gets_consumer_types_like_xena(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind, TRAIN)
    adoption = adopt(empty_database_of_any_kind, utcnow)
    assert set(adoption.created_tables) == OURS | {"consumer_types"}
    assert adoption.added_columns == ("consumers.consumer_type_id",)
    assert (adoption.found, adoption.revision) == (TRAIN, XENA)
    with empty_database_of_any_kind.read() as connection:
        inspector = inspect(connection)
        (key,) = inspector.get_foreign_keys("consumers")
        assert key["referred_table"] == "consumer_types"
        # SQLite does not return the name of a constraint that is written at its column.
        assert key["name"] in {"consumers_consumer_type_id_fkey", None}
        indexes = {index["name"] for index in inspector.get_indexes("consumers")}
        assert "consumers_consumer_type_id_idx" in indexes
    assert any(XENA in note for note in describe_adoption(adoption))


def test_train_consumers_have_unknown_type(empty_database_of_any_kind):
    """A placement service of Train that still writes does not use the new column."""
    create_openstack_schema(empty_database_of_any_kind, TRAIN)
    empty_database_of_any_kind.write(
        lambda connection: connection.execute(
            text(
                "INSERT INTO consumers (uuid, project_id, user_id, generation) "
                f"VALUES ('{uuid4()}', 1, 1, 4)"
            )
        )
    )
    adopt(empty_database_of_any_kind, utcnow)
    empty_database_of_any_kind.write(
        lambda connection: connection.execute(
            text(
                "INSERT INTO consumers (uuid, project_id, user_id, generation) "
                f"VALUES ('{uuid4()}', 1, 1, 5)"
            )
        )
    )
    with empty_database_of_any_kind.read() as connection:
        rows = connection.execute(
            select(consumers.c.generation, consumers.c.consumer_type_id).order_by(consumers.c.id)
        )
        assert [tuple(row) for row in rows] == [(4, None), (5, None)]


def test_interrupted_step_is_completed(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind, TRAIN)
    empty_database_of_any_kind.write(consumer_types.create)
    adoption = adopt(empty_database_of_any_kind, utcnow)
    assert adoption.revision == XENA
    assert adoption.added_columns == ("consumers.consumer_type_id",)
    with empty_database_of_any_kind.read() as connection:
        assert inspect_schema(connection).complete


def test_an_adopted_train_database_serves_usages_by_type(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind, TRAIN)
    adopt(empty_database_of_any_kind, utcnow)
    add_openstack_rows(empty_database_of_any_kind)
    with empty_database_of_any_kind.read() as connection:
        (usage,) = usages.of_project(connection, "demo")
    assert (usage.consumer_type, usage.amounts) == (UNKNOWN_TYPE, {"VCPU": 3})


def test_unknown_tables_and_columns_are_unchanged(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind)

    def add_foreign_objects(connection):
        connection.execute(text("ALTER TABLE resource_providers ADD COLUMN theirs INTEGER"))
        connection.execute(text("CREATE TABLE instances (id INTEGER)"))

    empty_database_of_any_kind.write(add_foreign_objects)
    add_openstack_rows(empty_database_of_any_kind)
    empty_database_of_any_kind.write(
        lambda connection: connection.execute(text("UPDATE resource_providers SET theirs = 42"))
    )
    adopt(empty_database_of_any_kind, utcnow)
    assert "instances" in table_names(empty_database_of_any_kind)
    with empty_database_of_any_kind.read() as connection:
        assert connection.scalar(text("SELECT theirs FROM resource_providers")) == 42
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == NEWEST


def test_roots_without_a_compute_node_are_reported(sqlite_empty):
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


def test_overcommitted_inventories_are_reported(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind)
    add_openstack_rows(empty_database_of_any_kind, used=9)
    adoption = adopt(empty_database_of_any_kind, utcnow)
    assert adoption.census.overfull_inventories == 1
    assert any("over-allocated" in note for note in describe_adoption(adoption))


def test_inconsistent_rows_are_reported(sqlite_empty):
    create_openstack_schema(sqlite_empty)
    add_openstack_rows(sqlite_empty, record=False)
    adoption = adopt(sqlite_empty, utcnow)
    assert adoption.census.incomplete_consumers == 1
    assert any("status upgrade check" in note for note in describe_adoption(adoption))


def leave_empty(_database):
    pass


def schema_without_revision(database):
    create_openstack_schema(database, None)


def schema_of_unknown_revision(database):
    create_openstack_schema(database, "0123456789ab")


def schema_of_several_revisions(database):
    create_openstack_schema(database, XENA)
    database.write(
        lambda connection: connection.execute(
            text(f"INSERT INTO alembic_version VALUES ('{NEWEST}')")
        )
    )


def stein_schema(database):
    create_openstack_schema(database, "b4ed3a175331")


def schema_without_a_table(database):
    database.write(
        lambda connection: metadata.create_all(
            connection, tables=[resource_providers, consumer_types, consumers]
        )
    )
    database.write(lambda connection: stamp_revision(connection, NEWEST))


def schema_without_a_column(database):
    create_openstack_schema(database)
    database.write(
        lambda connection: connection.execute(text("ALTER TABLE inventories DROP COLUMN step_size"))
    )


def xena_schema_without_consumer_types(database):
    create_openstack_schema(database, TRAIN)
    database.write(
        lambda connection: connection.execute(
            text(f"UPDATE alembic_version SET version_num = '{XENA}'")
        )
    )


def own_schema_only(database):
    sync(database, utcnow)


@pytest.mark.parametrize(
    ("prepare", "error"),
    [
        (leave_empty, "no tables of OpenStack placement"),
        (schema_without_revision, "placement-manage db stamp"),
        (schema_of_unknown_revision, f"0123456789ab, which is not .*{NEWEST}"),
        (schema_of_several_revisions, f"{XENA}, {NEWEST}, which is not a supported revision"),
        (stein_schema, "older than Train"),
        (schema_without_a_table, "lacks allocations, inventories, .* and 4 more"),
        (schema_without_a_column, r"lacks inventories\.step_size;"),
        (xena_schema_without_consumer_types, "lacks consumer_types, consumers.consumer_type_id"),
        (own_schema_only, "already belongs to this service"),
    ],
)
def test_unknown_schema_is_rejected_and_unchanged(empty_database_of_any_kind, prepare, error):
    prepare(empty_database_of_any_kind)
    before = table_names(empty_database_of_any_kind)
    with pytest.raises(Unavailable, match=error) as rejection:
        adopt(empty_database_of_any_kind, utcnow)
    assert "\n" not in rejection.value.detail
    assert table_names(empty_database_of_any_kind) == before


def test_missing_sqlite_file_is_rejected_and_not_created(tmp_path):
    absent = tmp_path / "absent.db"
    database = Database(make_settings(f"sqlite:///{absent}"))
    with pytest.raises(Unavailable, match=r"absent\.db"):
        adopt(database, utcnow)
    assert not absent.exists()


def test_db_sync_rejects_a_database_to_be_adopted(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind, TRAIN)
    before = table_names(empty_database_of_any_kind)
    with pytest.raises(Unavailable, match=r"lacks consumer_types.*db adopt"):
        sync(empty_database_of_any_kind, utcnow)
    assert table_names(empty_database_of_any_kind) == before


@pytest.mark.parametrize("revision", [XENA, NEWEST])
def test_db_sync_rejects_a_complete_unadopted_database(empty_database_of_any_kind, revision):
    create_openstack_schema(empty_database_of_any_kind, revision)
    before = table_names(empty_database_of_any_kind)
    with pytest.raises(NotAdopted, match=rf"{revision}, .* placement-sched db adopt") as rejection:
        sync(empty_database_of_any_kind, utcnow)
    assert "\n" not in rejection.value.detail
    assert table_names(empty_database_of_any_kind) == before
    with empty_database_of_any_kind.read() as connection:
        assert connection.scalar(text("SELECT COUNT(*) FROM traits")) == 0


def test_db_sync_rejects_an_unknown_revision(sqlite_empty):
    create_openstack_schema(sqlite_empty, "0123456789ab")
    with pytest.raises(NotAdopted, match=r"revision 0123456789ab\) .*db adopt"):
        sync(sqlite_empty, utcnow)


def test_db_sync_rejects_tables_of_unknown_origin(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind, None)
    before = table_names(empty_database_of_any_kind)
    with pytest.raises(NotAdopted, match=r"did not create .*allocations.*db adopt"):
        sync(empty_database_of_any_kind, utcnow)
    assert table_names(empty_database_of_any_kind) == before


def test_db_sync_accepts_an_adopted_database(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind)
    adopt(empty_database_of_any_kind, utcnow)
    before = table_names(empty_database_of_any_kind)
    sync(empty_database_of_any_kind, utcnow)
    assert table_names(empty_database_of_any_kind) == before


def test_db_sync_completes_an_interrupted_adoption(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind)
    half = OWN_TABLES[: len(OWN_TABLES) // 2]
    empty_database_of_any_kind.write(
        lambda connection: metadata.create_all(connection, tables=half)
    )
    sync(empty_database_of_any_kind, utcnow)
    assert table_names(empty_database_of_any_kind) >= OURS


@pytest.mark.parametrize("may_sync", [True, False])
def test_server_does_not_prepare_an_unadopted_database(empty_database_of_any_kind, may_sync):
    create_openstack_schema(empty_database_of_any_kind)
    before = table_names(empty_database_of_any_kind)
    url = empty_database_of_any_kind.url.render_as_string(hide_password=False)
    settings = make_settings(url, placement_database__sync_on_startup=may_sync)
    ready = Preparation(empty_database_of_any_kind, settings, utcnow)
    with pytest.raises(NotAdopted, match="placement-sched db adopt"):
        ready()
    assert table_names(empty_database_of_any_kind) == before
    adopt(empty_database_of_any_kind, utcnow)
    ready()


def test_incomplete_own_schema_is_completed(empty_database_of_any_kind):
    create_openstack_schema(empty_database_of_any_kind)
    half = OWN_TABLES[: len(OWN_TABLES) // 2]
    empty_database_of_any_kind.write(
        lambda connection: metadata.create_all(connection, tables=half)
    )
    adoption = adopt(empty_database_of_any_kind, utcnow)
    assert set(adoption.created_tables) == OURS - {table.name for table in half}
    sync_schema(empty_database_of_any_kind)


def test_every_supported_revision_names_its_releases():
    assert list(REVISIONS) == [TRAIN, XENA, NEWEST]
    assert all("(" in releases for releases in REVISIONS.values())
