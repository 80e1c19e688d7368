# SPDX-License-Identifier: Apache-2.0
"""The level at which transactions run, whatever the server's default is."""

import pytest
from sqlalchemy import text

from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.system

#: Where a session reads its level, and what it says for READ COMMITTED.
_LEVELS = {
    "postgresql": ("SHOW transaction_isolation", "read committed"),
    "mysql": ("SELECT @@tx_isolation", "READ-COMMITTED"),
}


@pytest.mark.parametrize("kind", _LEVELS)
def test_writes_see_the_last_committed_write(request, kind):
    """At REPEATABLE READ, MariaDB's default, they would see a picture older than their lock."""
    database = Database(make_settings(request.getfixturevalue(f"{kind}_server")))
    ask, expected = _LEVELS[kind]
    assert database.write(lambda connection: connection.scalar(text(ask))) == expected
    database.dispose()
