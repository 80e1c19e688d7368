"""A prepared statement gives, counts and raises what one does that SQLAlchemy executes."""

from collections import Counter
from datetime import datetime

import pytest
from sqlalchemy import (
    Integer,
    String,
    bindparam,
    column,
    event,
    insert,
    literal_column,
    select,
    table,
    text,
)
from sqlalchemy.exc import DataError, OperationalError, ProgrammingError

from placement_sched.db.failures import translated
from placement_sched.db.prepared import Prepared
from placement_sched.db.tables import inventories, traits
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from tests.conftest import empty, make_settings
from tests.providers import make_provider

pytestmark = pytest.mark.all_databases

NOW = datetime(2026, 1, 1, 12, 0, 0)
NAMED = select(traits.c.name, traits.c.created_at, traits.c.updated_at).where(
    traits.c.name == bindparam("name", type_=traits.c.name.type)
)
KILLED = {
    "postgresql": ("SELECT pg_backend_pid()", "SELECT pg_terminate_backend({})"),
    "mysql": ("SELECT CONNECTION_ID()", "KILL {}"),
}
SLOW = {"postgresql": "pg_sleep(30)", "mysql": "SLEEP(30)"}


@pytest.fixture(params=["postgresql_server", "mysql_server"])
def server(request):
    url = request.getfixturevalue(request.param)
    empty(url)
    return url


@pytest.fixture
def opened(server):
    made = []

    def opened(**options):
        made.append(Database(make_settings(server, **options)))
        return made[-1]

    yield opened
    for database in made:
        database.dispose()


def test_rows_are_the_same_each_time(database):
    make_provider(database, VCPU=8)
    rows = [{"name": "CUSTOM_A", "created_at": NOW}, {"name": "CUSTOM_BÄ", "updated_at": NOW}]
    database.write(lambda connection: [connection.execute(insert(traits), row) for row in rows])
    named = Prepared(NAMED)
    stocked = Prepared(select(inventories.c.total, inventories.c.allocation_ratio))
    with database.read() as connection:
        for _ in range(3):
            (found,) = named.rows(connection, {"name": "CUSTOM_A"})
            assert tuple(found) == ("CUSTOM_A", NOW, None)
            (found,) = named.rows(connection, {"name": "CUSTOM_BÄ"})
            assert tuple(found) == ("CUSTOM_BÄ", None, NOW)
            assert not named.rows(connection, {"name": "%(name)s"})
            ((total, ratio),) = stocked.rows(connection, {})
            assert (total, ratio, type(ratio)) == (8, 1.0, float)


def test_each_is_counted_within_a_transaction_as_well(database):
    named = Prepared(NAMED)
    database.tally.reset()
    for _ in range(2):
        with database.read() as connection:
            named.rows(connection, {"name": "CUSTOM_A"})
        database.write(lambda connection: named.rows(connection, {"name": "CUSTOM_A"}))
    assert database.tally.statements == 4


def test_what_was_written_before_in_a_transaction_is_seen(database):
    named = Prepared(NAMED)

    def work(connection):
        before = named.rows(connection, {"name": "CUSTOM_A"})
        connection.execute(insert(traits), {"name": "CUSTOM_A"})
        return len(before), len(named.rows(connection, {"name": "CUSTOM_A"}))

    with database.read() as connection:
        assert not named.rows(connection, {"name": "CUSTOM_A"})
    assert database.write(work) == (0, 1)


def test_listeners_of_an_engine_see_it(database):
    named, seen = Prepared(NAMED), []
    for _ in range(2):
        with database.read() as connection:
            named.rows(connection, {"name": "CUSTOM_A"})
    event.listen(database.reader, "before_cursor_execute", lambda *given: seen.append(given[2]))
    with database.read() as connection:
        named.rows(connection, {"name": "CUSTOM_A"})
    assert [statement.split()[0] for statement in seen] == ["SELECT"]


def test_a_statement_that_fails_raises_what_sqlalchemy_raises(opened):
    """The second time it is the driver that is asked."""
    database = opened()
    which = table("only_later", column("id"))
    asked = Prepared(select(which.c.id))
    with database.read() as connection:
        connection.execute(text("CREATE TEMPORARY TABLE only_later (id INTEGER)"))
        assert not asked.rows(connection, {})
        connection.execute(text("DROP TABLE only_later"))
        for _ in range(2):
            with pytest.raises(ProgrammingError) as failure:
                asked.rows(connection, {})
            assert "only_later" in failure.value.statement
            assert not failure.value.connection_invalidated
        assert connection.scalar(text("SELECT 1")) == 1


