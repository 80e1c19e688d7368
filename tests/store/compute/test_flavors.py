# SPDX-License-Identifier: Apache-2.0
"""The store of flavors, their extra specs and their projects."""

from datetime import timedelta

import pytest

from placement_sched.model.flavor import Flavor
from placement_sched.store.compute import flavors as store
from tests.support.hosts import NOW
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


@pytest.fixture
def add_flavor(database):
    """Give a function that adds a flavor with extra specs, and returns its number."""

    def insert_flavor(flavorid, name, extra_specs=None, **fields):
        def write_rows(connection):
            store.add(connection, Flavor(flavorid=flavorid, name=name, **fields), NOW)
            number = store.by_flavorid(connection, flavorid).id
            store.set_extra_specs(connection, number, extra_specs or {}, NOW)
            return number

        return database.write(write_rows)

    return insert_flavor


def run_query(database, question, *arguments):
    with database.read() as connection:
        return question(connection, *arguments)


def test_flavor_is_read_as_it_was_written(database, add_flavor):
    sizes = {"vcpus": 2, "memory_mb": 3, "root_gb": 4, "ephemeral_gb": 5, "swap": 6}
    number = add_flavor(
        "f", "F 1", {"b": "2", "a": ""}, **sizes, rxtx_factor=1.1, is_public=False, description="✓"
    )
    found = run_query(database, store.by_flavorid, "f")
    assert found == Flavor(
        id=number,
        flavorid="f",
        name="F 1",
        **sizes,
        rxtx_factor=1.1,
        is_public=False,
        description="✓",
        extra_specs={"a": "", "b": "2"},
    )
    assert list(found.extra_specs) == ["a", "b"]


@pytest.mark.parametrize("factor", [0.1, 1e-300, 3.40282e38, 123456.789012345])
def test_rxtx_factor_is_stored_exactly(database, add_flavor, factor):
    add_flavor("f", "f", rxtx_factor=factor)
    assert run_query(database, store.by_flavorid, "f").rxtx_factor == factor


def test_ids_and_names_are_matched_exactly(database, add_flavor):
    add_flavor("f", "n", {"k": "lower", "K": "upper"})
    add_flavor("F", "N")
    assert run_query(database, store.by_flavorid, "F").name == "N"
    assert run_query(database, store.by_flavorid, "f ") is None
    assert run_query(database, store.flavorid_of_name, "N") == "F"
    assert run_query(database, store.by_flavorid_or_name, "n ") is None
    assert run_query(database, store.by_flavorid, "f").extra_specs == {"K": "upper", "k": "lower"}


def test_id_takes_precedence_over_name(database, add_flavor):
    add_flavor("one", "two", {"a": "1"})
    add_flavor("two", "one")
    assert run_query(database, store.by_flavorid_or_name, "two").flavorid == "two"
    add_flavor("three", "four", {"b": "2"})
    found = run_query(database, store.by_flavorid_or_name, "four")
    assert (found.flavorid, found.extra_specs) == ("three", {"b": "2"})
    assert run_query(database, store.by_flavorid_or_name, "five") is None


def test_flavor_is_found_in_one_statement(database, add_flavor):
    add_flavor("f", "n", {str(key): "v" for key in range(30)})
    with record_statements(database) as seen:
        assert len(run_query(database, store.by_flavorid_or_name, "n").extra_specs) == 30
    assert len(seen) == 1


def test_extra_specs_are_set_and_removed_by_key(database, add_flavor):
    number = add_flavor("f", "n", {"a": "1", "b": "2"})
    other = add_flavor("g", "o", {"a": "1"})

    def write_rows(connection):
        store.set_extra_specs(connection, number, {"b": "II", "c": "3"}, NOW)
        store.remove_extra_spec(connection, number, "a")

    database.write(write_rows)
    found = run_query(database, store.extra_specs_of, [number, other])
    assert found == {number: {"b": "II", "c": "3"}, other: {"a": "1"}}


def test_project_access_is_added_and_removed(database, add_flavor):
    number = add_flavor("f", "n")
    for project in ("q", "p"):
        database.write(lambda connection, p=project: store.add_project(connection, number, p, NOW))
    assert run_query(database, store.projects_of, number) == ("p", "q")
    assert run_query(database, store.is_for, number, "p")
    assert not run_query(database, store.is_for, number, "P")
    assert database.write(lambda connection: store.remove_project(connection, number, "p"))
    assert not database.write(lambda connection: store.remove_project(connection, number, "p"))
    assert run_query(database, store.projects_of, number) == ("q",)


def test_removed_flavor_leaves_no_rows_and_its_id_is_not_reused(database, add_flavor):
    number = add_flavor("f", "n", {"a": "1"})
    database.write(lambda connection: store.add_project(connection, number, "p", NOW))
    database.write(lambda connection: store.remove(connection, number))
    assert run_query(database, store.by_flavorid, "f") is None
    assert run_query(database, store.extra_specs_of, [number]) == {}
    assert run_query(database, store.projects_of, number) == ()
    assert add_flavor("f", "n") > number


def test_description_is_changed(database, add_flavor):
    number = add_flavor("f", "n", description="old")
    later = NOW + timedelta(seconds=5)
    database.write(lambda connection: store.describe(connection, number, None, later))
    assert run_query(database, store.by_flavorid, "f").description is None
