# SPDX-License-Identifier: Apache-2.0
"""An error names the missing privilege of a database user, and the GRANT statement."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.engine import URL, make_url

from placement_sched.db.tables import resource_providers
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable, sentence
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.support.empty_databases import empty_database

pytestmark = pytest.mark.all_databases

#: The user may connect and read a table, but not the table of the test.
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
def url_of_limited_account(database_url) -> Iterator[URL]:
    url, user = make_url(database_url), f"ps_{uuid4().hex[:12]}"
    kind = url.get_backend_name()
    engine = create_engine(url, isolation_level="AUTOCOMMIT")

    def administer(statements: tuple[str, ...]) -> None:
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement.format(user=user)))

    administer(CREATE_USER[kind])
    yield url.set(username=user)
    administer(DROP_USER[kind])
    engine.dispose()


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_missing_privilege_is_503_with_the_grant(url_of_limited_account, make_app):
    url = url_of_limited_account.render_as_string(hide_password=False)
    database = Database(make_settings(url))
    kind = url_of_limited_account.get_backend_name()
    message = MESSAGES[kind]
    with (
        pytest.raises(Unavailable, match=f"lacks a privilege: .*{message}") as failure,
        database.read() as connection,
    ):
        connection.execute(select(resource_providers.c.id))
    database.dispose()
    words = sentence(failure.value)
    assert words.count(message) == 1
    name, user = url_of_limited_account.database, url_of_limited_account.username
    grant = {
        "postgresql": "GRANT ALL ON TABLE resource_providers TO <user>",
        # MariaDB names the host of the client, and the account may have another.
        "mysql": (
            f"GRANT ALL ON {name}.* TO '{user}'@'<host>' "
            "(SELECT CURRENT_USER() by this user shows the host)"
        ),
    }
    assert words.endswith(f"; an administrator allows it with {grant[kind]}")
    app = make_app(make_settings(url))
    answer = app.get("/placement/resource_providers", status=503)
    assert "lacks a privilege" in answer.json["errors"][0]["detail"]


def test_grant_advice_names_the_host_of_the_account(mysql_server):
    name = f"ps_{uuid4().hex[:8]}"
    engine = create_engine(mysql_server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE USER '{name}'@'127.0.0.%%'")
        database = _database_of(engine.url.set(database="mysql"), name)
        with pytest.raises(Unavailable) as failure, database.read():
            pytest.fail("there was a connection")
        database.dispose()
        connection.exec_driver_sql(f"DROP USER '{name}'@'127.0.0.%%'")
    engine.dispose()
    assert f"GRANT ALL ON mysql.* TO '{name}'@'127.0.0.%'" in sentence(failure.value)


@pytest.mark.slow
def test_inaccessible_schema_is_a_missing_privilege(tmp_path):
    name = f"ps_{uuid4().hex[:8]}"
    with empty_database("postgresql", tmp_path) as url:
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(f"CREATE USER {name}"))
            connection.execute(text("REVOKE ALL ON SCHEMA public FROM PUBLIC"))
            database = _database_of(engine.url, name)
            with pytest.raises(Unavailable, match="GRANT ALL ON SCHEMA public TO <user>"):
                sync(database, utcnow)
            database.dispose()
            connection.execute(text(f"DROP USER {name}"))
        engine.dispose()


def _database_of(url: URL, user: str) -> Database:
    """Return the database with the connection of a user without a password."""
    own = url.set(username=user, password=None)
    return Database(make_settings(own.render_as_string(hide_password=False)))
