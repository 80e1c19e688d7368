"""A time that cannot be read is reported with the row that has it, and ends no verification."""

import pytest
from sqlalchemy import String, insert, select, text, type_coerce, update

from placement_sched.db import tables
from placement_sched.model.results.invariants import Invariant
from placement_sched.operations.invariants.growth import generations
from placement_sched.store.invariants import times
from tests.invariants import assert_invariants, break_tables, verified
from tests.placing import flavor, instance, report, spec

CN1, FIRST, CELL = report("cn1")["uuid"], instance(1), instance(55)
CPUS = {"id": 0, "cpuset": [], "pcpuset": [0, 1, 2], "memory": 65536, "pinned_cpus": []}
PINNED = flavor(extra_specs={"hw:cpu_policy": "dedicated"})
#: What a record is, its table, and its uuid; those without one go by that of another.
KINDS = {
    "provider": (tables.resource_providers, CN1),
    "inventory of provider": (tables.inventories, CN1),
    "allocation of consumer": (tables.allocations, FIRST),
    "consumer": (tables.consumers, FIRST),
    "instance": (tables.instances, FIRST),
    "decision": (tables.decisions, None),
    "compute node": (tables.compute_nodes, CN1),
    "cell": (tables.cells, CELL),
    "host aggregate": (tables.host_aggregates, None),
}


def filled(app, database):
    """A cloud with a row of each kind: an instance that pins a CPU, in a cell, an aggregate."""
    node = report("cn1", numa_topology={"cells": [CPUS]})
    app.post_json("/scheduler/v1/compute_nodes", [node])
    asked = {"request_spec": spec(FIRST, flavor=PINNED)}
    app.post_json("/scheduler/v1/select_destinations", asked)
    racks = {"aggregate": {"name": "racks", "availability_zone": None}}
    made = app.post_json("/compute/v2.1/os-aggregates", racks).json["aggregate"]
    add = {"add_host": {"host": "cn1"}}
    app.post_json(f"/compute/v2.1/os-aggregates/{made['id']}/action", add)
    break_tables(
        database,
        insert(tables.cells).values(uuid=CELL, name="cell1", disabled=0),
        update(tables.compute_nodes).values(cell_uuid=CELL),
    )
    return app


def rubbish(table, column, value="rubbish"):
    return update(table).values({column: type_coerce(value, String)})


def columns_of(table):
    return [name for name, one in table.c.items() if str(one.type).startswith("DATETIME")]


EVERY = [(kind, name) for kind, (table, _) in KINDS.items() for name in columns_of(table)]


@pytest.mark.parametrize(("kind", "column"), EVERY)
def test_time_that_is_none_is_reported_once_with_its_row(sqlite_app, sqlite_database, kind, column):
    filled(sqlite_app, sqlite_database)
    assert_invariants(sqlite_database)
    table, uuid = KINDS[kind]
    break_tables(sqlite_database, rubbish(table, column))
    found = verified(sqlite_database).violations
    assert {one.invariant for one in found} == {Invariant.RECORD_UNREADABLE}
    details = [one.detail for one in found]
    assert len(set(details)) == len(details) == 1
    if uuid is not None:
        assert f"the record of {kind} {uuid} cannot be read: " in details[0]
    assert f"{column} 'rubbish' is not a time" in details[0]
    generations(sqlite_database)


def test_amounts_with_times_that_cannot_be_read_are_reported_as_well(sqlite_app, sqlite_database):
    filled(sqlite_app, sqlite_database)
    changed = update(tables.allocations).values(used=999_999)
    break_tables(
        sqlite_database,
        changed,
        rubbish(tables.allocations, "updated_at"),
        rubbish(tables.inventories, "updated_at"),
    )
    found = verified(sqlite_database).violations
    kinds = {one.invariant for one in found}
    assert {Invariant.OVER_CAPACITY, Invariant.UNITS, Invariant.RECORD_UNREADABLE} <= kinds
    assert any("; allocated at an unknown time, the inventory" in one.detail for one in found)


@pytest.mark.parametrize(
    "value",
    ["2030-02-30 12:00:00", "2030-01-01 25:00:00", "2030-01-01 12:00:00+02:00", "12:00:00", "", 5],
)
def test_text_like_a_time_that_is_none_is_reported(sqlite_app, sqlite_database, value):
    filled(sqlite_app, sqlite_database)
    break_tables(sqlite_database, text("UPDATE consumers SET created_at = :v").bindparams(v=value))
    (found,) = verified(sqlite_database).violations
    assert found.invariant is Invariant.RECORD_UNREADABLE
    assert f"the record of consumer {FIRST} cannot be read: created_at" in found.detail


@pytest.mark.parametrize(
    "value", ["2030-02-28", "2030-01-01 12:00:00.5", "2030-01-01T12:00:00.123456"]
)
def test_time_in_any_form_that_is_read_is_one(sqlite_app, sqlite_database, value):
    filled(sqlite_app, sqlite_database)
    break_tables(sqlite_database, rubbish(tables.resource_providers, "created_at", value))
    assert_invariants(sqlite_database)
    assert times.read(value) is not None


@pytest.mark.all_databases
def test_time_beyond_those_of_python_is_reported_on_postgresql(app, database):
    filled(app, database)
    with database.read() as connection:
        if connection.dialect.name != "postgresql":
            pytest.skip("only PostgreSQL has such times")
    ever = text("UPDATE sched_instances SET created_at = 'infinity'")
    break_tables(database, ever, text("UPDATE sched_aggregates SET created_at = '-infinity'"))
    details = sorted(one.detail for one in verified(database).violations)
    with database.read() as connection:
        uuid = connection.scalars(select(tables.host_aggregates.c.uuid)).one()
    assert details == [
        f"the record of host aggregate {uuid} cannot be read: created_at '-infinity' is not a time",
        f"the record of instance {FIRST} cannot be read: created_at 'infinity' is not a time",
    ]
