"""The migrations make what ``db/tables.py`` says, on every database, and spare what is there."""

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID, uuid4

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, create_engine, insert, inspect, select, text
from sqlalchemy.exc import OperationalError

from placement_sched.db.migrate import VERSION_TABLE, current_revision, newest_revision, sync_schema
from placement_sched.db.tables import (
    OWN_TABLES,
    PLACEMENT_TABLES,
    decisions,
    instances,
    metadata,
    resource_providers,
    synced_traits,
)
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.operations.prepare import refuse_other_revision
from tests.conftest import REQUIRED, SERVERS, make_settings

pytestmark = pytest.mark.slow

#: The revision before instances were kept with the ids that servers are listed by.
BEFORE_SERVERS = "0005"
#: The revision before the record of traits that were put told providers from those made anew.
BEFORE_PROVIDER_IDS = "0007"
#: The revision before decisions had the ids of the request that they answered.
BEFORE_REQUEST_IDS = "0009"
#: The revision before decisions had a kind, and could be found by policy and flavor.
BEFORE_KINDS = "0010"


@pytest.fixture(params=["sqlite", "postgresql", "mysql"])
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database with nothing in it at all."""
    if request.param == "sqlite":
        yield from _opened(f"sqlite:///{tmp_path / 'empty.db'}")
        return
    server = create_engine(SERVERS[request.param], isolation_level="AUTOCOMMIT")
    name = f"ps_migrate_{uuid4().hex[:12]}"
    try:
        with server.connect() as connection:
            connection.execute(text(f"CREATE DATABASE {name}"))
    except OperationalError as failure:
        if REQUIRED:
            raise
        pytest.skip(f"no {request.param} server: {failure.orig}")
    yield from _opened(server.url.set(database=name).render_as_string(hide_password=False))
    with server.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name}"))
    server.dispose()


def _opened(url: str) -> Iterator[Database]:
    database = Database(make_settings(url))
    yield database
    database.dispose()


#: Indexes that are made on one kind of database only.
OF_ONE_KIND = {"sched_allocations_consumer_id_idx": "postgresql"}


def differences(database: Database) -> list[object]:
    """How the database differs from ``db/tables.py``, in alembic's words."""
    kind = database.url.get_backend_name()
    options = {
        "compare_type": True,
        "compare_server_default": True,
        "include_object": lambda _object, name, _type, _reflected, _to: (
            name != VERSION_TABLE and OF_ONE_KIND.get(name, kind) == kind
        ),
    }
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts=options)
        return compare_metadata(context, metadata)


def test_up_from_empty_makes_the_tables_of_the_code(empty):
    sync_schema(empty)
    assert differences(empty) == []
    assert current_revision(empty) == newest_revision()


def test_up_again_changes_nothing(empty):
    sync_schema(empty)
    sync_schema(empty)
    assert differences(empty) == []


def test_an_untouched_database_has_no_revision(empty):
    assert current_revision(empty) is None


def test_own_tables_are_told_from_placements():
    assert {table.name for table in OWN_TABLES}.isdisjoint(
        {table.name for table in PLACEMENT_TABLES}
    )
    assert all(table.name.startswith("sched_") for table in OWN_TABLES)


def test_tables_of_a_running_placement_are_left_alone(empty):
    """Its rows, its own columns and its own alembic version stay as they are."""

    def as_placement_left_it(connection):
        metadata.create_all(connection, tables=PLACEMENT_TABLES)
        connection.execute(text("ALTER TABLE resource_providers ADD COLUMN theirs INTEGER"))
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('b4ed3a175331')"))
        connection.execute(
            resource_providers.insert(), {"uuid": str(uuid4()), "name": "cn1", "generation": 7}
        )
        connection.execute(text("UPDATE resource_providers SET theirs = 42"))

    empty.write(as_placement_left_it)
    sync_schema(empty)
    with empty.read() as connection:
        row = connection.execute(text("SELECT name, generation, theirs FROM resource_providers"))
        assert row.one() == ("cn1", 7, 42)
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "b4ed3a175331"
        assert {table.name for table in OWN_TABLES} <= set(inspect(connection).get_table_names())
    assert current_revision(empty) == newest_revision()


