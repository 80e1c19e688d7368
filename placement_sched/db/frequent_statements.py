"""Statements of every request, sent by the driver alone and kept prepared by PostgreSQL.

SQLAlchemy takes longer for the result of a statement that finds a few rows than the driver for the
statement, and PostgreSQL takes longer to plan it than to run it (doc/decisions/0014). They are
prepared only in a session that belongs to the connection: a pooler may give each statement another
session. Everything else, and whatever fails, is left to SQLAlchemy.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psycopg
import pymysql
from psycopg.pq import TransactionStatus
from sqlalchemy import Connection, Select, TextClause

from placement_sched.db.engine import PostgreSQLConnection

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
        if (options := _options_of_driver(connection)) is not None:
            if self._compiled is None:
                compiled = self.statement.compile(dialect=connection.dialect)
                self._compiled = str(compiled), compiled.params
            text, constants = self._compiled
            if _LISTS not in text:
                # Whatever fails, fails once more as SQLAlchemy raises it.
                with suppress(psycopg.Error, pymysql.Error):
                    return _sent(connection, text, {**constants, **parameters}, options)
        return connection.execute(self.statement, parameters).all()


def _options_of_driver(connection: Connection) -> Mapping[str, bool] | None:
    """Return the options of the driver's ``execute``; None if SQLAlchemy has to send it."""
    driver: Any = connection.connection.driver_connection
    if (
        connection._has_events  # noqa: SLF001 - decision 12
        or connection.engine._has_events  # noqa: SLF001
        or _ECHO.isEnabledFor(logging.INFO)
    ):
        return None
    if isinstance(driver, PostgreSQLConnection):
        is_idle = driver.info.transaction_status == TransactionStatus.IDLE
        return {"prepare": True} if is_idle and driver.has_own_session else None
    is_mariadb = isinstance(driver, pymysql.connections.Connection)
    return {} if is_mariadb and driver.get_autocommit() else None


def _sent(
    connection: Connection, text: str, parameters: Mapping[str, Any], options: Mapping[str, bool]
) -> Sequence[tuple[Any, ...]]:
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor:
        cursor.execute(text, parameters, **options)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    for count in connection.dialect.dispatch.do_execute:
        count(None, text, parameters, None)
    return rows
