# SPDX-License-Identifier: Apache-2.0
"""JSON of load: queries with their last results, and the values of hosts and servers."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.errors import NotFound
from placement_sched.extensions.load import store
from placement_sched.extensions.load.options import list_queries
from placement_sched.extensions.load.values import (
    HOST,
    MISSING,
    OLD,
    SERVER,
    LoadQuery,
    LoadValue,
    QueryReport,
)
from placement_sched.model.document import Json
from placement_sched.model.names import suggest_name

#: The values of a kind, by query and subject.
Values = Mapping[str, Mapping[str, LoadValue]]


def list_load(connection: Connection, settings: Settings, now: datetime) -> Json:
    """Return all queries with their last results, and the values of all hosts."""
    options, queries = settings.load, list_queries(settings)
    reports = store.read_reports(connection)
    values = {HOST: store.read_values(connection, HOST), SERVER: {}}
    if any(query.kind == SERVER for query in queries):
        values[SERVER] = store.read_values(connection, SERVER)
    hosts = sorted(set(store.map_host_labels(connection).values()))
    return {
        "collects": bool(options.prometheus_url and queries),
        "interval": options.interval,
        "max_age": options.max_age,
        "half_life": options.half_life,
        "queries": [
            _render_query(
                query,
                reports.get((query.kind, query.name)),
                list(values[query.kind].get(query.name, {}).values()),
                now,
                options.max_age,
            )
            for query in queries
        ],
        "hosts": [
            {
                "host": host,
                "values": _render_values(host, HOST, queries, values[HOST], now, options.max_age),
            }
            for host in hosts
        ],
    }


def show_host(connection: Connection, settings: Settings, host: str, now: datetime) -> Json:
    """Return the values of a host and of its servers.

    Raises :class:`NotFound` for an unknown host.
    """
    hosts = set(store.map_host_labels(connection).values())
    if host not in hosts:
        suggestion = suggest_name("host", host, hosts)
        raise NotFound(f"there is no host {host!r}{suggestion}", code="scheduler.not_found")
    queries, max_age = list_queries(settings), settings.load.max_age
    servers = store.list_servers(connection, host)
    of_host = store.read_values(connection, HOST, [host])
    of_servers = store.read_values(connection, SERVER, servers)
    return {
        "host": host,
        "values": _render_values(host, HOST, queries, of_host, now, max_age),
        "servers": [
            {
                "uuid": uuid,
                "values": _render_values(uuid, SERVER, queries, of_servers, now, max_age),
            }
            for uuid in servers
        ],
    }


def _render_values(
    subject: str,
    kind: str,
    queries: Iterable[LoadQuery],
    values: Values,
    now: datetime,
    max_age: float,
) -> list[Json]:
    return [
        _render_value(query.name, values.get(query.name, {}).get(subject), now, max_age)
        for query in queries
        if query.kind == kind
    ]


def _render_value(name: str, value: LoadValue | None, now: datetime, max_age: float) -> Json:
    if value is None:
        empty = dict.fromkeys(("value", "smoothed", "measured_at", "age"))
        return {"query": name, "state": MISSING, **empty}
    return {
        "query": name,
        "state": value.find_state(now, max_age),
        "value": value.value,
        "smoothed": value.smoothed,
        "measured_at": value.measured_at.isoformat(),
        "age": round(value.compute_age(now), 3),
    }


def _render_query(
    query: LoadQuery,
    report: QueryReport | None,
    values: Sequence[LoadValue],
    now: datetime,
    max_age: float,
) -> Json:
    ages = [value.compute_age(now) for value in values]
    document: Json = {
        "kind": query.kind,
        "name": query.name,
        "query": query.expression,
        "label": query.label,
        "old": sum(value.find_state(now, max_age) == OLD for value in values),
        "youngest": round(min(ages), 3) if ages else None,
        "oldest": round(max(ages), 3) if ages else None,
        "collected_at": None,
        "error": None,
        "result": None,
    }
    if report is not None:
        document |= {"collected_at": report.collected_at.isoformat(), "error": report.error}
        if report.error is None:
            document["result"] = report.render_counts()
    return document
