# SPDX-License-Identifier: Apache-2.0
"""The store of flavors, their extra specs and their projects, and lists of flavors."""

from datetime import timedelta
from itertools import product

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.store.compute import flavors as store
from placement_sched.store.compute.flavors import SORT_KEYS, FlavorQuery, search
from tests.support.hosts import NOW
from tests.support.statements import record_statements, run_query

pytestmark = pytest.mark.all_databases


@pytest.fixture
def add_flavor(database):
    """Give a function that adds a flavor with extra specs, and returns its number."""

    def insert_flavor(flavorid, name, extra_specs=None, **fields):
        def write_flavor_and_extra_specs(connection):
            flavor = Flavor(flavorid=flavorid, name=name, **fields)
            store.add_many(connection, [flavor], NOW)
            number = store.find_by_flavorid(connection, flavorid).id
            store.set_extra_specs(connection, number, extra_specs or {}, NOW)
            return number

        return database.write(write_flavor_and_extra_specs)

    return insert_flavor


@pytest.mark.parametrize("factor", [1.1, 1e-300, 3.40282e38, 123456.789012345])
def test_flavor_is_read_as_it_was_written(database, add_flavor, factor):
    sizes = {"vcpus": 2, "memory_mb": 3, "root_gb": 4, "ephemeral_gb": 5, "swap": 6}
    more = {"rxtx_factor": factor, "is_public": False, "description": "✓"}
    number = add_flavor("f", "F 1", {"b": "2", "a": ""}, **sizes, **more)
    found = run_query(database, store.find_by_flavorid, "f")
    assert found == Flavor(
        id=number, flavorid="f", name="F 1", **sizes, **more, extra_specs={"a": "", "b": "2"}
    )
    assert list(found.extra_specs) == ["a", "b"]


def test_flavor_ids_and_names_are_matched_exactly(database, add_flavor):
    add_flavor("f", "n", {"k": "lower", "K": "upper"})
    add_flavor("F", "N")
    assert run_query(database, store.find_by_flavorid, "F").name == "N"
    assert run_query(database, store.find_by_flavorid, "f ") is None
    assert run_query(database, store.find_flavorid, "N") == "F"
    assert run_query(database, store.find_by_flavorid_or_name, "n ") is None
    assert run_query(database, store.find_by_flavorid, "f").extra_specs == {
        "K": "upper",
        "k": "lower",
    }


def test_flavor_id_takes_precedence_over_a_flavor_name(database, add_flavor):
    add_flavor("one", "two", {"a": "1"})
    add_flavor("two", "one")
    assert run_query(database, store.find_by_flavorid_or_name, "two").flavorid == "two"
    add_flavor("three", "four", {"b": "2", "c": "3"})
    with record_statements(database) as seen:
        found = run_query(database, store.find_by_flavorid_or_name, "four")
    assert (found.flavorid, found.extra_specs) == ("three", {"b": "2", "c": "3"})
    assert len(seen) == 1
    assert run_query(database, store.find_by_flavorid_or_name, "five") is None


def test_extra_specs_of_a_flavor_are_set_and_removed_by_key(database, add_flavor):
    number = add_flavor("f", "n", {"a": "1", "b": "2"})
    other = add_flavor("g", "o", {"a": "1"})

    def change_extra_specs(connection):
        store.set_extra_specs(connection, number, {"b": "II", "c": "3"}, NOW)
        store.remove_extra_spec(connection, number, "a")

    database.write(change_extra_specs)
    extra_specs = run_query(database, store.map_extra_specs, [number, other])
    assert extra_specs == {number: {"b": "II", "c": "3"}, other: {"a": "1"}}


