# SPDX-License-Identifier: Apache-2.0
"""Comparison of a column with many values of any characters, on every database."""

import pytest
from sqlalchemy import insert, select

from placement_sched.db.sql import in_values
from placement_sched.db.tables import resource_providers
from tests.support.providers import NOW

pytestmark = pytest.mark.all_databases

NAMES = ["plain", "with space", "comma,comma", 'quote "quoted"', "back\\slash", "\\", "{brace}"]
NAMES += ["NULL", "it's", "Zürich", "%s", ":name"]


@pytest.fixture
def ids(database):
    """Create providers of these names, and return their ids by name."""
    columns = resource_providers.c

    def write(connection):
        rows = [
            {"uuid": f"{n:036}", "name": name, "generation": 0, "created_at": NOW}
            for n, name in enumerate(NAMES)
        ]
        connection.execute(insert(resource_providers), rows)
        return dict(connection.execute(select(columns.name, columns.id)).all())

    return database.write(write)


def _found_ids(database, column, values):
    with database.read() as connection:
        query = select(resource_providers.c.name).where(in_values(connection, column, values))
        return set(connection.scalars(query))


def test_strings_are_matched_exactly(database, ids):
    name, uuid = resource_providers.c.name, resource_providers.c.uuid
    for each in NAMES:
        assert _found_ids(database, name, [each, "absent"]) == {each}
    assert _found_ids(database, name, NAMES) == set(NAMES)
    assert _found_ids(database, uuid, [f"{0:036}"]) == {NAMES[0]}
    assert _found_ids(database, uuid, [f"{0:036}x"]) == set()


def test_numbers_are_matched(database, ids):
    names = {"plain", "\\"}
    assert _found_ids(database, resource_providers.c.id, [ids[name] for name in names]) == names


@pytest.mark.parametrize("column", ["id", "name"])
def test_empty_value_list_matches_nothing(database, ids, column):
    assert _found_ids(database, resource_providers.c[column], []) == set()
