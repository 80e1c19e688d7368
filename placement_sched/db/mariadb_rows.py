"""Connections to MariaDB and MySQL that read rows several times as quickly as PyMySQL's own do.

PyMySQL makes an object of each packet, takes each value out of it by several calls and reads times
by a regular expression: of a request that reads forty rows that was half of the time. Here a row is
cut in one loop, and what a column is like is kept for the next statement that selects it. The
values are those that PyMySQL would give, by its own converters; all but the columns and rows of an
answer is left to it (doc/decisions/0014).
"""

import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, NamedTuple, NoReturn

from pymysql.connections import MAX_PACKET_LEN, TEXT_TYPES, Connection, MySQLResult
from pymysql.constants import CLIENT, CR, ER, FIELD_TYPE
from pymysql.converters import through
from pymysql.err import InterfaceError, InternalError, MySQLError, OperationalError
from pymysql.protocol import FieldDescriptorPacket, MysqlPacket
from sqlalchemy import Engine, ExceptionContext, event

_Reader = Callable[[bytes], Any]

#: The most columns that a connection knows; this service selects a few hundred.
_COLUMNS = 2000
_TIMES = {FIELD_TYPE.DATETIME, FIELD_TYPE.TIMESTAMP}
_BINARY = 63  # the number of the character set of bytes that are not text
#: How a packet begins that is not a row: an error, or, being short, the end.
_ERROR, _END, _SHORT = 0xFF, 0xFE, 9
#: How a value begins: with its length, with what stands for null, or with how wide the length is.
_LONGEST, _NULL, _WIDTHS = 250, 251, {252: 2, 253: 3, 254: 8}
#: A node of a Galera cluster that does not see most of the others, or has not caught up with them.
NO_QUORUM = 1047
#: A database whose machine has vanished says nothing. It is asked for a sign of life after 5 s,
#: three times, and given up after 10 s without an answer: names of libpq, and of sockets.
SIGNS_OF_LIFE = {
    "keepalives_idle": ("TCP_KEEPIDLE", 5),
    "keepalives_interval": ("TCP_KEEPINTVL", 2),
    "keepalives_count": ("TCP_KEEPCNT", 3),
    "tcp_user_timeout": ("TCP_USER_TIMEOUT", 10_000),
}
#: What says that a statement is not prepared here: it cannot be, it has parameters where none may
#: be, or there are too many.
_NOT_PREPARED = {ER.UNSUPPORTED_PS, ER.PARSE_ERROR, ER.MAX_PREPARED_STMT_COUNT_REACHED}
_PARAMETER = re.compile(r"%\(\w+\)s")
_LOST = "Lost connection to MySQL server during query"


def read_quickly(engine: Engine, within: float | None = None, *, marks: bool = False) -> None:
    """Let an engine make its connections to MariaDB or MySQL here.

    Each is given up where the database says nothing ``within`` so many seconds. With ``marks``
    COMMIT may be sent together with another statement.
    """

    @event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, given: Any, named: Any) -> "QuickConnection":
        if marks:
            named["client_flag"] = named.get("client_flag", 0) | CLIENT.MULTI_STATEMENTS
        named = {"read_timeout": within, "write_timeout": within, **named}
        return QuickConnection(*given, **named)


def leave_nodes_without_quorum(engine: Engine) -> None:
    """Take a connection for lost whose node of a Galera cluster does not serve any more.

    What was at work there is done again on a new one, which a proxy may lead to another node.
    """

    @event.listens_for(engine, "handle_error")
    def note(context: ExceptionContext) -> None:
        if context.original_exception.args[:1] == (NO_QUORUM,):
            context.is_disconnect = True


def ask_for_signs_of_life(connection: Any) -> None:
    """Let a connection over TCP be given up where the machine of the database has vanished."""
    connected = connection._sock  # noqa: SLF001 - PyMySQL has no option for it
    if connected.family == socket.AF_UNIX:
        return
    connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, number in SIGNS_OF_LIFE.values():
        if hasattr(socket, option):
            connected.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), number)


class _Column(NamedTuple):
    """What DB-API shows of a column, and what makes a value of its bytes."""

    description: tuple[Any, ...]
    read: _Reader