def test_removed_flavor_leaves_no_rows_and_its_id_is_not_reused(database, add_flavor):
    number = add_flavor("f", "n", {"a": "1"}, description="old")
    database.write(lambda connection: store.set_description(connection, number, None, NOW))
    assert run_query(database, store.find_by_flavorid, "f").description is None
    database.write(lambda connection: store.add_project(connection, number, "p", NOW))
    database.write(lambda connection: store.remove(connection, number))
    assert run_query(database, store.find_by_flavorid, "f") is None
    assert run_query(database, store.map_extra_specs, [number]) == {}
    assert run_query(database, store.list_projects, number) == ()
    assert add_flavor("f", "n") > number


#: Ids, names, memory, disk, factor, description.
FLAVOR_ROWS = (
    ("c", "one", 1024, 10, 1.1, None),
    ("a", "two", 512, 20, 0.1, "é"),
    ("b", "three", 2048, 0, 1.1, "b"),
    ("B", "Three", 2048, 5, 1.1, ""),
    ("C", "ONE", 1, 1, 2.5, "a b"),
)


@pytest.fixture
def list_flavor_ids(database):
    """Give a function that returns the ids of the flavors that are wanted."""

    def write_flavors(connection):
        for place, (flavorid, name, memory_mb, root_gb, factor, text) in enumerate(FLAVOR_ROWS):
            flavor = Flavor(
                flavorid=flavorid,
                name=name,
                memory_mb=memory_mb,
                root_gb=root_gb,
                rxtx_factor=factor,
                description=text,
            )
            store.add_many(connection, [flavor], NOW + timedelta(seconds=place % 2))
        store.add_many(connection, [Flavor(flavorid="p", name="private", is_public=False)], NOW)
        number = store.find_by_flavorid(connection, "p").id
        store.add_project(connection, number, "shop", NOW)

    database.write(write_flavors)

    def search_flavor_ids(**filters):
        with database.read() as connection:
            page = search(connection, FlavorQuery(**filters), extra_specs=False)
        return "".join(each.flavorid for each in page)

    return search_flavor_ids


FLAVOR_IDS_BY_SORT_KEY = {
    "flavorid": "BCabc",
    "name": "CBcba",
    "memory_mb": "CacbB",
    "root_gb": "bCBca",
    "rxtx_factor": "acbBC",
    "description": "cBCba",
    "created_at": "cbCaB",
    "updated_at": "cabBC",
    "disabled": "cabBC",
    "id": "cabBC",
}


def test_flavors_have_the_same_order_on_all_databases_and_pages(list_flavor_ids):
    for key, order in FLAVOR_IDS_BY_SORT_KEY.items():
        assert list_flavor_ids(sort_key=key) == order, key
    for key, descending in product(SORT_KEYS, (False, True)):
        order = {"sort_key": key, "descending": descending, "is_public": None}
        whole, pages, marker = list_flavor_ids(**order), "", None
        while page := list_flavor_ids(**order, limit=2, marker=marker):
            pages += page
            marker = page[-1]
        assert pages == whole, order
    assert list_flavor_ids(sort_key="name", descending=True) == FLAVOR_IDS_BY_SORT_KEY["name"][::-1]


def test_marker_of_a_flavor_list_must_be_a_visible_flavor(list_flavor_ids):
    assert list_flavor_ids(marker="p") == ""
    assert list_flavor_ids(marker="p", confined=True, project_id="shop") == ""
    for filters in ({"marker": "d"}, {"marker": "a "}, {"marker": "p", "confined": True}):
        with pytest.raises(Invalid, match=r"marker \[. ?\] not found"):
            list_flavor_ids(**filters)


def test_statement_count_of_a_flavor_list_is_independent_of_flavors(database, list_flavor_ids):
    def write_extra_specs(connection):
        for flavor in ("a", "b", "c"):
            number = store.find_by_flavorid(connection, flavor).id
            store.set_extra_specs(connection, number, {"k": flavor}, NOW)

    database.write(write_extra_specs)
    for limit in (1, 5):
        with record_statements(database) as seen, database.read() as connection:
            page = search(connection, FlavorQuery(limit=limit, marker="B"), extra_specs=True)
        assert len(seen) == 3
    assert [each.extra_specs.get("k") for each in page] == [None, "a", "b", "c"]
