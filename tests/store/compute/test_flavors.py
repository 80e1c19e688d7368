# SPDX-License-Identifier: Apache-2.0
"""What the store keeps of flavors, their extra specs and their projects."""

from datetime import timedelta

import pytest

from placement_sched.model.flavor import Flavor
from placement_sched.store.compute import flavors as store
from tests.support.hosts import NOW
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases


@pytest.fixture
def add(database):
    """Give a function that adds a flavor with extra specs, and returns its number."""

    def make(flavorid, name, extra_specs=None, **fields):
        def work(connection):
            store.add(connection, Flavor(flavorid=flavorid, name=name, **fields), NOW)
            number = store.by_flavorid(connection, flavorid).id
            store.set_extra_specs(connection, number, extra_specs or {}, NOW)
            return number

        return database.write(work)

    return make


def ask(database, question, *arguments):
    with database.read() as connection:
        return question(connection, *arguments)


def test_flavor_is_read_as_it_was_written(database, add):
    sizes = {"vcpus": 2, "memory_mb": 3, "root_gb": 4, "ephemeral_gb": 5, "swap": 6}
    number = add(
        "f", "F 1", {"b": "2", "a": ""}, **sizes, rxtx_factor=1.1, is_public=False, description="✓"
    )
    found = ask(database, store.by_flavorid, "f")
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
def test_factor_is_kept_exactly(database, add, factor):
    add("f", "f", rxtx_factor=factor)
    assert ask(database, store.by_flavorid, "f").rxtx_factor == factor


def test_ids_and_names_are_told_exactly(database, add):
    add("f", "n", {"k": "lower", "K": "upper"})
    add("F", "N")
    assert ask(database, store.by_flavorid, "F").name == "N"
    assert ask(database, store.by_flavorid, "f ") is None
    assert ask(database, store.flavorid_of_name, "N") == "F"
    assert ask(database, store.by_flavorid_or_name, "n ") is None
    assert ask(database, store.by_flavorid, "f").extra_specs == {"K": "upper", "k": "lower"}


def test_an_id_goes_before_a_name(database, add):
    add("one", "two", {"a": "1"})
    add("two", "one")
    assert ask(database, store.by_flavorid_or_name, "two").flavorid == "two"
    add("three", "four", {"b": "2"})
    found = ask(database, store.by_flavorid_or_name, "four")
    assert (found.flavorid, found.extra_specs) == ("three", {"b": "2"})
    assert ask(database, store.by_flavorid_or_name, "five") is None


def test_a_flavor_is_found_in_one_statement(database, add):
    add("f", "n", {str(key): "v" for key in range(30)})
    with record_statements(database) as seen:
        assert len(ask(database, store.by_flavorid_or_name, "n").extra_specs) == 30
    assert len(seen) == 1


def test_extra_specs_are_set_and_removed_by_key(database, add):
    number = add("f", "n", {"a": "1", "b": "2"})
    other = add("g", "o", {"a": "1"})

    def work(connection):
        store.set_extra_specs(connection, number, {"b": "II", "c": "3"}, NOW)
        store.remove_extra_spec(connection, number, "a")

    database.write(work)
    found = ask(database, store.extra_specs_of, [number, other])
    assert found == {number: {"b": "II", "c": "3"}, other: {"a": "1"}}


def test_projects_are_put_and_taken(database, add):
    number = add("f", "n")
    for project in ("q", "p"):
        database.write(lambda connection, p=project: store.add_project(connection, number, p, NOW))
    assert ask(database, store.projects_of, number) == ("p", "q")
    assert ask(database, store.is_for, number, "p")
    assert not ask(database, store.is_for, number, "P")
    assert database.write(lambda connection: store.remove_project(connection, number, "p"))
    assert not database.write(lambda connection: store.remove_project(connection, number, "p"))
    assert ask(database, store.projects_of, number) == ("q",)


def test_removed_flavor_leaves_nothing_and_its_number_free_to_nobody(database, add):
    number = add("f", "n", {"a": "1"})
    database.write(lambda connection: store.add_project(connection, number, "p", NOW))
    database.write(lambda connection: store.remove(connection, number))
    assert ask(database, store.by_flavorid, "f") is None
    assert ask(database, store.extra_specs_of, [number]) == {}
    assert ask(database, store.projects_of, number) == ()
    assert add("f", "n") > number


def test_description_is_changed(database, add):
    number = add("f", "n", description="old")
    later = NOW + timedelta(seconds=5)
    database.write(lambda connection: store.describe(connection, number, None, later))
    assert ask(database, store.by_flavorid, "f").description is None