def test_what_a_half_made_schema_lacks_is_added(empty):
    """MariaDB commits every table at once, so a sync that died leaves some behind."""
    half = [*PLACEMENT_TABLES, *OWN_TABLES[: len(OWN_TABLES) // 2]]
    empty.write(lambda connection: metadata.create_all(connection, tables=half))
    sync_schema(empty)
    assert differences(empty) == []


def test_what_was_recorded_before_servers_were_listed_is_filled_in(empty):
    """More instances than are written at once, with and without what is written."""
    uuids = [str(UUID(int=number)) for number in range(1, 1003)]
    rows = [{"uuid": uuid, "display_name": uuid, "flavor": None, "image": None} for uuid in uuids]
    rows[0] |= {"flavor": '{"id": 3, "name": "m1"}', "image": '{"id": "i1"}'}
    rows[1] |= {"flavor": '{"id": 3, "flavorid": "f1"}', "image": '{"id": null}'}
    rows[-1] |= {"flavor": f'{{"id": "{"x" * 256}"}}', "image": '{"id": "i2"}'}

    def as_it_was(connection):
        connection.execute(insert(instances), rows)
        for name in ("flavorid", "image_id"):
            connection.execute(text(f"ALTER TABLE sched_instances DROP COLUMN {name}"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{BEFORE_SERVERS}'"))

    sync_schema(empty)
    empty.write(as_it_was)
    sync_schema(empty)
    assert differences(empty) == []
    with empty.read() as connection:
        query = select(instances.c.uuid, instances.c.flavorid, instances.c.image_id)
        found = {row.uuid: row[1:] for row in connection.execute(query)}
    assert [found[uuids[place]] for place in (0, 1, 2, -1)] == [
        ("3", "i1"),
        ("f1", None),
        (None, None),
        (None, "i2"),
    ]


def test_traits_put_before_are_taken_to_be_on_the_providers_that_are_there(empty):
    """More of them than are written at once; one provider is gone."""
    uuids = [str(UUID(int=number)) for number in range(1, 1003)]
    providers = [{"uuid": uuid, "name": uuid, "generation": 0} for uuid in uuids[1:]]
    rows = [
        {"provider_uuid": uuid, "trait": trait, "aggregate_uuid": uuid}
        for uuid in uuids
        for trait in ("CUSTOM_A", "CUSTOM_B")
    ]

    def as_it_was(connection):
        connection.execute(insert(resource_providers), providers)
        connection.execute(insert(synced_traits), rows)
        connection.execute(text("ALTER TABLE sched_synced_traits DROP COLUMN provider_id"))
        connection.execute(
            text(f"UPDATE {VERSION_TABLE} SET version_num = '{BEFORE_PROVIDER_IDS}'")
        )

    sync_schema(empty)
    empty.write(as_it_was)
    sync_schema(empty)
    assert differences(empty) == []
    with empty.read() as connection:
        ids = dict(
            connection.execute(select(resource_providers.c.uuid, resource_providers.c.id)).all()
        )
        query = select(synced_traits.c.provider_uuid, synced_traits.c.provider_id)
        found = connection.execute(query).all()
    assert len(found) == len(rows)
    assert all(number == ids.get(uuid) for uuid, number in found)


@pytest.mark.parametrize("dropped", [("request_id", "global_request_id"), ("global_request_id",)])
def test_decisions_made_before_they_had_request_ids_have_none(empty, dropped):
    """Also where an interrupted sync had added one of the columns already."""
    row = {
        "uuid": str(uuid4()),
        "outcome": "selected",
        "request_digest": "",
        "request": "{}",
        "selections": "[]",
    }

    def as_it_was(connection):
        connection.execute(insert(decisions), row)
        for name in dropped:
            drop_index(connection, "sched_decisions", f"sched_decisions_{name}_idx")
            connection.execute(text(f"ALTER TABLE sched_decisions DROP COLUMN {name}"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{BEFORE_REQUEST_IDS}'"))

    sync_schema(empty)
    empty.write(as_it_was)
    sync_schema(empty)
    assert differences(empty) == []
    with empty.read() as connection:
        query = select(decisions.c.uuid, decisions.c.request_id, decisions.c.global_request_id)
        assert connection.execute(query).all() == [(row["uuid"], None, None)]


@pytest.mark.parametrize("dropped", [("kind", "policy", "flavor"), ("flavor",)])
def test_decisions_made_before_they_had_kinds_keep_their_policy_and_flavor(empty, dropped):
    """Also where an interrupted sync had added some of the columns already."""
    rows = {
        str(uuid4()): ({"flavor": {"name": "m1.small"}}, {"policy": "gold"}),
        str(uuid4()): ({"flavor": "42"}, {"policy": "default"}),
        str(uuid4()): ({"flavor": {"vcpus": 1}}, []),
    }

    def as_it_was(connection):
        for uuid, (request, selections) in rows.items():
            row = {"uuid": uuid, "outcome": "selected", "request_digest": ""}
            documents = {"request": json.dumps(request), "selections": json.dumps(selections)}
            connection.execute(insert(decisions), {**row, **documents})
        for name in dropped:
            drop_index(connection, "sched_decisions", f"sched_decisions_{name}_idx")
            connection.execute(text(f"ALTER TABLE sched_decisions DROP COLUMN {name}"))
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '{BEFORE_KINDS}'"))

    sync_schema(empty)
    empty.write(as_it_was)
    sync_schema(empty)
    assert differences(empty) == []
    with empty.read() as connection:
        query = select(decisions.c.kind, decisions.c.policy, decisions.c.flavor)
        assert connection.execute(query.order_by(decisions.c.id)).all() == [
            ("select", "gold", "m1.small"),
            ("select", "default", None),
            ("select", None, None),
        ]


def drop_index(connection: Connection, table: str, name: str) -> None:
    """Drop an index in the words of whichever database it is."""
    of_table = f" ON {table}" if connection.dialect.name in {"mysql", "mariadb"} else ""
    connection.execute(text(f"DROP INDEX {name}{of_table}"))


def test_schema_of_a_newer_release_is_refused_in_one_sentence(empty):
    """As after an upgrade that is taken back: neither db sync nor a server changes anything."""
    sync_schema(empty)
    with empty.writer.begin() as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    for refused in (sync_schema, refuse_other_revision):
        with pytest.raises(Unavailable, match="revision 9999, of a newer release"):
            refused(empty)
    assert current_revision(empty) == "9999"
