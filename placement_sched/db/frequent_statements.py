# SPDX-License-Identifier: Apache-2.0
"""Frequent SQL statements, passed to the driver without SQLAlchemy.

For a statement that returns a few rows, SQLAlchemy's result takes more time than the driver's call,
and PostgreSQL's planning takes more time than the execution (doc/decisions/0008). Therefore,
PostgreSQL also prepares these statements. It prepares them only in a session that belongs to the
connection, because a pooler may give each statement another session. SQLAlchemy executes all other
statements, and repeats a failed statement to raise its own exception.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sqlalchemy import Connection, Select, TextClause

_ECHO = logging.getLogger("sqlalchemy.engine")
#: SQLAlchemy's marker for a list of values, whose length is known only at execution.
_LIST_MARKER = "POSTCOMPILE"


class FrequentStatement:
    """A statement whose parameters are single texts and numbers, such as a uuid."""

    def __init__(self, statement: Select[Any] | TextClause) -> None:
        self.statement: Any = statement
        self._compiled: tuple[str, Mapping[str, Any]] | None = None

    def rows(self, connection: Connection, parameters: Mapping[str, Any]) -> Sequence[Any]:
        """Return all rows, with values by position.

        Raises the same exceptions as SQLAlchemy.
        """
        if (options := _driver_options(connection)) is not None:
            if self._compiled is None:
                compiled = self.statement.compile(dialect=connection.dialect)
                self._compiled = str(compiled), compiled.params
            text, constants = self._compiled
            if _LIST_MARKER not in text:
                # SQLAlchemy sends a failed statement again and raises its own exception.
                with suppress(connection.dialect.loaded_dbapi.Error):
                    return _send(connection, text, {**constants, **parameters}, options)
        return connection.execute(self.statement, parameters).all()


def _driver_options(connection: Connection) -> Mapping[str, bool] | None:
    """Return the options of the driver's ``execute``, or None if SQLAlchemy must be used."""
    driver: Any = connection.connection.driver_connection
    if (
        connection._has_events  # noqa: SLF001 - decision 6
        or connection.engine._has_events  # noqa: SLF001
        or _ECHO.isEnabledFor(logging.INFO)
    ):
        return None
    match connection.dialect.name:
        case "postgresql":
            can_prepare = getattr(driver, "has_own_session", False) and driver.is_idle
            return {"prepare": True} if can_prepare else None
        case "mysql" | "mariadb" if driver.get_autocommit():
            return {}
    return None


def _send(
    connection: Connection, text: str, parameters: Mapping[str, Any], options: Mapping[str, bool]
) -> Sequence[tuple[Any, ...]]:
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor:
        cursor.execute(text, parameters, **options)
        rows: Sequence[tuple[Any, ...]] = cursor.fetchall()
    for count in connection.dialect.dispatch.do_execute:
        count(None, text, parameters, None)
    return rows
