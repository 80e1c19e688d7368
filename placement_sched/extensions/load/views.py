# SPDX-License-Identifier: Apache-2.0
"""JSON of load: queries with their results, and values of subjects."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from placement_sched.config.settings import Settings
from placement_sched.db.transaction import Connection
from placement_sched.errors import NotFound
from placement_sched.extensions.load import store
from placement_sched.extensions.load.options import list_queries
from placement_sched.extensions.load.values import (
    HOST,
    MISSING,
    SERVER,
    LoadQuery,
    LoadValue,
    QueryReport,
    Times,
    compute_age,
)
from placement_sched.model.document import Json
from placement_sched.model.names import suggest_name

_NO_TIMES: Times = (None, None, 0)


class LoadView:
    """View of the stored load at a time, with the queries of the settings."""

    def __init__(self, connection: Connection, settings: Settings, now: datetime) -> None:
        self._connection, self._options, self._now = connection, settings.load, now
        self._queries = list_queries(settings)
        self._reports = store.read_current_reports(connection, self._queries)

    def list_load(self) -> Json:
        """Return all queries with their results, and the values of hosts."""
        options = self._options
        values = store.read_values(self._connection, HOST)
        hosts = sorted(set(store.map_host_labels(self._connection).values()))
        return {
            "collects": bool(options.prometheus_url and self._queries),
            **{name: options[name] for name in ("interval", "max_age", "half_life")},
            "queries": self._render_queries(),
            "hosts": [
                {"host": host, "values": self._render_values(HOST, host, values)} for host in hosts
            ],
        }

    def show_host(self, host: str) -> Json:
        """Return the values of a host and its servers.

        Raises :class:`NotFound` for an unknown host.
        """
        hosts = set(store.map_host_labels(self._connection).values())
        if host not in hosts:
            suggestion = suggest_name("host", host, hosts)
            raise NotFound(f"there is no host {host!r}{suggestion}", code="scheduler.not_found")
        servers = store.list_servers(self._connection, host)
        of_servers = store.read_values(self._connection, SERVER, servers)
        of_host = store.read_values(self._connection, HOST, [host])
        return {
            "host": host,
            "values": self._render_values(HOST, host, of_host),
            "servers": [
                {"uuid": uuid, "values": self._render_values(SERVER, uuid, of_servers)}
                for uuid in servers
            ],
        }

    def _render_values(
        self, kind: str, subject: str, values: Mapping[str, Mapping[str, LoadValue]]
    ) -> list[Json]:
        names = [query.name for query in self._queries if query.kind == kind]
        current = [values.get(name, {}) if (kind, name) in self._reports else {} for name in names]
        return [
            {"query": name, **self._render_value(by_subject.get(subject))}
            for name, by_subject in zip(names, current, strict=True)
        ]

    def _render_value(self, value: LoadValue | None) -> Json:
        if value is None:
            empty = dict.fromkeys(("value", "smoothed", "measured_at", "age"))
            return {"state": MISSING, **empty}
        return {
            "state": value.find_state(self._now, self._options.max_age),
            "value": value.value,
            "smoothed": value.smoothed,
            "measured_at": value.measured_at.isoformat(),
            "age": compute_age(value.measured_at, self._now),
        }

    def _render_queries(self) -> list[Json]:
        limit = self._now - timedelta(seconds=self._options.max_age)
        times = store.read_times(self._connection, limit)
        return [
            render_query(
                query, self._reports.get(query.key), times.get(query.key, _NO_TIMES), self._now
            )
            for query in self._queries
        ]


def render_query(query: LoadQuery, report: QueryReport | None, times: Times, now: datetime) -> Json:
    """Return a query with its report, and the ages of its values."""
    oldest, youngest, old_count = times if report else _NO_TIMES
    return {
        "kind": query.kind,
        "name": query.name,
        "query": query.expression,
        "label": query.label,
        "old": old_count,
        "youngest": compute_age(youngest, now),
        "oldest": compute_age(oldest, now),
        "collected_at": report and report.collected_at.isoformat(),
        "error": report and report.error,
        "result": report.render_counts() if report and report.error is None else None,
    }
