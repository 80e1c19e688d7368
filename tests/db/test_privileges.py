# SPDX-License-Identifier: Apache-2.0
"""A missing privilege of the database user is named in the error."""

from uuid import uuid4

import pytest
from sqlalchemy import create_engine, select, text

from placement_sched.db.tables import resource_providers
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.support.empty_databases import empty_database

pytestmark = pytest.mark.all_databases

#: Statements that create a user who may connect and read another table, and that drop the user.
CREATE_USER = {
    "postgresql": ("CREATE USER {user}", "GRANT SELECT ON traits TO {user}"),
    "mysql": ("CREATE USER {user}@'%'", "GRANT SELECT ON traits TO {user}@'%'"),
}
DROP_USER = {
    "postgresql": ("DROP OWNED BY {user}", "DROP USER {user}"),
    "mysql": ("DROP USER {user}@'%'",),
}
MESSAGES = {
    "postgresql": "permission denied for table resource_providers",
    "mysql": "SELECT command denied to user",
}


@pytest.fixture
def administer(database_url):
    """Give a function that executes statements about a new user, and returns the user's URL."""
    engine, user = create_engine(database_url, isolation_level="AUTOCOMMIT"), f"ps_{uuid4().hex}"

    def execute_statements(statements):
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement.format(user=user[:12])))
        url = engine.url.set(username=user[:12], password=None)
        return url.render_as_string(hide_password=False)

    yield execute_statements
    engine.dispose()


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_missing_privilege_is_503_with_the_reason(administer, make_app, database_url):
    kind = database_url.partition("+")[0]
    settings = make_settings(administer(CREATE_USER[kind]))
    words = f"lacks a privilege.*{MESSAGES[kind]}"
    database = Database(settings)
    with pytest.raises(Unavailable, match=words), database.read() as connection:
        connection.execute(select(resource_providers.c.id))
    database.dispose()
    answer = make_app(settings).get("/placement/resource_providers", status=503)
    assert "lacks a privilege" in answer.json["errors"][0]["detail"]
    administer(DROP_USER[kind])


@pytest.mark.slow
def test_inaccessible_schema_is_a_missing_privilege(tmp_path):
    name = f"ps_{uuid4().hex[:8]}"
    with empty_database("postgresql", tmp_path) as url:
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE USER {name}"))
            connection.execute(text("REVOKE ALL ON SCHEMA public FROM PUBLIC"))
            own = engine.url.set(username=name).render_as_string(hide_password=False)
            database = Database(make_settings(own))
            with pytest.raises(Unavailable, match="lacks a privilege"):
                sync(database, utcnow)
            database.dispose()
            connection.execute(text(f"DROP USER {name}"))
        engine.dispose()
