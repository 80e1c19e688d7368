# SPDX-License-Identifier: Apache-2.0
"""A copy of placement's tables that the change log keeps current."""

from collections import defaultdict

from sqlalchemy import select

from placement_sched.db import tables
from placement_sched.store.placement import change_log

#: Tables with rows of providers, and the column with the provider's id.
PROVIDER_TABLES = {
    tables.resource_providers: "id",
    tables.inventories: "resource_provider_id",
    tables.allocations: "resource_provider_id",
    tables.resource_provider_traits: "resource_provider_id",
    tables.resource_provider_aggregates: "resource_provider_id",
}
NAME_TABLES = (tables.traits, tables.resource_classes, tables.placement_aggregates)


def read_rows_of_providers(connection, providers=None):
    """Return all rows of these providers, or of all providers, by provider id."""
    rows = defaultdict(set)
    for table, column in PROVIDER_TABLES.items():
        query = select(table.c[column], table)
        if providers is not None:
            query = query.where(table.c[column].in_(providers))
        for provider, *values in connection.execute(query):
            rows[provider].add((table.name, *values))
    return dict(rows)


def read_ids_and_names(connection):
    return {
        (table.name, *row)
        for table in NAME_TABLES
        for row in connection.execute(select(table.c.id, table.c[_find_name_column(table)]))
    }


def _find_name_column(table):
    return "uuid" if "uuid" in table.c else "name"


class ChangeLogCopy:
    """The rows of all providers at the last call of :meth:`follow`.

    ``doubts`` counts how often all rows were read again.
    """

    def __init__(self, database):
        self.database = database
        self.doubts = -1
        self.start()

    def start(self):
        """Read all rows."""
        self.doubts += 1
        with self.database.read() as connection:
            self.position = change_log.begin(connection)
            self.rows = read_rows_of_providers(connection)
            self.names = read_ids_and_names(connection)

    def follow(self):
        """Read the changed rows, or all rows if the log has a gap and return the changes."""
        with self.database.read() as connection:
            changes = change_log.read(connection, self.position)
            if not changes.lacks_rows:
                changes = changes.merge(change_log.read_late_rows(connection, changes.position))
            if changes.needs_full_reload or changes.lacks_rows:
                self.start()
                return changes
            if changes.providers:
                for provider in changes.providers:
                    self.rows.pop(provider, None)
                self.rows.update(read_rows_of_providers(connection, changes.providers))
            if changes.names:
                self.names = read_ids_and_names(connection)
        self.position = changes.position
        return changes

    def equals_tables(self):
        """Return whether the copy equals the tables, if no transaction commits during the call."""
        with self.database.read() as connection:
            return (self.rows, self.names) == (
                read_rows_of_providers(connection),
                read_ids_and_names(connection),
            )
