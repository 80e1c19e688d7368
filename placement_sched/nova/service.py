"""The processes of ``placement-sched nova-scheduler``.

Any number of workers answer nova's requests. One more process keeps what is recorded here in step
with nova's databases, and writes the heartbeat of the service. Announcements of nova reach every
worker; the first records them, for all.
"""

import ctypes
import logging
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from random import SystemRandom
from threading import Event, Thread
from typing import Any

import cotyledon
from cotyledon.types import WorkerId
from oslo_log import log

from placement_sched.config.conf import CONF
from placement_sched.config.settings import Settings
from placement_sched.db.engine import database_url
from placement_sched.db.leases import Lease
from placement_sched.db.transaction import Database
from placement_sched.errors import Error, one_line, sentence
from placement_sched.model.clock import Clock, utcnow
from placement_sched.model.request_stats import begin_stats
from placement_sched.notifications.announcer import announcer_of
from placement_sched.nova import messaging
from placement_sched.nova.call_log import Context, fields_of, log_slow
from placement_sched.nova.databases.connections import NovaAway, refuse_unset_databases
from placement_sched.nova.databases.service_record import BINARY, Beat, ServiceRecord, record_of
from placement_sched.nova.monitoring import Figures, Monitor
from placement_sched.nova.rpc import TOPIC, BaseRpc, SchedulerRpc
from placement_sched.nova.sync.follower import Follower
from placement_sched.operations.aggregates import policies_in_use
from placement_sched.operations.prepare import Preparation, spare_collector
from placement_sched.operations.retention import LogUpkeep
from placement_sched.scheduler.caches import Memory
from placement_sched.scheduler.extra_specs import all_validators
from placement_sched.scheduler.live_settings import LiveSettings, with_options_file
from placement_sched.scheduler.policies.registry import checked_plugins, policies_for
from placement_sched.scheduler.request import neutron_of
from placement_sched.scheduler.scheduler import Scheduler
from placement_sched.store.compute import services

LOG = log.getLogger(__name__)


class Heartbeat:
    """Writes every [DEFAULT] report_interval seconds that this scheduler is up, in a thread.

    It logs once where a scheduler of another kind, such as nova-scheduler, is up on the same topic,
    and where another service writes the same record: each takes some of nova's requests.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._host: str = settings.DEFAULT.host
        self._interval: int = settings.DEFAULT.report_interval
        self._down_after = timedelta(seconds=settings.DEFAULT.service_down_time)
        self._record: ServiceRecord | None = record_of(settings)
        self._stopping = Event()
        self._said = ""
        self._known: frozenset[str] = frozenset()
        self._is_shared = False

    def start(self) -> None:
        """Begin; a thread of its own keeps the record young while long work is done beside it."""
        if self._record is None:
            LOG.warning(
                "[database] connection is not set: nova does not list this scheduler among its "
                "services"
            )
        Thread(target=self._go_on, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """Write no more heartbeats."""
        self._stopping.set()

    def _go_on(self) -> None:
        while not self._stopping.is_set():
            self.beat()
            self._stopping.wait(self._interval)

    def beat(self) -> None:
        """Write the heartbeat now; a failure is logged once, and nothing is raised."""
        failed = ""
        try:
            self._write(self._clock())
        except Error as failure:
            failed = sentence(failure)
        if failed and failed != self._said:  # logged after the failure, or the log shows it again
            LOG.warning("the heartbeat is not written: %s", failed)
        self._said = failed

    def _write(self, now: datetime) -> None:
        self._database.write(partial(services.note_up, host=self._host, binary=BINARY, now=now))
        if self._record is not None:
            self._report(self._record.beat(now), self._ours(now - self._down_after))

    def _ours(self, since: datetime) -> frozenset[str]:
        """Return the hosts of this service's schedulers that were up since then."""
        with self._database.read() as connection:
            found = services.search(connection, binary=BINARY)
        return frozenset(one.host for one in found if (one.last_seen_up or since) > since)

    def _report(self, beat: Beat, ours: frozenset[str]) -> None:
        others = beat.others - ours
        for host in sorted(others - self._known):
            LOG.warning(
                "nova-scheduler on %s is up and answers a part of the requests, on the same topic: "
                "stop it, unless both are meant to",
                host,
            )
        for host in sorted(self._known - others):
            LOG.info("nova-scheduler on %s is not up any more", host)
        if beat.shared and not self._is_shared:
            LOG.warning(
                "another service writes the heartbeat of nova-scheduler on %s: stop it, or set "
                "another [DEFAULT] host here",
                self._host,
            )
        self._known, self._is_shared = others, beat.shared


#: Seconds between two attempts at what a database prevented.
AGAIN = 1.0
#: For so many seconds one scheduler follows nova's databases for all; the others ask for it again
#: each third of that.
LEASE = 15


