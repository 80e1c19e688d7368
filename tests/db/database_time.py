# SPDX-License-Identifier: Apache-2.0
"""The clock of a database."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy import Connection

from placement_sched.db.tables import provider_changes

_NOW_SQL = {
    "postgresql": "timezone('UTC', clock_timestamp())",
    "sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')",
    "mysql": "UTC_TIMESTAMP(6)",
}


def read_database_time(connection: Connection) -> datetime:
    """Return the current time of the database, in UTC."""
    kind = provider_changes.c.created_at.type
    return connection.scalar(sa.select(sa.literal_column(_NOW_SQL[connection.dialect.name], kind)))
