"""Makes a database fit for use: the schema where it may, standard traits and classes always."""

from collections.abc import Callable
from threading import Lock, Semaphore

from placement_sched.config.settings import Settings
from placement_sched.db.migrate import current_revision, newest_revision, sync_schema
from placement_sched.db.transaction import Database
from placement_sched.errors import Unavailable
from placement_sched.model.clock import Clock
from placement_sched.operations.adopt import refuse_unadopted
from placement_sched.operations.standards import sync_standards


def sync(database: Database, clock: Clock) -> None:
    """Create or upgrade the schema and synchronise standard traits and resource classes.

    Raises :class:`NotAdopted` for a database of OpenStack placement that is to be adopted first.
    """
    refuse_unadopted(database)
    sync_schema(database)
    sync_standards(database, clock)


#: Threads that may be busy with it, one preparing and the others waiting for that one: fewer than a
#: server has, so that some are left to tell that this process lives.
PLACES = 3
#: Seconds that a thread waits for the one that prepares, which is long for a database that answers.
PATIENCE = 3.0
_BUSY = "the database is being prepared; try again"


class Preparation:
    """Prepares the database once per process, at the first moment at which it answers.

    Called before every request, it costs one attribute read once done. While the database is
    absent each call tries again, so that the service recovers by itself; while it is locked, few
    wait for it. ``upkeep`` is called every time, once the database is fit.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Clock,
        upkeep: Callable[[], None] | None = None,
    ) -> None:
        # SQLite is embedded: its file is this service's own, and nobody else will prepare it.
        embedded = database.url.get_backend_name() == "sqlite"
        self._may_sync: bool = settings.placement_database.sync_on_startup or embedded
        self._database = database
        self._clock = clock
        self._places = Semaphore(PLACES)
        self._lock = Lock()
        self._done = False
        self._upkeep = upkeep

    def __call__(self) -> None:
        """Return once the database is fit; raise :class:`Unavailable` while it is not."""
        if not self._done:
            self._wait_for_it()
        if self._upkeep is not None:
            self._upkeep()

    def keep_up(self) -> None:
        """Do the upkeep though nobody asks for anything; nothing before the database is fit."""
        if self._done and self._upkeep is not None:
            self._upkeep()

    def _wait_for_it(self) -> None:
        if not self._places.acquire(blocking=False):
            raise Unavailable(_BUSY)
        try:
            self._in_turn()
        finally:
            self._places.release()

    def _in_turn(self) -> None:
        if not self._lock.acquire(timeout=PATIENCE):
            raise Unavailable(_BUSY)
        try:
            if not self._done:
                self._prepare()
                self._done = True
        finally:
            self._lock.release()

    def _prepare(self) -> None:
        if self._may_sync:
            sync(self._database, self._clock)
            return
        found, wanted = current_revision(self._database), newest_revision()
        if found != wanted:
            refuse_unadopted(self._database)
            raise Unavailable(
                f"the database schema is at revision {found}, this release wants {wanted}; "
                "run placement-sched db sync"
            )
        sync_standards(self._database, self._clock)