def check(settings: Settings) -> None:
    """Raise :class:`ConfigurationError` for what the service lacks, or cannot be as configured."""
    refuse_unset_databases(settings)
    database_url(settings)
    checked_plugins(settings)
    all_validators()
    neutron_of(settings)
    policies_for(with_options_file(settings).settings).check()
    announcer_of(settings)
    messaging.transport_of(messaging.bus_options(settings)).cleanup()
    database = Database(settings)
    Follower(database, settings).close()
    Heartbeat(database, settings, utcnow)
    database.dispose()


def workers_of(settings: Settings, asked: int | None) -> int:
    """Return how many workers there are: as many as were ``asked`` for, else as configured."""
    configured: int | None = settings.scheduler.workers
    return asked or configured or len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class Shared:
    """What the processes share: the settings at their start, and how far they are.

    A process that is killed holds no lock: these are plain bytes of shared memory.
    """

    live: LiveSettings
    #: Raises Forbidden if the user of a call may not give the hint ``sched_policy``.
    check_policy_hint: Callable[[Context], None]
    #: Of each worker, whether it has listened.
    listening: Any
    #: What counts their answers, where that is asked for.
    figures: Figures | None = None
    #: Whether nova's databases have been read once.
    read: Any = field(default_factory=lambda: multiprocessing.RawValue(ctypes.c_bool, False))

    @property
    def is_listening(self) -> bool:
        """Return whether every worker has listened."""
        return all(self.listening)


def run(
    settings: Settings,
    workers: int,
    announcement: str,
    check_policy_hint: Callable[[Context], None],
    figures: Figures | None = None,
    monitor: Monitor | None = None,
) -> None:
    """Run until SIGTERM or SIGINT; print the ``announcement`` once requests are answered.

    ``figures`` counts what the workers answer, and ``monitor`` shows it.

    SIGTERM lets requests that are being answered finish. SIGINT ends at once: RabbitMQ hands what
    is not answered to another scheduler. Raises :class:`SystemExit`.
    """
    _quiet()
    listening = multiprocessing.RawArray(ctypes.c_bool, workers)
    live = LiveSettings(settings, in_use=lambda: policies_in_use(live.configured))
    shared = Shared(live, check_policy_hint, listening, figures)
    grace: int = settings.DEFAULT.graceful_shutdown_timeout
    manager = cotyledon.ServiceManager(
        graceful_shutdown_timeout=grace, mp_context=multiprocessing.get_context("fork")
    )
    manager.add(Keeper, args=(shared,))
    served = manager.add(Worker, workers=workers, args=(shared,))

    def died(service: Any, worker: int, status: int) -> None:
        name = f"worker {worker + 1}" if service == served else "the process that follows nova"
        how = f"killed by {signal.Signals(-status).name}" if status < 0 else f"status {status}"
        LOG.warning("%s ended (%s); starting another", name, how)

    manager.register_hooks(
        on_reload=live.reload,
        on_dead_worker=died,
        on_terminate=lambda: LOG.info("stopping: SIGTERM"),
    )
    Thread(target=_announce, args=(shared, announcement), daemon=True).start()
    if monitor is not None:
        monitor.is_ready = lambda: shared.is_listening
        monitor.start()
    try:
        manager.run()
    finally:
        LOG.info("stopped")


def _announce(shared: Shared, announcement: str) -> None:
    while not shared.is_listening:
        time.sleep(0.05)
    sys.stdout.write(f"{announcement}\n")
    sys.stdout.flush()


def _quiet() -> None:
    """Let only one line of each event come to the log, which is ours."""
    if not CONF.debug:
        logging.getLogger("cotyledon").setLevel(logging.WARNING)
        # What a connection still receives while it is closed.
        logging.getLogger("amqp").setLevel(logging.ERROR)


class Keeper(cotyledon.Service):
    """Follows nova's databases, and writes the heartbeat."""

    name = "keeper"

    def __init__(self, worker_id: WorkerId, shared: Shared) -> None:
        super().__init__(worker_id)
        settings = shared.live.configured
        self._shared = shared
        self._stopping, self._full = Event(), Event()
        self._database = Database(settings)
        self._ready = Preparation(self._database, settings, utcnow)
        self._follower = Follower(self._database, settings, utcnow)
        self._heartbeat = Heartbeat(self._database, settings, utcnow)
        self._trim_log = LogUpkeep(self._database)
        self._lease = Lease(self._database, "following nova", LEASE)
        self._ask_again = 0.0

    def run(self) -> None:
        """Read everything, and then what changes, until :meth:`terminate`."""
        if not _until_done([self._ready, self._follower.read_all], self._stopping):
            return
        self._shared.read.value = True
        spare_collector()
        beating = False
        while not self._stopping.is_set():
            if self._shared.is_listening and not beating:
                # Not before: until there is a queue, RabbitMQ drops what nova asks.
                self._heartbeat.start()
                beating = True
            if self._full.is_set():
                self._full.clear()
                _until_done([self._follower.read_all], self._stopping)
            self._keep_up()
            self._trim_log()
            self._stopping.wait(AGAIN)

    def _keep_up(self) -> None:
        """Follow nova's databases, unless another scheduler on this service's database does.

        A scheduler that takes this over reads everything if that is due by its own count, else what
        changed since it last read. Before a request each reads what matters to that.
        """
        if time.monotonic() < self._ask_again:
            return
        if self._lease.is_held():
            self._follower.keep_up()
            self._show(self._follower.left_out)
        else:
            self._ask_again = time.monotonic() + LEASE / 3
            self._show(0)

    def _show(self, left_out: int) -> None:
        if self._shared.figures is not None:
            self._shared.figures.left_out(left_out)

    def reload(self) -> None:
        """Read everything again, as nova-scheduler reads its cells again at SIGHUP."""
        self._full.set()

    def terminate(self) -> None:
        """Stop following."""
        self._stopping.set()
        self._heartbeat.stop()
        self._lease.release()
        self._follower.close()
        self._database.dispose()


