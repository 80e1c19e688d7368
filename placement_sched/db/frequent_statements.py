"""Statements of every request, which PostgreSQL keeps prepared and SQLAlchemy need not wrap.

SQLAlchemy takes longer for the result of a statement that finds a few rows than psycopg for the
statement, and PostgreSQL takes longer to plan it than to run it (doc/decisions/0014). They are
prepared only in a session that belongs to the connection: a pooler may give each statement another
session. Everything else, and whatever fails, is left to SQLAlchemy.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Select, TextClause

from placement_sched.db.drivers import PostgreSQLConnection

_ECHO = logging.getLogger("sqlalchemy.engine")
#: A statement has this where SQLAlchemy writes a list of values of any length.
_LISTS = "POSTCOMPILE"


class FrequentStatement:
    """A statement whose parameters are single texts and numbers, such as a uuid."""

    def __init__(self, statement: Select[Any] | TextClause) -> None:
        self.statement: Any = statement
        self._compiled: tuple[str, Mapping[str, Any]] | None = None

    def rows(self, connection: Connection, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return all rows, whose values are to be taken by position; raises as SQLAlchemy does."""
        if _may_be_prepared(connection):
            if self._compiled is None:
                compiled = self.statement.compile(dialect=connection.dialect)
                self._compiled = str(compiled), compiled.params
            text, constants = self._compiled
            if _LISTS not in text:
                # Whatever fails, fails once more as SQLAlchemy raises it.
                with suppress(psycopg.Error):
                    return _prepared(connection, text, {**constants, **parameters})
        return connection.execute(self.statement, parameters).all()


def _may_be_prepared(connection: Connection) -> bool:
    driver = connection.connection.driver_connection
    return (
        isinstance(driver, PostgreSQLConnection)
        and driver.has_own_session
        and driver.info.transaction_status == TransactionStatus.IDLE
        and not (connection._has_events or connection.engine._has_events)  # noqa: SLF001 - decision 12
        and not _ECHO.isEnabledFor(logging.INFO)
    )


def _prepared(
    connection: Connection, text: str, parameters: Mapping[str, Any]
) -> Sequence[tuple[Any, ...]]:
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor:
        cursor.execute(text, parameters, prepare=True)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    for count in connection.dialect.dispatch.do_execute:
        count(None, text, parameters, None)
    return rows