class QuickConnection(Connection):
    """PyMySQL's connection, whose answers are read by :class:`_Result`."""

    # What PyMySQL has and its type stubs do not.
    _result: Any
    _rfile: Any
    _next_seq_id: int
    _force_close: Callable[[], None]
    _read_timeout: float | None
    _write_timeout: float | None
    connect_timeout: float | None
    host: str

    def __init__(self, *given: Any, **named: Any) -> None:
        self.columns: dict[bytes, _Column] = {}
        self._executions: dict[str, str] = {}
        #: What the next COMMIT is sent with, where the transaction has written.
        self.commit_with: str | None = None
        self._has_written = False
        super().__init__(*given, **named)

    @property
    def answers_within(self) -> float | None:
        """Seconds of silence after which the connection is given up; None for any number."""
        return self._read_timeout

    @answers_within.setter
    def answers_within(self, seconds: float | None) -> None:
        self._read_timeout = self._write_timeout = seconds

    def connect(self, sock: Any = None) -> None:
        """Connect as PyMySQL does, which itself would wait for the server's greeting for ever."""
        within, self.answers_within = self.answers_within, self.connect_timeout
        try:
            super().connect(sock)
        except OperationalError as failure:
            if not isinstance(failure.__context__, TimeoutError):
                raise
            said = f"Can't connect to MySQL server on {self.host!r} ({failure.__context__})"
            raise OperationalError(CR.CR_CONN_HOST_ERROR, said) from failure
        finally:
            self.answers_within = within

    def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
        """Return the next packet as PyMySQL does; one out of turn is of a lost connection.

        A Galera node may say twice how a statement ended: by its rows, and by the error of one
        that a change through another node ended. The second is read as the next one's answer.
        """
        try:
            return super()._read_packet(packet_type)  # type: ignore[no-untyped-call]
        except InternalError as failure:
            if self.open:  # the database said so
                raise
            raise OperationalError(CR.CR_SERVER_LOST, f"{_LOST} ({failure})") from failure

    def _read_query_result(self, unbuffered: bool = False) -> Any:
        if unbuffered:
            return super()._read_query_result(unbuffered=True)  # type: ignore[misc]
        self._result = None
        result = _Result(self)
        result.read()
        self._result = result
        if result.server_status is not None:
            self.server_status = result.server_status
        if result.affected_rows and not result.field_count:
            self._has_written = True
        return result.affected_rows

    def commit(self) -> None:
        """Commit the transaction; where it has written, by :attr:`commit_with`, if there is one."""
        query = self.commit_with if self._has_written else None
        self._forget_transaction()
        if query is None:
            super().commit()
            return
        # The parts after one that fails are not run, and the transaction may then still be open.
        try:
            self.query(query)
            while self._result.has_next:
                self.next_result()
        except MySQLError:
            if self.open:
                self.rollback()
            raise

    def rollback(self) -> None:
        """Roll the transaction back; of a connection that is lost the server has done it."""
        self._forget_transaction()
        try:
            super().rollback()
        except (OperationalError, InterfaceError):
            # The pool, which rolls back what it is given back, would log a traceback.
            if self.open:
                raise

    def _forget_transaction(self) -> None:
        self.commit_with = None
        self._has_written = False

    def execution_of(self, text: str) -> str:
        """Return what executes a statement that this connection to MariaDB has prepared.

        ``text`` has its parameters as ``%(name)s``. MariaDB takes as long to read a long statement
        as to find a few rows by it. Where none can be prepared, that is ``text`` itself.
        """
        if (execution := self._executions.get(text)) is None:
            execution = self._executions[text] = self._prepare(text)
        return execution

    def _prepare(self, text: str) -> str:
        name = f"placement_sched_{len(self._executions)}"
        marked = _PARAMETER.sub("?", text).replace("%%", "%")
        with self.cursor() as cursor:
            try:
                cursor.execute(f"PREPARE {name} FROM %s", (marked,))
            except MySQLError as failure:
                # Any other may be of the transaction: on a Galera cluster each statement may be the
                # one that says that a writer on another node has ended it.
                if failure.args[0] not in _NOT_PREPARED:
                    raise
                return text
        parameters = ", ".join(_PARAMETER.findall(text))
        return f"EXECUTE {name} USING {parameters}" if parameters else f"EXECUTE {name}"

    def packet(self) -> bytes:
        """Return the next packet; raise what PyMySQL does where the connection is lost."""
        header = self._rfile.read(4)
        # MariaDB ends its connections with an error of number 0 when it stops.
        if len(header) < 4 or header[3] != self._next_seq_id:
            self._give_up()
        self._next_seq_id = (header[3] + 1) & 0xFF
        length = int.from_bytes(header[:3], "little")
        data: bytes = self._rfile.read(length)
        if len(data) < length:
            self._give_up()
        return data if length < MAX_PACKET_LEN else data + self.packet()

    def refuse_early_end(self) -> NoReturn:
        """Take the connection for lost: an answer ended before all its columns were there.

        A Galera node may say so, instead of an error, where a write of another node has ended the
        statement; nothing follows of which one could know to what it is the answer.
        """
        self._give_up()

    def _give_up(self) -> NoReturn:
        self._force_close()
        raise OperationalError(CR.CR_SERVER_LOST, _LOST)

    @contextmanager
    def closed_by_failure(self) -> Iterator[None]:
        """Close the connection where an answer is not read to its end, unless an error ends it."""
        try:
            yield
        except MySQLError:
            raise
        except OSError as failure:
            self._force_close()
            raise OperationalError(CR.CR_SERVER_LOST, f"{_LOST} ({failure})") from failure
        except BaseException:
            self._force_close()
            raise


