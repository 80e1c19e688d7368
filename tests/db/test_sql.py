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
def provider_ids(database):
    """Create providers of these names, and return their ids by name."""
    columns = resource_providers.c

    def insert_providers(connection):
        rows = [
            {"uuid": f"{n:036}", "name": name, "generation": 0, "created_at": NOW}
            for n, name in enumerate(NAMES)
        ]
        connection.execute(insert(resource_providers), rows)
        return dict(connection.execute(select(columns.name, columns.id)).all())

    return database.write(insert_providers)


def _search_names(database, column, values):
    with database.read() as connection:
        query = select(resource_providers.c.name).where(in_values(connection, column, values))
        return set(connection.scalars(query))


def test_in_values_matches_strings_exactly(database, provider_ids):
    name, uuid = resource_providers.c.name, resource_providers.c.uuid
    for each in NAMES:
        assert _search_names(database, name, [each, "absent"]) == {each}
    assert _search_names(database, name, NAMES) == set(NAMES)
    assert _search_names(database, uuid, [f"{0:036}"]) == {NAMES[0]}
    assert _search_names(database, uuid, [f"{0:036}x"]) == set()


def test_in_values_matches_numbers(database, provider_ids):
    names = {"plain", "\\"}
    assert (
        _search_names(database, resource_providers.c.id, [provider_ids[name] for name in names])
        == names
    )


@pytest.mark.parametrize("column", ["id", "name"])
def test_in_values_without_values_matches_nothing(database, provider_ids, column):
    assert _search_names(database, resource_providers.c[column], []) == set()
