# SPDX-License-Identifier: Apache-2.0
"""Periodic collection of load from Prometheus.

No request waits for Prometheus: requests only read the values that a collection stored.
"""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from functools import partial

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.db.leases import Lease
from placement_sched.db.transaction import Database
from placement_sched.errors import Error, ServiceFailed, format_error
from placement_sched.extensions.load import store
from placement_sched.extensions.load.options import list_queries
from placement_sched.extensions.load.prometheus import Prometheus
from placement_sched.extensions.load.values import (
    HOST,
    SERVER,
    LoadQuery,
    LoadValue,
    QueryReport,
    evaluate_series,
    smooth_values,
)
from placement_sched.model.clock import Clock
from placement_sched.model.grouping import split_batches
from placement_sched.operations.periodic import PeriodicTask
from placement_sched.scheduler.scheduler import Scheduler

LOG = log.getLogger(__name__)

#: The name of the thread that collects load, and the seconds of its lease.
LOAD_THREAD, _LEASE = "load", 150
#: Maximum number of values in a transaction. On SQLite other writers wait for its end.
_BATCH = 500
#: Maximum age of stored values. Deleted servers leave such values.
_MAX_STORED = timedelta(days=1)


def build_tasks(scheduler: Scheduler) -> list[PeriodicTask]:
    """Build the periodic tasks of a server (hook ``periodic_tasks``).

    Raises :class:`ConfigurationError` for two queries of a name, or too many queries.
    """
    return [LoadTask(scheduler.database, scheduler.settings, scheduler.clock)]


class LoadTask(PeriodicTask):
    """Periodic task that sends the queries of load to Prometheus.

    A lease selects a single process of all servers, which collects every ``[load] interval``
    seconds.
    """

    thread_name = LOAD_THREAD
    failure = "the load was not collected"
    #: Seconds between two checks of whether a collection is due.
    pause = 5.0

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        super().__init__()
        self._database, self._settings, self._clock = database, settings, clock
        self._queries = list_queries(settings)
        self._lease = Lease(database, LOAD_THREAD, _LEASE)
        #: The errors of the last collection, so that an error is logged once.
        self._errors: Mapping[LoadQuery, str] = {}

    def is_due(self) -> bool:
        """Return whether Prometheus and a query are configured."""
        return bool(self._settings.load.prometheus_url and self._queries)

    def run_round(self) -> None:
        """Collect load if the last collection is too old."""
        try:
            with self._database.read() as connection:
                reports = store.read_current_reports(connection, self._queries)
        except Error as failure:
            LOG.debug("cannot read the reports of load: %s", format_error(failure))
            return
        now, interval = self._clock(), self._settings.load.interval
        # Another machine's clock may be ahead.
        is_young = all(
            (report := reports.get(query.key))
            and abs((now - report.collected_at).total_seconds()) < interval
            for query in self._queries
        )
        if is_young or not self._lease.is_held():
            return
        errors = collect_load(self._database, self._settings, self._clock)
        for query in errors:
            if errors[query] != self._errors.get(query):
                LOG.warning("%s: %s", query.option, errors[query])
        self._errors = errors


def collect_load(database: Database, settings: Settings, clock: Clock) -> Mapping[LoadQuery, str]:
    """Send all queries to Prometheus, store the results, and return errors.

    A query that fails has a report with the error, and its values grow old.
    """
    queries = list_queries(settings)
    database.write(partial(store.purge, queries=queries, before=clock() - _MAX_STORED))
    errors: dict[LoadQuery, str] = {}
    for query, report, values in query_load(database, settings, clock):
        with database.read() as connection:
            previous = store.read_values(connection, query.kind, name=query.name)
        last = previous.get(query.name, {})
        for batch in split_batches(smooth_values(values, last, settings.load.half_life), _BATCH):
            database.write(partial(store.record_values, query=query, values=batch))
        database.write(partial(store.record_report, query=query, report=report))
        if report.error is not None:
            errors[query] = report.error
    return errors


def query_load(
    database: Database, settings: Settings, clock: Clock
) -> Iterator[tuple[LoadQuery, QueryReport, list[LoadValue]]]:
    """Send each query to Prometheus, and yield its report and values.

    Nothing is stored.
    """
    prometheus, queries = Prometheus(settings.load), list_queries(settings)
    with database.read() as connection:
        labels = {HOST: store.map_host_labels(connection), SERVER: dict[str, str]()}
        if any(query.kind == SERVER for query in queries):
            labels[SERVER] = {uuid: uuid for uuid in store.list_servers(connection)}
    for query in queries:
        try:
            series = prometheus.query(query.expression)
        except ServiceFailed as failure:
            yield query, QueryReport(query.expression, clock(), error=failure.detail), []
        else:
            yield query, *evaluate_series(query, series, labels[query.kind], clock())