class Worker(cotyledon.Service):
    """Answers nova's requests."""

    name = "worker"

    def __init__(self, worker_id: WorkerId, shared: Shared) -> None:
        super().__init__(worker_id)
        settings = shared.live.configured
        self._shared, self._settings = shared, settings
        self._stopping, self._listening, self._known = Event(), Event(), Event()
        self._database = Database(settings)
        self._ready = Preparation(self._database, settings, utcnow)
        self._follower = Follower(self._database, settings, utcnow)
        self._announcer = announcer_of(settings)
        self._memory = Memory.of(settings, self._database)
        scheduler = Scheduler(
            database=self._database,
            settings=settings,
            clock=utcnow,
            random=SystemRandom(),
            memory=self._memory,
            neutron=neutron_of(settings),
            announcer=self._announcer,
        )
        first = worker_id == 0
        self._away = messaging.AwayOnce(messaging.bus_of(settings), reporting=first)
        self._away.install()
        self._transport = messaging.transport_of(messaging.bus_options(settings))
        rpc = SchedulerRpc(
            scheduler,
            self._follower,
            check_policy_hint=shared.check_policy_hint,
            announced=first,
            until_known=self._until_known,
        )
        endpoints = [rpc, BaseRpc()]
        host: str = settings.DEFAULT.host
        slow = settings.api.slow_request_seconds
        count = partial(_count, shared.figures, slow)
        self._server = messaging.server_of(self._transport, TOPIC, host, endpoints, count)

    def run(self) -> None:
        """Listen, and answer once the cloud is known.

        The queue is there at once, as RabbitMQ drops what nova asks where there is none.
        """
        self._server.start()
        self._away.note_back()
        self._listening.set()
        while not self._shared.read.value:
            if self._stopping.wait(0.05):
                return
        # The first look of a process compares everything: no request is to wait for it.
        fill = partial(self._memory.fill, self._database)
        if not _until_done([self._ready, self._follower.refresh, fill], self._stopping):
            return
        spare_collector()
        self._known.set()
        self._shared.listening[self.worker_id] = True

    def _until_known(self) -> None:
        """Return once requests can be answered; raise :class:`Unanswered` where that never is."""
        while not self._known.wait(0.1):
            if self._stopping.is_set():
                raise messaging.Unanswered

    def reload(self) -> None:
        """Do nothing: the next request finds that the settings have been read again."""

    def terminate(self) -> None:
        """Answer what was taken, and close all connections."""
        self._stopping.set()
        if self._listening.is_set():
            self._server.stop()
            self._server.wait()
        self._transport.cleanup()
        self._announcer.close()
        self._follower.close()
        self._database.dispose()


def _count(figures: Figures | None, slow: float, call: messaging.AnsweredCall) -> None:
    """Count a call, and begin the statistics of the next one.

    One of ``slow`` seconds or more is logged; 0 logs none.
    """
    if figures is not None:
        figures.call(call.method, call.outcome, call.seconds)
    if slow and call.seconds >= slow:
        log_slow(fields_of(call.context, call.method, call.outcome, call.seconds))
    begin_stats()


def _until_done(steps: Iterable[Callable[[], object]], stopping: Event) -> bool:
    """Do each step, again until a database answers; return False where it is time to stop.

    Only the first of equal failures is logged.
    """
    said = ""
    for step in steps:
        while not stopping.is_set():
            failed = _failure_of(step)
            if not failed:
                break
            if failed != said:  # logged after the failure, or the log shows it again
                LOG.warning("requests wait: %s", failed)
            said = failed
            stopping.wait(AGAIN)
    return not stopping.is_set()


def _failure_of(step: Callable[[], object]) -> str:
    """Do a step; return why it could not be done, or nothing."""
    try:
        step()
    except NovaAway as away:
        return f"nova's databases cannot be read: {one_line(away)}"
    except Error as failure:
        return sentence(failure)
    return ""
