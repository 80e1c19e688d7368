"""How PostgreSQL is asked for changes: by a plan that it keeps."""

from contextlib import ExitStack

import pytest

from placement_sched.store.placement import change_log

pytestmark = pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)

PLANS = (
    "SELECT max(custom_plans), max(generic_plans) FROM pg_prepared_statements "
    "WHERE statement LIKE '%%string_agg%%'"
)
#: Gets a transaction its number, as the first write does.
WRITES = "SELECT txid_current()"
#: So many plans PostgreSQL makes for the values of a statement before it may keep one.
FIRST = 5


@pytest.mark.parametrize("transactions", [0, 1, 5])
def test_each_question_about_few_transactions_at_work_is_planned_once(database, transactions):
    with database.read() as connection, ExitStack() as writing:
        position = change_log.begin(connection)
        for _ in range(transactions):
            other = writing.enter_context(database.writer.connect())
            other.exec_driver_sql(WRITES)
        with database.writer.begin() as later:
            later.exec_driver_sql(WRITES)
        for _ in range(20):
            position = change_log.since(connection, position).position
        assert len(position.awaited) >= transactions
        by_values, kept = connection.exec_driver_sql(PLANS).one()
    assert by_values <= FIRST
    assert kept > 0
