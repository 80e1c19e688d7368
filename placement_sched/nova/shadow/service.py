# SPDX-License-Identifier: Apache-2.0
"""The process of ``placement-sched nova-shadow``.

The main thread reads and evaluates nova's calls, a second thread follows nova's databases, and a
third thread waits for the outcomes.
"""

import signal
from collections.abc import Callable
from random import SystemRandom
from threading import Event, Thread
from time import monotonic

from oslo_log import log

from placement_sched.clients.systemd import Notifier
from placement_sched.config.settings import Settings
from placement_sched.db.engine import build_database_url
from placement_sched.db.transaction import Database
from placement_sched.errors import Invalid, Unavailable
from placement_sched.model.clock import Clock, utcnow
from placement_sched.nova.databases import check_databases_set
from placement_sched.nova.databases.placements import NovaRecords
from placement_sched.nova.shadow.evaluator import Evaluator, read_call
from placement_sched.nova.shadow.outcomes import PAUSE, OutcomeTracker
from placement_sched.nova.shadow.tap import NovaBus, Tap, read_transport
from placement_sched.nova.sync.follower import AGAIN, Follower, repeat_steps
from placement_sched.operations.periodic import OldRowDeletion
from placement_sched.operations.prepare import Preparation
from placement_sched.scheduler.caches import ProcessCaches
from placement_sched.scheduler.extra_specs import list_validators
from placement_sched.scheduler.live_settings import with_options_file
from placement_sched.scheduler.policies.registry import check_plugins, get_policies
from placement_sched.scheduler.request import create_neutron_client
from placement_sched.scheduler.scheduler import Scheduler

LOG = log.getLogger(__name__)

#: Seconds between two lines of the log with the share of agreement.
SUMMARY = 300.0
_NOT_YET = "requests are not evaluated yet"
#: Seconds that the threads have to end.
GRACE = 10.0


def check(settings: Settings) -> NovaBus:
    """Read the message bus from the settings.

    Raises :class:`ConfigurationError` for wrong settings.
    """
    check_databases_set(settings)
    build_database_url(settings)
    check_plugins(settings, utcnow)
    list_validators()
    create_neutron_client(settings)
    get_policies(with_options_file(settings).settings, utcnow).check()
    return read_transport(settings.conf.config_file or ())


class Shadow:
    """The service nova-shadow, with its main loop :meth:`run`."""

    def __init__(self, settings: Settings, transport: NovaBus, clock: Clock = utcnow) -> None:
        self._settings, self._clock = settings, clock
        self.database = Database(settings)
        self.follower = Follower(self.database, settings, clock)
        self._records = NovaRecords(settings)
        scheduler = Scheduler(
            database=self.database,
            settings=settings,
            clock=clock,
            random=SystemRandom(),
            caches=ProcessCaches.from_settings(settings, self.database),
            neutron=create_neutron_client(settings),
        )
        self._live = scheduler.live
        self._evaluator = Evaluator(scheduler, self.follower.refresh, clock)
        self.awaiting = OutcomeTracker(
            database=self.database, records=self._records, explain=scheduler.explain, clock=clock
        )
        self.tap = Tap(transport, settings.DEFAULT.host, self.handle)
        self._stopped, self._read_again = Event(), Event()

    def stop(self) -> None:
        """Make :meth:`run` return, from any thread or signal handler."""
        self._stopped.set()
        self.tap.stop()

    def read_all_again(self) -> None:
        """Reload the configuration, and soon read all of nova's databases again."""
        self._read_again.set()

    def run(self, started: Callable[[], None] = lambda: None) -> None:
        """Follow nova's databases and evaluate its calls until :meth:`stop`.

        ``started`` is called in any thread, once the databases and the calls can be read.
        """
        ready = Preparation(self.database, self._settings, self._clock)
        steps = (ready, self.follower.sync_all, self.awaiting.resume)
        try:
            if repeat_steps(steps, self._stopped, _NOT_YET):
                self._run_threads(started)
        finally:
            self.follower.close()
            self._records.close()
            self.database.dispose()

    def _run_threads(self, started: Callable[[], None]) -> None:
        threads = [
            Thread(target=self._follow, name="nova-follower"),
            Thread(target=self._await, name="nova-outcomes"),
            Thread(target=self._announce_start, args=(started,), name="start", daemon=True),
        ]
        for thread in threads:
            thread.start()
        try:
            self.tap.run()
        finally:
            self.stop()
            for thread in threads[:2]:
                thread.join(GRACE)
            LOG.info("%s", self.awaiting.agreement)

    def handle(self, body: object) -> None:
        """Evaluate a message if it is a call of ``select_destinations``.

        Raises :class:`Unavailable` if this service's own database does not answer.
        """
        try:
            call = read_call(body)
        except Invalid as unreadable:
            LOG.warning("a message to nova's schedulers cannot be read: %s", unreadable.detail)
            return
        if call is None:
            return
        problem = ""
        try:
            if request := self._evaluator.evaluate(call):
                self.awaiting.add(request)
        except Unavailable:
            raise
        except Exception as failure:
            # From any plugin: the next calls count too. The text may contain passwords.
            problem = type(failure).__name__
            LOG.debug("the call failed", exc_info=failure)
        if problem:
            LOG.error("%s could not be evaluated: unexpected %s", call.ids.request_id, problem)

    def _follow(self) -> None:
        delete_old_rows = OldRowDeletion(self.database, self._settings, self._clock)
        while not self._stopped.is_set():
            delete_old_rows()
            if self._read_again.is_set():
                self._read_again.clear()
                self._live.reload()
                repeat_steps([self.follower.sync_all], self._stopped, _NOT_YET)
            self._stopped.wait(min(self.follower.sync_due(), AGAIN))

    def _await(self) -> None:
        last_summary = monotonic()
        while not self._stopped.wait(PAUSE):
            try:
                self.awaiting.step()
            except Exception:
                LOG.exception("nova's outcomes could not be compared")
            if monotonic() - last_summary >= SUMMARY:
                last_summary = monotonic()
                LOG.info("%s", self.awaiting.agreement)

    def _announce_start(self, started: Callable[[], None]) -> None:
        self.tap.is_open.wait()
        started()


def serve(settings: Settings, transport: NovaBus, started: Callable[[str], None]) -> None:
    """Run until SIGTERM or SIGINT, and call ``started`` with the name of the queue."""
    notifier = Notifier()
    shadow = Shadow(settings, transport)

    def stop(number: int, _frame: object) -> None:
        notifier.stop()
        LOG.info("stopping: %s", signal.Signals(number).name)
        shadow.stop()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGHUP, lambda _number, _frame: shadow.read_all_again())
    notifier.start()
    shadow.run(lambda: started(shadow.tap.name))
    LOG.info("stopped")
