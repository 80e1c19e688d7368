# SPDX-License-Identifier: Apache-2.0
"""Values of load and reports of queries."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import case, delete, func, not_, or_, select

from placement_sched.db import sql
from placement_sched.db.tables import compute_nodes, instances, load_reports, load_values
from placement_sched.db.transaction import Connection
from placement_sched.extensions.load.values import LoadQuery, LoadValue, QueryReport, UnmatchedLabel
from placement_sched.model.document import to_storable

_VALUES, _REPORTS = load_values.c, load_reports.c
_CHANGING = ("state", "value", "smoothed", "measured_at")
_KEY = ("kind", "query", "subject")


def map_host_labels(connection: Connection) -> dict[str, str]:
    """Map the names of hosts and of their hypervisors to hosts.

    A name that is both a host and a hypervisor of another host means the host.
    """
    node = compute_nodes.c
    rows = connection.execute(select(node.hypervisor_hostname, node.host)).all()
    return {row.hypervisor_hostname: row.host for row in rows} | {
        row.host: row.host for row in rows
    }


def list_servers(connection: Connection, host: str | None = None) -> list[str]:
    """Return the uuids of the servers of a host, or of all hosts, sorted."""
    query = select(instances.c.uuid).order_by(instances.c.uuid)
    if host is not None:
        query = query.where(instances.c.host == host)
    return list(connection.scalars(query))


def record_values(connection: Connection, query: LoadQuery, values: Iterable[LoadValue]) -> None:
    """Replace the values of a query for these subjects."""
    key = {"kind": query.kind, "query": query.name}
    rows = [{**key, **asdict(value)} for value in values]
    sql.insert_or_update(connection, load_values, rows, key=_KEY, changing=_CHANGING)


def record_report(connection: Connection, query: LoadQuery, report: QueryReport) -> None:
    """Replace the report of a query."""
    document = to_storable(asdict(report))
    row = {
        "kind": query.kind,
        "query": query.name,
        "report": document,
        "collected_at": report.collected_at,
    }
    changing = ("report", "collected_at")
    sql.insert_or_update(connection, load_reports, [row], key=_KEY[:2], changing=changing)


def read_values(
    connection: Connection, kind: str, subjects: Collection[str] | None = None, name: str = ""
) -> dict[str, dict[str, LoadValue]]:
    """Map queries and subjects to values, of all subjects with None.

    ``name`` selects a single query.
    """
    query = select(_VALUES.query, _VALUES.subject, *(_VALUES[key] for key in _CHANGING))
    query = query.where(_VALUES.kind == kind)
    if name:
        query = query.where(_VALUES.query == name)
    if subjects is None:
        rows: Iterable[Any] = connection.execute(query).all()
    else:
        rows = sql.select_in_batches(connection, query, _VALUES.subject, subjects)
    values: dict[str, dict[str, LoadValue]] = {}
    for row in rows:
        values.setdefault(row.query, {})[row.subject] = LoadValue(*row[1:])
    return values


def read_reports(connection: Connection) -> dict[tuple[str, str], QueryReport]:
    """Map kinds and names of queries to their last reports."""
    return {
        (row.kind, row.query): _build_report(row)
        for row in connection.execute(select(load_reports))
    }


def read_ages(
    connection: Connection, before: datetime
) -> dict[tuple[str, str], tuple[datetime, datetime, int]]:
    """Map kinds and names of queries to the times of their values.

    These are the first time, the last time, and the number of values before a time.
    """
    moment = _VALUES.measured_at
    old_count = func.sum(case((moment < before, 1), else_=0))
    query = select(_VALUES.kind, _VALUES.query, func.min(moment), func.max(moment), old_count)
    query = query.group_by(_VALUES.kind, _VALUES.query)
    return {
        (kind, name): (oldest, youngest, int(count))
        for kind, name, oldest, youngest, count in connection.execute(query)
    }


def purge(connection: Connection, queries: Collection[LoadQuery], before: datetime) -> None:
    """Delete values older than a time, and the rows of other queries."""
    for table in (load_values, load_reports):
        columns = table.c
        is_used = or_(
            *((columns.kind == query.kind) & (columns.query == query.name) for query in queries)
        )
        connection.execute(delete(table).where(not_(is_used)))
    connection.execute(delete(load_values).where(_VALUES.measured_at < before))


def _build_report(row: Any) -> QueryReport:
    document = orjson.loads(row.report)
    document["unmatched_labels"] = [UnmatchedLabel(**each) for each in document["unmatched_labels"]]
    return QueryReport(**{**document, "collected_at": row.collected_at})
