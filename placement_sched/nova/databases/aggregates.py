# SPDX-License-Identifier: Apache-2.0
"""Host aggregates in nova's API database."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, Select, Table, func, literal, select, union_all

from placement_sched.db import sql
from placement_sched.model.aggregates import HostAggregate
from placement_sched.nova.databases.tables import aggregate_hosts, aggregate_metadata, aggregates

_AGGREGATES = aggregates.c
_TABLES = (aggregates, aggregate_hosts, aggregate_metadata)

#: Changes whenever a row of some tables is added, removed or updated: the number of rows of each
#: table, its highest id and its latest ``updated_at``.
TablesFingerprint = tuple[Any, ...]


def fingerprint(connection: Connection, tables: Collection[Table] = _TABLES) -> TablesFingerprint:
    """Return the fingerprint of tables, by default of aggregates, in a single statement."""
    queries = (
        select(literal(index), func.count(), func.max(table.c.id), func.max(table.c.updated_at))
        for index, table in enumerate(tables)
    )
    return tuple(sorted(map(tuple, connection.execute(union_all(*queries)).all())))


def host_aggregates(
    connection: Connection, ids: Collection[int] | None = None
) -> tuple[HostAggregate, ...]:
    """Return the existing aggregates among ``ids`` (None: all), sorted by id."""

    def rows(query: Select[Any], key: Any) -> list[Any]:
        query = query.order_by(key)
        if ids is None:
            return list(connection.execute(query).all())
        return list(sql.select_in_batches(connection, query, key, ids))

    names = ("id", "uuid", "name", "created_at", "updated_at")
    hosts, tags = aggregate_hosts.c, aggregate_metadata.c
    members = sql.grouped(rows(select(hosts.aggregate_id, hosts.host), hosts.aggregate_id))
    values = sql.nested(rows(select(tags.aggregate_id, tags.key, tags.value), tags.aggregate_id))
    aggregate_rows = rows(select(*(_AGGREGATES[name] for name in names)), _AGGREGATES.id)
    return tuple(
        HostAggregate(
            id=row.id,
            uuid=row.uuid,
            name=row.name,
            hosts=frozenset(members.get(row.id, ())),
            metadata=dict(sorted(values.get(row.id, {}).items())),
            created_at=None if row.created_at is None else row.created_at.replace(microsecond=0),
            updated_at=None if row.updated_at is None else row.updated_at.replace(microsecond=0),
        )
        for row in aggregate_rows
    )
