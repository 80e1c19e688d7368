# SPDX-License-Identifier: Apache-2.0
"""Lists of flavors: visibility, order on every database, and pages."""

from datetime import timedelta

import pytest

from placement_sched.errors import Invalid
from placement_sched.model.flavor import Flavor
from placement_sched.store.compute import flavors as store
from placement_sched.store.compute.flavors import SORT_KEYS, FlavorsWanted, search
from tests.support.hosts import NOW
from tests.support.statements import record_statements

pytestmark = pytest.mark.all_databases

#: Ids, names, memory, disk, factor, description.
ROWS = (
    ("c", "one", 1024, 10, 1.1, None),
    ("a", "two", 512, 20, 0.1, "é"),
    ("b", "three", 2048, 0, 1.1, "b"),
    ("B", "Three", 2048, 5, 1.1, ""),
    ("C", "ONE", 1, 1, 2.5, "a b"),
)


@pytest.fixture
def list_ids(database):
    """Give a function that returns the ids of the flavors that are wanted."""

    def write_rows(connection):
        for place, (flavorid, name, memory_mb, root_gb, factor, text) in enumerate(ROWS):
            flavor = Flavor(
                flavorid=flavorid,
                name=name,
                memory_mb=memory_mb,
                root_gb=root_gb,
                rxtx_factor=factor,
                description=text,
            )
            store.add(connection, flavor, NOW + timedelta(seconds=place % 2))
        store.add(connection, Flavor(flavorid="p", name="private", is_public=False), NOW)
        number = store.by_flavorid(connection, "p").id
        store.add_project(connection, number, "shop", NOW)

    database.write(write_rows)

    def ids(**filters):
        with database.read() as connection:
            found = search(connection, FlavorsWanted(**filters), extra_specs=False)
        return "".join(each.flavorid for each in found)

    return ids


def test_public_and_accessible_flavors_are_listed(list_ids):
    assert list_ids() == "BCabc"
    assert list_ids(project_id="shop") == "BCabcp"
    assert list_ids(is_public=False) == "p"
    assert list_ids(is_public=None) == "BCabcp"


@pytest.mark.parametrize(
    ("key", "order"),
    [
        ("flavorid", "BCabc"),
        ("name", "CBcba"),
        ("memory_mb", "CacbB"),
        ("root_gb", "bCBca"),
        ("rxtx_factor", "acbBC"),
        ("description", "cBCba"),
        ("created_at", "cbCaB"),
        ("updated_at", "cabBC"),
        ("disabled", "cabBC"),
        ("id", "cabBC"),
    ],
)
def test_order_is_equal_on_all_databases_and_reversible(list_ids, key, order):
    assert list_ids(sort_key=key) == order
    assert list_ids(sort_key=key, descending=True) == order[::-1]


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("key", SORT_KEYS)
def test_pages_cover_the_whole_list(list_ids, key, descending):
    order = {"sort_key": key, "descending": descending, "is_public": None}
    whole, pages, marker = list_ids(**order), "", None
    while page := list_ids(**order, limit=2, marker=marker):
        pages += page
        marker = page[-1]
    assert pages == whole


def test_minimum_sizes_filter_the_list(list_ids):
    assert list_ids(min_memory_mb=1024) == "Bbc"
    assert list_ids(min_root_gb=5) == "Bac"
    assert list_ids(min_memory_mb=2**31) == ""


def test_marker_must_be_a_visible_flavor(list_ids):
    assert list_ids(marker="p") == ""
    assert list_ids(marker="p", confined=True, project_id="shop") == ""
    for filters in ({"marker": "d"}, {"marker": "a "}, {"marker": "p", "confined": True}):
        with pytest.raises(Invalid, match=r"marker \[. ?\] not found"):
            list_ids(**filters)


def test_statement_count_is_independent_of_flavors(database, list_ids):
    def write_rows(connection):
        for flavor in ("a", "b", "c"):
            number = store.by_flavorid(connection, flavor).id
            store.set_extra_specs(connection, number, {"k": flavor}, NOW)

    database.write(write_rows)
    for limit in (1, 5):
        with record_statements(database) as seen, database.read() as connection:
            found = search(connection, FlavorsWanted(limit=limit, marker="B"), extra_specs=True)
        assert len(seen) == 3
    assert [each.extra_specs.get("k") for each in found] == [None, "a", "b", "c"]
