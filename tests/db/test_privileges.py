"""A database user without the rights that the service needs is named, with what is missing."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from sqlalchemy import create_engine, select, text
from sqlalchemy.engine import URL, make_url

from placement_sched.db.tables import resource_providers
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable, sentence
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases

#: What the user may do: connect, and see another table than that which is asked for.
OF_USER = {
    "postgresql": ("CREATE USER {user}", "GRANT SELECT ON traits TO {user}"),
    "mysql": ("CREATE USER {user}@'%'", "GRANT SELECT ON traits TO {user}@'%'"),
}
DROPPED = {
    "postgresql": ("DROP OWNED BY {user}", "DROP USER {user}"),
    "mysql": ("DROP USER {user}@'%'",),
}
SAID = {
    "postgresql": "permission denied for table resource_providers",
    "mysql": "SELECT command denied to user",
}


@pytest.fixture
def url_of_another(database_url) -> Iterator[URL]:
    url, user = make_url(database_url), f"ps_{uuid4().hex[:12]}"
    kind = url.get_backend_name()
    engine = create_engine(url, isolation_level="AUTOCOMMIT")

    def administer(statements: tuple[str, ...]) -> None:
        with engine.connect() as connection:
            for statement in statements:
                connection.execute(text(statement.format(user=user)))

    administer(OF_USER[kind])
    yield url.set(username=user)
    administer(DROPPED[kind])
    engine.dispose()


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_missing_privilege_is_named_and_answered_with_503(url_of_another, make_app):
    url = url_of_another.render_as_string(hide_password=False)
    database = Database(make_settings(url))
    kind = url_of_another.get_backend_name()
    said = SAID[kind]
    with (
        pytest.raises(Unavailable, match=f"lacks a privilege: .*{said}") as refused,
        database.read() as connection,
    ):
        connection.execute(select(resource_providers.c.id))
    database.dispose()
    words = sentence(refused.value)
    assert words.count(said) == 1
    name, user = url_of_another.database, url_of_another.username
    grant = {
        "postgresql": "GRANT ALL ON TABLE resource_providers TO <user>",
        "mysql": f"GRANT ALL ON {name}.* TO '{user}'@'%'",
    }
    assert words.endswith(f"; an administrator allows it with {grant[kind]}")
    app = make_app(make_settings(url))
    answer = app.get("/placement/resource_providers", status=503)
    assert "lacks a privilege" in answer.json["errors"][0]["detail"]
