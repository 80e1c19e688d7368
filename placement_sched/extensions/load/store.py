# SPDX-License-Identifier: Apache-2.0
"""Values of load and reports of queries."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from datetime import datetime
from typing import Any

import orjson
from sqlalchemy import case, delete, func, select

from placement_sched.db import sql
from placement_sched.db.tables import compute_nodes, instances, load_reports, load_values
from placement_sched.db.transaction import Connection
from placement_sched.extensions.load.values import LoadQuery, LoadValue, QueryReport, Times
from placement_sched.model.document import to_storable

_VALUES = load_values.c
_CHANGING = ("state", "value", "smoothed", "measured_at")
_KEY = ("kind", "query", "subject")


def map_host_labels(connection: Connection) -> dict[str, str]:
    """Map the names of hosts and of their hypervisors to hosts.

    A name that is both a host and a hypervisor of another host means the host.
    """
    node = compute_nodes.c
    rows = connection.execute(select(node.hypervisor_hostname, node.host)).all()
    return dict(map(tuple, rows)) | {host: host for _, host in rows}


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
    content = {"report": to_storable(asdict(report)), "collected_at": report.collected_at}
    row = {"kind": query.kind, "query": query.name, **content}
    sql.insert_or_update(connection, load_reports, [row], key=_KEY[:2], changing=tuple(content))


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
        (row.kind, row.query): QueryReport(
            **{**orjson.loads(row.report), "collected_at": row.collected_at}
        )
        for row in connection.execute(select(load_reports))
    }


def read_current_reports(
    connection: Connection, queries: Collection[LoadQuery]
) -> dict[tuple[str, str], QueryReport]:
    """Map queries to their last reports, except reports of other PromQL.

    A server with another configuration may have sent another query of the same name.
    """
    reports = read_reports(connection)
    return {
        query.key: report
        for query in queries
        if (report := reports.get(query.key)) and report.expression == query.expression
    }


def read_times(connection: Connection, before: datetime) -> dict[tuple[str, str], Times]:
    """Map kinds and names of queries to the times of their values."""
    moment = _VALUES.measured_at
    old_count = func.sum(case((moment < before, 1), else_=0))
    query = select(_VALUES.kind, _VALUES.query, func.min(moment), func.max(moment), old_count)
    query = query.group_by(_VALUES.kind, _VALUES.query)
    return {
        (kind, name): (oldest, youngest, int(count))
        for kind, name, oldest, youngest, count in connection.execute(query)
    }


def purge(connection: Connection, queries: Collection[LoadQuery], before: datetime) -> None:
    """Delete values older than a time, and rows of removed or changed queries."""
    expressions = {query.key: query.expression for query in queries}
    for (kind, name), report in read_reports(connection).items():
        if expressions.get((kind, name)) != report.expression:
            for table in (load_values, load_reports):
                condition = (table.c.kind == kind) & (table.c.query == name)
                connection.execute(delete(table).where(condition))
    connection.execute(delete(load_values).where(_VALUES.measured_at < before))
