"""Our connections to MariaDB give what PyMySQL's own give."""

import pymysql
import pytest
from pymysql.connections import MAX_PACKET_LEN
from pymysql.constants import COMMAND, CR
from pymysql.err import MySQLError, OperationalError
from pymysql.protocol import MysqlPacket
from sqlalchemy.engine import make_url

from placement_sched.db.mariadb_rows import QuickConnection, _Result
from placement_sched.db.transaction import Database
from tests.conftest import make_settings

#: The packet that says that an answer is over.
ENDING = b"\xfe\x00\x00\x02\x00"
EVERY_TYPE = """
    SELECT 1 AS number, -9223372036854775808 AS longest, 18446744073709551615 AS unsigned_,
    NULL AS nothing, CAST(1.9 AS FLOAT) AS single, 1.9e0 AS double_, 1.90 AS decimal_,
    'äöü 💡' AS text_, '' AS empty, CAST('äöü' AS BINARY) AS bytes_, x'00ff' AS more_bytes,
    b'101' AS bits, JSON_ARRAY(1, 'a', NULL) AS json_, REPEAT('x', 250) AS longest_short,
    REPEAT('x', 251) AS short_, REPEAT('x', 70000) AS long_, CAST('2025-02-28' AS DATE) AS date_,
    CAST('2025-02-28 01:02:03' AS DATETIME) AS moment, CAST('-01:02:03' AS TIME) AS lapse,
    CAST('2025-02-28 01:02:03.25' AS DATETIME(2)) AS exact, CAST('2025-01-01' AS CHAR) AS chars,
    YEAR('2025-01-01') AS year_
"""
QUESTIONS = {
    "every type": EVERY_TYPE,
    "no row": "SELECT 1 AS one, 'a' AS letter FROM (SELECT 1) AS nothing WHERE 1 = 0",
    "many rows": "SELECT seq, seq % 3 = 0 AS third, REPEAT('y', seq % 300) FROM seq_1_to_2000",
    "no answer": "SET @x = 1",
}


@pytest.fixture
def connect(mysql_server):
    """A function that connects by a class as an engine does."""
    made = []
    url = make_url(mysql_server)

    def connect(kind, **options):
        made.append(
            kind(
                host=url.host,
                port=url.port or 3306,
                user=url.username,
                password=url.password or "",
                database=url.database,
                charset="utf8mb4",
                ssl_disabled=True,
                **options,
            )
        )
        return made[-1]

    yield connect
    for connection in made:
        if connection.open:
            connection.close()


def told(connection, question):
    """Return all that a cursor tells of an answer."""
    with connection.cursor() as cursor:
        number = cursor.execute(question)
        return number, cursor.rowcount, cursor.lastrowid, cursor.description, cursor.fetchall()


@pytest.mark.parametrize("question", QUESTIONS.values(), ids=QUESTIONS)
def test_an_answer_is_the_same(connect, question):
    expected = told(connect(pymysql.connections.Connection), question)
    ours = connect(QuickConnection)
    # Again, with what is known of the columns then.
    assert [told(ours, question) for _ in range(2)] == [expected, expected]


def test_so_it_is_where_texts_are_left_as_bytes(connect):
    kinds = (pymysql.connections.Connection, QuickConnection)
    question = "SELECT 'ä', 1, x'00', CAST('2025-02-28 01:02:03' AS DATETIME)"
    one, other = (told(connect(kind, use_unicode=False), question) for kind in kinds)
    assert one == other


def test_a_time_of_no_calendar_is_the_same(connect):
    question = "SELECT CAST('0000-00-00 00:00:00' AS DATETIME) AS never"
    kinds = (pymysql.connections.Connection, QuickConnection)
    one, other = (told(connect(kind, sql_mode=""), question) for kind in kinds)
    assert one == other


@pytest.mark.parametrize("more", [-8, -1, 0, 1])
def test_a_row_of_more_than_one_packet_is_whole(connect, more):
    # A part before and after it, each of a length below MariaDB's own limit for one value.
    half = MAX_PACKET_LEN // 2
    row = ("z" * half, "y" * (half + more), 7)
    question = f"SELECT REPEAT('z', {half}), REPEAT('y', {half + more}), 7"
    assert told(connect(QuickConnection), question)[-1] == (row,)


def test_an_error_amid_the_rows_leaves_the_connection_as_it_was(connect):
    ours = connect(QuickConnection)
    late = "SET STATEMENT max_statement_time = 0.05 FOR SELECT seq, SLEEP(0.01) FROM seq_1_to_1000"
    for question in (late, "SELECT * FROM no_such_table"):
        with pytest.raises(MySQLError):
            told(ours, question)
        assert told(ours, "SELECT 2")[-1] == ((2,),)


def test_a_lost_connection_is_reported_as_pymysql_does(connect):
    ours, other = connect(QuickConnection), connect(QuickConnection)
    number = told(ours, "SELECT CONNECTION_ID()")[-1][0][0]
    ours._execute_command(COMMAND.COM_QUERY, "SELECT seq, SLEEP(0.01) FROM seq_1_to_3000")
    told(other, f"KILL {number}")
    with pytest.raises(OperationalError) as failure:
        ours._read_query_result()
    assert failure.value.args[0] in {CR.CR_SERVER_LOST, 1317, 1927}


def test_an_engine_connects_so(mysql_server):
    database = Database(make_settings(mysql_server))
    with database.read() as connection:
        assert isinstance(connection.connection.driver_connection, QuickConnection)
    database.dispose()


def test_to_roll_back_on_a_lost_connection_is_no_failure(connect):
    ours, other = connect(QuickConnection), connect(QuickConnection)
    number = told(ours, "SELECT CONNECTION_ID()")[-1][0][0]
    told(other, f"KILL {number}")
    ours.rollback()
    assert not ours.open
    ours.rollback()


def test_an_answer_that_ends_before_it_begins_is_of_a_lost_connection(connect):
    ours = connect(QuickConnection)
    ending = MysqlPacket(ENDING, "utf8")
    with pytest.raises(OperationalError, match="Lost connection"):
        _Result(ours)._read_result_packet(ending)
    assert not ours.open


def test_an_answer_that_ends_amid_its_columns_is_of_a_lost_connection(connect, monkeypatch):
    ours = connect(QuickConnection)
    monkeypatch.setattr(ours, "packet", lambda: ENDING)
    with pytest.raises(OperationalError, match="Lost connection"):
        told(ours, "SELECT 1, 2")
    assert not ours.open


def test_a_second_end_of_an_answer_is_not_read_as_the_next_one(connect):
    ours = connect(QuickConnection)
    ours._execute_command(COMMAND.COM_QUERY, "SELECT 1")
    for _ in range(2):  # what follows has the numbers of this answer
        ours.packet()
    with pytest.raises(OperationalError, match="Lost connection"):
        told(ours, "SELECT 2")
    assert not ours.open
