# SPDX-License-Identifier: Apache-2.0
"""Comparison of a column with many values of any characters, on every database."""

import pytest
from sqlalchemy import insert, select

from placement_sched.db.sql import in_values
from placement_sched.db.tables import resource_providers
from tests.support.providers import NOW

pytestmark = pytest.mark.all_databases

NAMES = [
    "plain",
    "with space",
    "comma,comma",
    'quote "quoted"',
    "back\\slash",
    "\\",
    "{brace}",
    "NULL",
    "it's",
    "Zürich",
    "%s",
    ":name",
]


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


@pytest.mark.parametrize("name", NAMES)
def test_string_is_matched_exactly(database, ids, name):
    assert _found_ids(database, resource_providers.c.name, [name, "absent"]) == {name}


def test_too_long_string_matches_nothing(database, ids):
    uuid = resource_providers.c.uuid
    assert _found_ids(database, uuid, [f"{0:036}"]) == {NAMES[0]}
    assert _found_ids(database, uuid, [f"{0:036}x"]) == set()


def test_many_values_are_matched_in_batches(database, ids):
    assert _found_ids(database, resource_providers.c.name, NAMES) == set(NAMES)


def test_numbers_are_matched(database, ids):
    names = {"plain", "\\"}
    assert _found_ids(database, resource_providers.c.id, [ids[name] for name in names]) == names


@pytest.mark.parametrize("column", ["id", "name"])
def test_empty_value_list_matches_nothing(database, ids, column):
    assert _found_ids(database, resource_providers.c[column], []) == set()