class _Result(MySQLResult):
    """One answer."""

    connection: Any
    # What PyMySQL has and its type stubs do not.
    _check_packet_is_eof: Callable[[Any], bool]

    def _read_result_packet(self, first_packet: Any) -> None:
        connection: QuickConnection = self.connection
        if first_packet.is_eof_packet():
            connection.refuse_early_end()
        self.field_count = first_packet.read_length_encoded_integer()
        with connection.closed_by_failure():
            columns = [self._column(connection) for _ in range(self.field_count)]
            connection.packet()  # the end of the columns
            self.description: Any = tuple(column.description for column in columns)
            rows = self._rows(connection, [column.read for column in columns])
        self.rows: Any = tuple(rows)
        self.affected_rows = len(rows)

    def _column(self, connection: QuickConnection) -> _Column:
        packet = connection.packet()
        if (column := connection.columns.get(packet)) is None:
            _refuse_error(packet, connection)
            if packet[0] == _END and len(packet) < _SHORT:
                connection.refuse_early_end()
            field: Any = FieldDescriptorPacket(packet, connection.encoding)
            column = _Column(field.description(), _reader(field, connection))
            if len(connection.columns) >= _COLUMNS:
                connection.columns.clear()
            connection.columns[packet] = column
        return column

    def _rows(self, connection: QuickConnection, readers: list[_Reader]) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        while True:
            packet = connection.packet()
            if packet[0] >= _END:
                _refuse_error(packet, connection)
                if len(packet) < _SHORT:
                    self._check_packet_is_eof(MysqlPacket(packet, connection.encoding))
                    return rows
            rows.append(tuple(_values(packet, readers)))


def _refuse_error(packet: bytes, connection: QuickConnection) -> None:
    """Raise the error that a packet is, if it is one."""
    if packet[0] == _ERROR:
        MysqlPacket(packet, connection.encoding).raise_for_error()


def _values(packet: bytes, readers: list[_Reader]) -> list[Any]:
    """Return the values of a row."""
    values: list[Any] = []
    position = 0
    try:
        for read in readers:
            length = packet[position]
            position += 1
            if length > _LONGEST:
                if length == _NULL:
                    values.append(None)
                    continue
                start, position = position, position + _WIDTHS[length]
                length = int.from_bytes(packet[start:position], "little")
            end = position + length
            values.append(read(packet[position:end]))
            position = end
    except IndexError:  # a row may lack its last columns (PyMySQL 434)
        return values
    return values


def _reader(field: Any, connection: Any) -> _Reader:
    """Return what makes of bytes the value that PyMySQL would give."""
    encoding = _encoding(field, connection)
    convert = connection.decoders.get(field.type_code)
    if encoding is None:
        return convert if convert not in {None, through} else bytes
    if convert in {int, float}:
        reader: _Reader = convert  # which take bytes as well
        return reader
    if convert in {None, through}:
        return bytes.decode if encoding == "utf8" else lambda data: data.decode(encoding)
    if field.type_code in _TIMES:
        return lambda data: _time(data.decode(), convert)
    return lambda data: convert(data.decode(encoding))


def _encoding(field: Any, connection: Any) -> str | None:
    """Return how a column's values are encoded; None where they are bytes."""
    if not connection.use_unicode:
        return None
    if field.type_code == FIELD_TYPE.JSON:
        return str(connection.encoding)
    if field.type_code in TEXT_TYPES:
        return None if field.charsetnr == _BINARY else str(connection.encoding)
    return "ascii"


def _time(text: str, convert: Callable[[str], Any]) -> Any:
    """Return a time; one that no calendar has as PyMySQL's ``convert`` returns it."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return convert(text)
