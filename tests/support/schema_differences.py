# SPDX-License-Identifier: Apache-2.0
"""Differences between a database and the tables of the package."""

from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext

from placement_sched.db.migrate import VERSION_TABLE
from placement_sched.db.tables import metadata
from placement_sched.db.transaction import Database

#: Indexes of a single kind of database.
INDEXES_OF_ONE_DATABASE = {"sched_allocations_consumer_id_idx": "postgresql"}


def find_schema_differences(database: Database) -> list[object]:
    """Return the differences between the database and ``db/tables.py`` that alembic reports."""
    kind = database.url.get_backend_name()
    options = {
        "compare_type": True,
        "compare_server_default": True,
        "include_object": lambda _object, name, _type, _reflected, _to: (
            name != VERSION_TABLE and INDEXES_OF_ONE_DATABASE.get(name, kind) == kind
        ),
    }
    with database.read() as connection:
        context = MigrationContext.configure(connection, opts=options)
        return compare_metadata(context, metadata)
