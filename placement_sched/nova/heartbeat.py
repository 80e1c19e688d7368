"""The heartbeat of a scheduler, in nova's database and its own, and who else is there."""

from datetime import datetime, timedelta
from functools import partial
from threading import Event, Thread

from oslo_log import log

from placement_sched.db.transaction import Database
from placement_sched.errors import Error, sentence
from placement_sched.model.clock import Clock
from placement_sched.nova.databases.service_record import BINARY, Beat, ServiceRecord, record_of
from placement_sched.settings import Settings
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
