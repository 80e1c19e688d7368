# SPDX-License-Identifier: Apache-2.0
"""The processes of ``placement-sched nova-scheduler``.

Any number of workers answer nova's requests. Another process syncs the records with nova's
databases, and writes the heartbeat of the service. nova's fanout casts, such as
``update_aggregates`` (see ``rpc.py``), reach every worker, but only worker 0 records them.
"""

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import SystemRandom
from threading import Event, Thread
from typing import Any

import cotyledon
from cotyledon.types import WorkerId
from oslo_log import log

from placement_sched.clients.systemd import Notifier
from placement_sched.config.conf import CONF
from placement_sched.config.settings import Settings
from placement_sched.db.leases import Lease
from placement_sched.db.transaction import Database
from placement_sched.errors import Error, format_error
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.request_stats import begin_stats
from placement_sched.notifications import create_notifier
from placement_sched.nova import messaging
from placement_sched.nova.databases import check_databases_set
from placement_sched.nova.databases.service_record import BINARY, ServiceRecord, find_record
from placement_sched.nova.messaging import Context, build_log_fields, log_slow_call
from placement_sched.nova.monitoring import CallMetrics, Monitor
from placement_sched.nova.rpc import TOPIC, BaseRpc, SchedulerRpc
from placement_sched.nova.sync.follower import RETRY_INTERVAL, Follower, repeat_steps
from placement_sched.operations.aggregates import list_policies_in_use
from placement_sched.operations.config_check import check_parts
from placement_sched.operations.periodic import OldRowDeletion
from placement_sched.operations.prepare import Preparation, freeze_loaded_objects
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.live_settings import LiveSettings
from placement_sched.scheduler.request import create_neutron_client
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.compute import services

LOG = log.getLogger(__name__)

#: Duration of the lease in seconds. Its holder syncs with nova's databases for all schedulers. The
#: other schedulers try to get the lease three times in this period.
LEASE = 15
_NOT_YET = "nova's requests are not answered yet"


class Heartbeat:
    """The heartbeat of this scheduler, written every ``report_interval``.

    A warning is logged once if another scheduler, such as nova-scheduler, is up on the same topic
    and thus gets some of nova's requests, or if another service writes the same record.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._host: str = settings.DEFAULT.host
        self._interval: int = settings.DEFAULT.report_interval
        self._down_after = timedelta(seconds=settings.DEFAULT.service_down_time)
        self._record: ServiceRecord | None = find_record(settings)
        self._stopping = Event()
        self._last_failure = ""
        self._other_hosts: frozenset[str] = frozenset()
        self._is_shared = False

    def start(self) -> None:
        """Start a thread that writes heartbeats, even during a long sync."""
        if self._record is None:
            LOG.warning(
                "[database] connection is not set: nova does not list this scheduler among its "
                "services"
            )
        Thread(target=self._write_periodically, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Stop writing heartbeats, and close the connections to nova's database."""
        self._stopping.set()
        if self._record is not None:
            self._record.close()

    def _write_periodically(self) -> None:
        while not self._stopping.is_set():
            self.beat()
            self._stopping.wait(self._interval or None)

    def beat(self) -> None:
        """Write the heartbeat now, and log a failure only once."""
        failed = ""
        try:
            self._write(self._clock())
        except Error as failure:
            failed = format_error(failure)
        if failed and failed != self._last_failure:  # logged outside the handler
            LOG.warning("the heartbeat cannot be written: %s", failed)
        self._last_failure = failed

    def _write(self, now: datetime) -> None:
        self._database.write(
            partial(services.record_service_up, host=self._host, binary=BINARY, now=now)
        )
        if self._record is None:
            return
        beat, since = self._record.beat(now), now - self._down_after
        with self._database.read() as connection:
            rows = services.search(connection, binary=BINARY)
        active = beat.others - {row.host for row in rows if (row.last_seen_up or since) > since}
        for host in sorted(active - self._other_hosts):
            LOG.warning(
                "nova-scheduler on %s is up and answers part of the requests on the same topic: "
                "stop it, unless both are intended to run",
                host,
            )
        for host in sorted(self._other_hosts - active):
            LOG.info("nova-scheduler on %s is not up any more", host)
        if beat.shared and not self._is_shared:
            LOG.warning(
                "another service writes the heartbeat of nova-scheduler on %s: stop it, or set "
                "another [DEFAULT] host here",
                self._host,
            )
        self._other_hosts, self._is_shared = active, beat.shared


def check(settings: Settings) -> None:
    """Raise :class:`ConfigurationError` for missing or invalid settings."""
    check_databases_set(settings)
    check_parts(settings)
    messaging.create_transport(messaging.read_bus_options(settings)).cleanup()
    database = Database(settings)
    Follower(database, settings).close()
    Heartbeat(database, settings, utcnow)
    database.dispose()


