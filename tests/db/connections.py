# SPDX-License-Identifier: Apache-2.0
"""Connections and queries of both engines."""

from placement_sched.db.transaction import Database


def query_both_engines(database: Database, sql: str) -> object:
    """Return the value of a query, which must be equal for reads and writes."""
    with database.read() as connection:
        read = connection.exec_driver_sql(sql).scalar()
    assert database.write(lambda connection: connection.exec_driver_sql(sql).scalar()) == read
    return read


def get_driver_connection(connection):
    return connection.connection.driver_connection
