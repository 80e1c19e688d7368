# SPDX-License-Identifier: Apache-2.0
"""Nova's schemas of nova 27 and of the newest release are read on MariaDB and PostgreSQL."""

import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import create_engine, make_url, text

from placement_sched.nova import databases
from placement_sched.nova.databases.tables import CELL
from placement_sched.store.compute import compute_nodes, host_aggregates, instances, services
from tests.differential.comparison import PEER_PYTHON, skip_without_peer
from tests.support.empty_databases import empty_database
from tests.support.nova_clouds import NovaCloud

MIGRATE_PROGRAM = Path(__file__).resolve().parents[1] / "migrate.py"
#: Newest revisions of the API database and of a cell in nova 27.0.0 (2023.1).
NOVA_27_REVISIONS = ("b30f573d3377", "960aac0e09ea")
#: Revisions of the nova in this environment.
NEWEST_REVISIONS = ("head", "head")

pytestmark = pytest.mark.system


def migrate_databases(api: str, cell: str, schema_revisions: tuple[str, str]) -> None:
    arguments = [
        _replace_driver_for_nova(api),
        schema_revisions[0],
        _replace_driver_for_nova(cell),
        schema_revisions[1],
    ]
    done = subprocess.run(
        [PEER_PYTHON, "-P", MIGRATE_PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def _replace_driver_for_nova(url: str) -> str:
    parsed = make_url(url)
    if parsed.get_backend_name() == "postgresql":
        parsed = parsed.set(drivername="postgresql+psycopg2")
    else:
        parsed = parsed.set(query={})
    return parsed.render_as_string(hide_password=False)


@pytest.fixture(params=[NOVA_27_REVISIONS, NEWEST_REVISIONS], ids=["nova 27", "newest"])
def schema_revisions(request: pytest.FixtureRequest) -> tuple[str, str]:
    return request.param


@pytest.fixture(params=["postgresql", "mysql"])
def nova_with_migrated_schemas(
    request: pytest.FixtureRequest, schema_revisions: tuple[str, str], tmp_path: Path
) -> Iterator[NovaCloud]:
    skip_without_peer()
    kind = request.param
    with (
        empty_database(kind, tmp_path) as api,
        empty_database(kind, tmp_path) as cell0,
        empty_database(kind, tmp_path) as one,
    ):
        migrate_databases(api, one, schema_revisions)
        # The schema of cell0 is the schema of a cell.
        engine = create_engine(cell0)
        CELL.create_all(engine)
        engine.dispose()
        cloud = NovaCloud(api, cell0)
        cloud.add_cell("one", one)
        yield cloud
        cloud.close()


@pytest.mark.exhaustive
@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_columns_that_sync_reads_exist_in_the_schema_of_nova(
    make_follower, nova_with_migrated_schemas, database
):
    node = nova_with_migrated_schemas.add_host("cn1", numa_topology=None)
    nova_with_migrated_schemas.add_host("cn2", disabled=True, disabled_reason="mend it")
    group = nova_with_migrated_schemas.add_group("pair", max_server_per_host=2)
    uuid = nova_with_migrated_schemas.add_instance("cn1", group=group)
    number = nova_with_migrated_schemas.add_aggregate("racks", ("cn1",), availability_zone="north")
    before = nova_with_migrated_schemas.rows()
    follower = make_follower(nova_with_migrated_schemas)
    findings = follower.sync_all()
    follower.refresh()
    follower.sync_changes()
    assert findings.issues == ()
    assert {noun: count.new for noun, count in findings.counts.items()} == {
        "cells": 1,
        "services": 2,
        "compute nodes": 2,
        "host aggregates": 1,
        "server groups": 1,
        "instances": 1,
    }
    with database.read() as connection:
        assert compute_nodes.get_by_uuid(connection, node).host_ip == "192.0.2.7"
        assert services.map_by_host(connection, ["cn2"])["cn2"].disabled
        assert instances.get_by_uuid(connection, uuid).server_group == group
        assert host_aggregates.find_by_id(connection, number).hosts == {"cn1"}
    assert follower.compare().differing == 0
    assert nova_with_migrated_schemas.rows() == before


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
def test_sync_rounds_find_changed_rows(make_follower, nova_with_migrated_schemas, database):
    nova_with_migrated_schemas.add_host("cn1")
    node = nova_with_migrated_schemas.add_host("cn2")
    uuid, gone = (
        nova_with_migrated_schemas.add_instance("cn1"),
        nova_with_migrated_schemas.add_instance("cn1"),
    )
    cell = nova_with_migrated_schemas.cells["one"]
    tables = ("instance_metadata", "instance_system_metadata")
    for table in tables:
        for key, value in (("b", 'a "quoted" ü'), ("a", None), ("deleted", "x")):
            cell.add(table, instance_uuid=uuid, key=key, value=value)
        cell.delete_softly(table, instance_uuid=uuid, key="deleted")
    follower = make_follower(nova_with_migrated_schemas)
    follower.sync_all()
    cell.change(tables[0], {"instance_uuid": uuid, "key": "a"}, value="2")
    cell.change("compute_nodes", {"host": "cn2"}, vcpus_used=9)
    cell.change("services", {"host": "cn1"}, forced_down=True)
    launched = datetime(2026, 1, 2, 3, 4, 5)
    cell.change("instances", {"uuid": uuid}, host="cn2", node="cn2", launched_at=launched)
    cell.change("instances", {"uuid": gone}, vm_state="deleted")
    cell.delete_softly("instances", uuid=gone)
    new = nova_with_migrated_schemas.add_instance("cn1")
    follower.sync_changes()
    with database.read() as connection:
        assert compute_nodes.get_by_uuid(connection, node).vcpus_used == 9
        assert services.map_by_host(connection, ["cn1"])["cn1"].forced_down
        hosts = {instance.uuid: instance.host for instance in instances.search(connection)}
        assert hosts == {uuid: "cn2", new: "cn1"}
        assert instances.get_by_uuid(connection, uuid).launched_at == launched
        metadata = instances.MetadataReader(connection, [uuid]).read(uuid)
    assert metadata == ({"a": "2", "b": 'a "quoted" ü'}, {"a": None, "b": 'a "quoted" ü'})
    assert follower.compare().differing == 0


@pytest.mark.exhaustive
def test_nova_database_reader_cannot_write(nova_with_migrated_schemas):
    reader = databases.NovaDatabase(
        "cell one", make_url(nova_with_migrated_schemas.cells["one"].url)
    )
    change = text("UPDATE services SET disabled = disabled")
    with (
        pytest.raises(databases.NovaDatabaseUnavailable, match=r"(?i)read.only"),
        reader.read() as connection,
    ):
        connection.execute(change)
    reader.close()
    allowed = create_engine(nova_with_migrated_schemas.cells["one"].url)
    with allowed.begin() as connection:
        connection.execute(change)
    allowed.dispose()