def count_workers(settings: Settings, requested: int | None) -> int:
    """Return ``requested``, or ``[scheduler] workers``, or the number of CPUs."""
    configured: int | None = settings.scheduler.workers
    return requested or configured or len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class SharedState:
    """State that all processes share: settings, counters and progress.

    ``listening`` and ``has_read_nova`` are in shared memory without locks: a killed process leaves
    no lock.
    """

    live: LiveSettings
    #: Raises Forbidden if the user of a call may not give the hint ``sched_policy``.
    check_policy_hint: Callable[[Context], None]
    #: For each worker, whether it has begun to answer requests.
    listening: Any
    #: The counters of answered calls, if they are enabled.
    call_metrics: CallMetrics | None = None
    #: Whether nova's databases have been read once.
    has_read_nova: Any = field(
        default_factory=lambda: multiprocessing.RawValue(ctypes.c_bool, False)
    )

    @property
    def is_listening(self) -> bool:
        """Return whether every worker has begun to answer requests."""
        return all(self.listening)


def run(
    settings: Settings,
    workers: int,
    start_line: str,
    check_policy_hint: Callable[[Context], None],
    call_metrics: CallMetrics | None = None,
    monitor: Monitor | None = None,
) -> None:
    """Run the workers and the sync process until SIGTERM or SIGINT.

    Prints ``start_line`` once all workers answer requests. ``call_metrics`` counts the answered
    calls, and ``monitor`` serves the counters over HTTP. On SIGTERM, running requests are finished.
    SIGINT ends at once: RabbitMQ delivers unanswered requests to another scheduler. Raises
    :class:`SystemExit`.
    """
    if not CONF.debug:  # this service logs these events
        logging.getLogger("cotyledon").setLevel(logging.WARNING)
        # amqp warns about data that a connection receives while it is being closed.
        logging.getLogger("amqp").setLevel(logging.ERROR)
    notifier = Notifier()
    listening = multiprocessing.RawArray(ctypes.c_bool, workers)
    live = LiveSettings(settings, in_use=lambda: list_policies_in_use(live.configured))
    shared = SharedState(live, check_policy_hint, listening, call_metrics)
    grace: int = settings.DEFAULT.graceful_shutdown_timeout
    manager = cotyledon.ServiceManager(
        graceful_shutdown_timeout=grace, mp_context=multiprocessing.get_context("fork")
    )
    manager.add(SyncService, args=(shared,))
    served = manager.add(Worker, workers=workers, args=(shared,))

    def log_death(service: Any, worker: int, status: int) -> None:
        name = f"worker {worker + 1}" if service == served else "the process that follows nova"
        reason = f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        LOG.warning("%s ended (%s). Another process starts", name, reason)

    def log_stop() -> None:
        notifier.stop()
        LOG.info("stopping: SIGTERM")

    def print_start_line() -> None:
        while not shared.is_listening:
            time.sleep(0.05)
        sys.stdout.write(f"{start_line}\n")
        sys.stdout.flush()

    manager.register_hooks(on_reload=live.reload, on_dead_worker=log_death, on_terminate=log_stop)
    notifier.start()
    Thread(target=print_start_line, daemon=True).start()
    if monitor is not None:
        monitor.is_ready = lambda: shared.is_listening
        monitor.start()
    try:
        manager.run()
    finally:
        LOG.info("stopped")


