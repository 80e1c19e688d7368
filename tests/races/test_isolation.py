# SPDX-License-Identifier: Apache-2.0
"""The isolation level of transactions, independent of the server's default."""

import pytest
from sqlalchemy import text

from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.system

#: The query for a session's isolation level, and its result for READ COMMITTED.
_LEVELS = {
    "postgresql": ("SHOW transaction_isolation", "read committed"),
    "mysql": ("SELECT @@tx_isolation", "READ-COMMITTED"),
}


@pytest.mark.parametrize("kind", _LEVELS)
def test_writes_are_read_committed(request, kind):
    """At REPEATABLE READ, MariaDB's default, a write reads a snapshot older than its lock."""
    database = Database(make_settings(request.getfixturevalue(f"{kind}_server")))
    query, expected = _LEVELS[kind]
    assert database.write(lambda connection: connection.scalar(text(query))) == expected
    database.dispose()
