# SPDX-License-Identifier: Apache-2.0
"""Migration environment that uses the connection of ``db/migrate.py``."""

from typing import Any

import sqlalchemy as sa
from alembic import context
from alembic.ddl.mysql import MySQLImpl

from placement_sched.db.collations import find_own_collation
from placement_sched.db.migrate import VERSION_TABLE
from placement_sched.db.tables import metadata


class Impl(MySQLImpl):
    """Creates the tables in the collation of the tables that are there."""

    __dialect__ = "mysql"

    def create_table(self, table: sa.Table, **options: Any) -> None:
        """Create a table, not in the collation that is the database's default now."""
        if collation := find_own_collation(context.get_bind()):
            table.kwargs["mysql_collate"] = collation
        super().create_table(table, **options)


context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=False,
)
context.run_migrations()