class SyncService(cotyledon.Service):
    """The process that syncs with nova's databases and writes the heartbeat."""

    name = "keeper"

    def __init__(self, worker_id: WorkerId, shared: SharedState) -> None:
        super().__init__(worker_id)
        settings = shared.live.configured
        self._shared = shared
        self._stopping, self._full = Event(), Event()
        self._database = Database(settings)
        self._prepare = Preparation(self._database, settings, utcnow)
        self._follower = Follower(self._database, settings, utcnow)
        self._heartbeat = Heartbeat(self._database, settings, utcnow)
        self._delete_old_rows = OldRowDeletion(self._database, settings, utcnow)
        self._lease = Lease(self._database, "following nova", LEASE)
        self._next_attempt = 0.0

    def run(self) -> None:
        """Run a full sync, and then sync changes until :meth:`terminate`."""
        if not repeat_steps([self._prepare, self._follower.read_all], self._stopping, _NOT_YET):
            return
        self._shared.has_read_nova.value = True
        freeze_loaded_objects()
        beating = False
        while not self._stopping.is_set():
            if self._shared.is_listening and not beating:
                # Not earlier: until the queue exists, RabbitMQ drops nova's calls.
                self._heartbeat.start()
                beating = True
            if self._full.is_set():
                self._full.clear()
                repeat_steps([self._follower.read_all], self._stopping, _NOT_YET)
            self._follow()
            self._delete_old_rows()
            self._stopping.wait(RETRY_INTERVAL)

    def _follow(self) -> None:
        """Run a background sync if it is due and this process has the lease.

        Of the schedulers on the same database, a single scheduler holds the lease. If it changes,
        the new holder runs a full sync if its own is due, and otherwise reads the changes since its
        last sync. Without the lease, a scheduler still refreshes the records before a request.
        """
        if time.monotonic() < self._next_attempt:
            return
        if self._lease.is_held():
            self._follower.sync_due()
            left_out = self._follower.left_out
        else:
            self._next_attempt = time.monotonic() + LEASE / 3
            left_out = 0
        if self._shared.call_metrics is not None:
            self._shared.call_metrics.set_left_out(left_out)

    def reload(self) -> None:
        """Request a full sync, as SIGHUP makes nova-scheduler reload its cells."""
        self._full.set()

    def terminate(self) -> None:
        """Stop the sync and the heartbeat, and close all connections."""
        self._stopping.set()
        self._heartbeat.stop()
        self._lease.release()
        self._follower.close()
        self._database.dispose()


class Worker(cotyledon.Service):
    """A process that answers nova's requests."""

    name = "worker"

    def __init__(self, worker_id: WorkerId, shared: SharedState) -> None:
        super().__init__(worker_id)
        settings = shared.live.configured
        self._shared, self._settings = shared, settings
        self._stopping, self._listening, self._is_ready = Event(), Event(), Event()
        self._database = Database(settings)
        self._prepare = Preparation(self._database, settings, utcnow)
        self._follower = Follower(self._database, settings, utcnow)
        self._notifier = create_notifier(settings)
        self._caches = ProcessCaches.from_settings(settings, self._database)
        scheduler = Scheduler(
            database=self._database,
            settings=settings,
            clock=utcnow,
            random=SystemRandom(),
            caches=self._caches,
            neutron=create_neutron_client(settings),
            notifier=self._notifier,
            parent=shared.live,
        )
        first = worker_id == 0
        self._transport = messaging.create_transport(messaging.read_bus_options(settings))
        rpc = SchedulerRpc(
            scheduler,
            self._follower,
            check_policy_hint=shared.check_policy_hint,
            handles_casts=first,
            wait_until_ready=self._wait_until_ready,
        )
        endpoints = [rpc, BaseRpc()]
        host: str = settings.DEFAULT.host
        slow = settings.api.slow_request_seconds
        count = partial(_count, shared.call_metrics, slow)
        self._create_server = partial(
            messaging.create_server, self._transport, TOPIC, host, endpoints, count
        )
        self._server: messaging.Server | None = None

    def run(self) -> None:
        """Listen at once, or RabbitMQ drops calls, but answer only when ready."""
        self._server = messaging.start_server(
            self._create_server,
            self._stopping,
            messaging.describe_bus(self._settings),
            logs=self.worker_id == 0,
        )
        if self._server is None:
            return
        self._listening.set()
        while not self._shared.has_read_nova.value:  # the sync process reads nova's databases
            if self._stopping.wait(0.05):
                return
        # The first refresh of a process compares everything, and no request should wait for it.
        fill = partial(self._caches.fill, self._database)
        steps: list[Callable[[], object]] = [self._prepare, self._follower.refresh, fill]
        if not repeat_steps(steps, self._stopping, _NOT_YET):
            return
        freeze_loaded_objects()
        self._is_ready.set()
        self._shared.listening[self.worker_id] = True

    def _wait_until_ready(self) -> None:
        """Wait until calls can be answered, or raise :class:`UnsupportedCall`."""
        while not self._is_ready.wait(0.1):
            if self._stopping.is_set():
                raise messaging.UnsupportedCall

    def reload(self) -> None:
        """Do nothing: the parent process reloads the settings."""

    def terminate(self) -> None:
        """Answer the accepted requests, and close all connections."""
        self._stopping.set()
        if self._listening.is_set() and self._server is not None:
            self._server.stop()
            self._server.wait()
        self._transport.cleanup()
        self._notifier.close()
        self._follower.close()
        self._database.dispose()


def _count(call_metrics: CallMetrics | None, slow: float, call: messaging.FinishedCall) -> None:
    if call_metrics is not None:
        call_metrics.count_call(call.method, call.outcome, call.seconds)
    if slow and call.seconds >= slow:
        log_slow_call(build_log_fields(call.context, call.method, call.outcome, call.seconds))
    begin_stats()
