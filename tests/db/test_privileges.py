# SPDX-License-Identifier: Apache-2.0
"""A missing privilege of the database user is named in the error."""

import re
from uuid import uuid4

import psycopg
import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.exc import ProgrammingError

from placement_sched.db.errors import build_grant, translate_errors
from placement_sched.db.tables import resource_providers
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases

#: Statements that create a user who may connect and read another table, and that drop the user.
CREATE_USER_STATEMENTS = {
    "postgresql": ("CREATE USER {user}", "GRANT SELECT ON traits TO {user}"),
    "mysql": ("CREATE USER {user}@'%'", "GRANT SELECT ON traits TO {user}@'%'"),
}
DROP_USER_STATEMENTS = {
    "postgresql": ("DROP OWNED BY {user}", "DROP USER {user}"),
    "mysql": ("DROP USER {user}@'%'",),
}
PRIVILEGE_ERRORS = {
    "postgresql": "permission denied for table resource_providers",
    "mysql": "SELECT command denied to user",
}


@pytest.fixture
def execute_as_administrator(database_url):
    """Give a function that executes statements about a new user, and returns the user's URL."""
    engine, user = create_engine(database_url, isolation_level="AUTOCOMMIT"), f"ps_{uuid4().hex}"

    def execute_and_return_user_url(statements):
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement.format(user=user[:12])))
        url = engine.url.set(username=user[:12], password=None)
        return url.render_as_string(hide_password=False)

    yield execute_and_return_user_url
    engine.dispose()


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_missing_database_privilege_is_503_with_the_reason(
    execute_as_administrator, make_app, database_url
):
    kind = database_url.partition("+")[0]
    settings = make_settings(execute_as_administrator(CREATE_USER_STATEMENTS[kind]))
    words = f"lacks a privilege.*{PRIVILEGE_ERRORS[kind]}"
    database = Database(settings)
    with pytest.raises(Unavailable, match=words) as error, database.read() as connection:
        connection.execute(select(resource_providers.c.id))
    database.dispose()
    response = make_app(settings).get("/placement/resource_providers", status=503)
    assert "lacks a privilege" in response.json["errors"][0]["detail"]
    grant = error.value.detail.partition(". Run as administrator of the database: ")[2]
    execute_as_administrator([re.sub(r"\bUSER$", "{user}", grant)])
    with database.read() as connection:
        connection.execute(select(resource_providers.c.id))
    database.dispose()
    execute_as_administrator(DROP_USER_STATEMENTS[kind])


def test_postgresql_schema_without_usage_right_is_a_missing_privilege():
    """PostgreSQL skips a schema that the user may not use."""
    cause = psycopg.errors.InvalidSchemaName("no schema has been selected to create in")
    with pytest.raises(Unavailable, match=r"lacks a privilege.*no schema"), translate_errors():
        raise ProgrammingError("CREATE TABLE a ()", {}, cause)


@pytest.mark.parametrize(
    ("message", "grant"),
    [
        (
            "INSERT, UPDATE command denied to user 'ps'@'10.0.0.7' for table `placement`.`leases`",
            "GRANT INSERT, UPDATE ON `placement`.`leases` TO 'ps'@'%'",
        ),
        ("TRIGGER command denied to user 'p'@'h' for table 't'", "GRANT TRIGGER ON `t` TO 'p'@'%'"),
        (
            "Access denied for user 'ps'@'%' to database 'placement'",
            "GRANT ALL PRIVILEGES ON `placement`.* TO 'ps'@'%'",
        ),
        (
            "SELECT command denied to user 'ps'@'h' for column 'id' in table 'traits'",
            "GRANT SELECT ON `traits` TO 'ps'@'%'",
        ),
        ("permission denied for schema public", "GRANT USAGE, CREATE ON SCHEMA public TO USER"),
        ("permission denied for sequence a_id", "GRANT USAGE, SELECT ON SEQUENCE a_id TO USER"),
        ("must be owner of table traits", "ALTER TABLE traits OWNER TO USER"),
        ("no schema has been selected", "GRANT USAGE, CREATE ON SCHEMA public TO USER"),
        ("Access denied; you need (at least one of) the SUPER privilege(s)", ""),
    ],
)
def test_missing_privilege_is_named_with_the_statement_that_grants_it(message, grant):
    assert build_grant(message) == grant
