# SPDX-License-Identifier: Apache-2.0
"""Databases with any options."""

import pytest

from placement_sched.db.transaction import Database
from tests.conftest import make_settings


def make_database_settings(url: str, **values: object):
    return make_settings(
        url, **{f"placement_database__{name}": value for name, value in values.items()}
    )


@pytest.fixture
def open_database(request):
    """Give a function that opens a database by its URL, or by the fixture of the URL."""
    databases = []

    def open_with_options(url: str, **values: object) -> Database:
        url = url if ":" in url else request.getfixturevalue(url)
        databases.append(Database(make_database_settings(url, **values)))
        return databases[-1]

    yield open_with_options
    for database in databases:
        database.dispose()