def test_a_connection_that_is_lost_is_replaced(opened):
    database, other = opened(), opened()
    number, kill = KILLED[database.url.get_backend_name()]
    named = Prepared(NAMED)
    with database.read() as connection:
        named.rows(connection, {"name": "CUSTOM_A"})
        own = connection.scalar(text(number))
        with other.read() as killer:
            killer.exec_driver_sql(kill.format(own))
        with pytest.raises(OperationalError) as failure:
            named.rows(connection, {"name": "CUSTOM_A"})
        assert failure.value.connection_invalidated
    with database.read() as connection:
        assert not named.rows(connection, {"name": "CUSTOM_A"})


def test_one_that_takes_too_long_is_unavailable(opened):
    database = opened(placement_database__read_timeout=1)
    slow = SLOW[database.url.get_backend_name()]
    which = table("slow_or_not", column("id"))
    asked = Prepared(select(which.c.id, literal_column(slow)))
    with database.read() as connection:
        connection.execute(text("CREATE TEMPORARY TABLE slow_or_not (id INTEGER)"))
        assert not asked.rows(connection, {})
        connection.execute(text("INSERT INTO slow_or_not VALUES (1)"))
        with pytest.raises(Unavailable, match="read_timeout"), translated():
            asked.rows(connection, {})


def test_mariadb_reads_the_words_of_a_statement_once_for_each_connection(mysql_server):
    made = Database(make_settings(mysql_server))
    named = Prepared(NAMED)
    with made.read() as connection:
        if not connection.dialect.is_mariadb:
            pytest.skip("MySQL executes with variables alone")
        before = _executed(connection)
        for name in ("CUSTOM_A", "CUSTOM_%", "CUSTOM_'\\", "CUSTOM_?"):
            assert not named.rows(connection, {"name": name})
        counts = _executed(connection) - before
    made.dispose()
    assert counts == {"Com_prepare_sql": 1, "Com_execute_sql": 3}


def _executed(connection):
    shown = connection.execute(text("SHOW SESSION STATUS LIKE 'Com_%_sql'"))
    return Counter({name: int(value) for name, value in shown})


def test_a_statement_that_mariadb_does_not_prepare_is_sent_as_it_is(mysql_server):
    made = Database(make_settings(mysql_server))
    joined = Prepared(select(text("GROUP_CONCAT(name SEPARATOR :mark)")).select_from(traits))
    with made.read() as connection:
        for mark in ("|", "?", "%"):
            ((names,),) = joined.rows(connection, {"mark": mark})
            assert names.count(mark) > 1
    made.dispose()


@pytest.mark.parametrize("name", ["CUSTOM_BÄ", "", "'; --", "%(name)s", "$1", "a\\b"])
def test_any_text_is_a_parameter_within_and_outside_of_a_transaction(opened, name):
    database = opened()
    said = table("said", column("it"))
    asked = Prepared(select(said.c.it).where(said.c.it == bindparam("it", type_=String())))

    def found(connection):
        connection.execute(text("CREATE TEMPORARY TABLE said (it TEXT)"))
        connection.execute(text("INSERT INTO said VALUES (:it)"), {"it": name})
        return [tuple(row) for _ in range(2) for row in asked.rows(connection, {"it": name})]

    assert database.write(found) == [(name,), (name,)]
    with database.read() as connection:
        assert found(connection) == [(name,), (name,)]


def test_a_text_that_postgresql_cannot_keep_is_refused_and_not_cut(postgresql_server):
    database = Database(make_settings(postgresql_server))
    named = Prepared(NAMED)
    try:
        with database.read() as connection:
            named.rows(connection, {"name": "CUSTOM_A"})
            with pytest.raises(DataError, match="NUL"):
                named.rows(connection, {"name": "CUSTOM_A\0B"})
    finally:
        database.dispose()


def test_a_statement_that_fails_leaves_the_connection_in_use(opened):
    database = opened()
    zero = Prepared(select(literal_column("1") / bindparam("by", type_=Integer())))
    with database.read() as connection:
        assert len(zero.rows(connection, {"by": 1})) == 1
        if connection.dialect.name == "postgresql":
            with pytest.raises(DataError, match="division by zero"):
                zero.rows(connection, {"by": 0})
        assert len(zero.rows(connection, {"by": 2})) == 1


def test_what_a_rollback_deallocates_is_prepared_again(opened):
    database = opened()
    named = Prepared(NAMED)
    for _ in range(3):
        with database.read() as connection:
            assert not named.rows(connection, {"name": "CUSTOM_A"})
            for _ in range(7):  # so often that psycopg prepares it, too
                connection.exec_driver_sql("SELECT 1")
        with database.snapshot() as connection:
            assert not named.rows(connection, {"name": "CUSTOM_A"})
