"""A statement that asks for it is planned for its values; it counts like any other."""

import pytest
from sqlalchemy import literal, select, text

from placement_sched.db.engine import PLANNED_BY_VALUE
from placement_sched.db.transaction import Database
from tests.conftest import make_settings

pytestmark = pytest.mark.all_databases

#: Oftener than psycopg sends a statement before it prepares it.
OFTEN = 8
PREPARED = text("SELECT statement FROM pg_prepared_statements")


@pytest.fixture
def postgresql(postgresql_server):
    database = Database(make_settings(postgresql_server))
    yield database
    database.dispose()


@pytest.mark.parametrize(
    ("options", "prepared"), [(PLANNED_BY_VALUE, False), ({}, True)], ids=["by value", "usual"]
)
def test_statement_is_prepared_unless_it_is_planned_by_value(postgresql, options, prepared):
    with postgresql.read() as connection:
        for number in range(OFTEN):
            statement = select((literal(number) + 1).label("the_next"))
            found = connection.scalar(statement, execution_options=options)
            assert found == number + 1
        known = connection.scalars(PREPARED).all()
    assert any("the_next" in statement for statement in known) is prepared


def test_statement_planned_by_value_is_tallied(database):
    with database.read() as connection:
        connection.scalar(select(literal(1)))
        database.tally.reset()
        connection.scalar(select(literal(1)), execution_options=PLANNED_BY_VALUE)
    assert database.tally.statements == 1
