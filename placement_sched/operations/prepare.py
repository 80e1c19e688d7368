# SPDX-License-Identifier: Apache-2.0
"""Preparation of the database and the candidate search at start."""

import ctypes
import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from random import Random
from tempfile import TemporaryDirectory
from threading import Lock, Semaphore

from oslo_log import log

from placement_sched.candidates.providers import ProviderSource
from placement_sched.candidates.search import find, prepare, render_summaries
from placement_sched.config.settings import Settings
from placement_sched.db.migrate import (
    check_revision,
    get_newest_revision,
    read_current_revision,
    sync_schema,
)
from placement_sched.db.transaction import Connection, Database
from placement_sched.errors import Invalid, NewerSchema, Unavailable
from placement_sched.model.candidates_query import CandidatesQuery, RequestGroup
from placement_sched.model.clock import Clock, utcnow
from placement_sched.operations.adopt import check_adopted, sync_standard_names

LOG = log.getLogger(__name__)
#: Maximum number of threads that prepare the database or wait for its preparation. The remaining
#: threads of a server can answer health checks.
MAX_PREPARING = 3
#: Seconds that a thread waits for another thread to prepare the database.
_MAX_WAIT = 3.0
#: Net allocations of objects that start a garbage collection (Python's default: 700).
_GC_THRESHOLD = 10_000
_BUSY = "the database is being prepared. Try again"
#: A typical query, with the limit of nova.
_WARM_UP_QUERY = CandidatesQuery(
    groups=(RequestGroup(resources=(("VCPU", 1), ("MEMORY_MB", 1), ("DISK_GB", 1))),), limit=1000
)


def sync(database: Database, clock: Clock) -> None:
    """Create or upgrade the schema, or raise :class:`NotAdopted`."""

    def run() -> None:
        check_adopted(database)
        sync_schema(database)
        database.enable_commit_marks()
        sync_standard_names(database, clock)

    # Other servers may prepare the schema concurrently on other nodes of a database cluster.
    database.retry(run)


@contextmanager
def open_temporary_database(settings: Settings) -> Iterator[tuple[Database, Settings]]:
    """Yield an empty temporary SQLite database, and settings that name it."""
    with TemporaryDirectory(prefix="placement_sched-") as folder:
        values = {
            "placement_database.connection": f"sqlite:///{folder}/empty.db",
            "placement_database.connection_parameters": "",
            "placement.providers_in_memory": False,
        }
        settings = settings.with_overrides(values)
        with Database(settings) as database:
            sync(database, utcnow)
            yield database, settings


def check_schema_revision(database: Database) -> None:
    """Raise Unavailable or NotAdopted for a schema of another release."""
    revision, newest = read_current_revision(database), get_newest_revision()
    if revision != newest:
        check_adopted(database)
        check_revision(revision)
        raise Unavailable(
            f"the database schema is at revision {revision or 'none'}, this release requires "
            f"{newest}. Run placement-sched db sync"
        )
    database.enable_commit_marks()


def can_sync(settings: Settings, database: Database) -> bool:
    """Return whether a server prepares the database itself when it starts."""
    # No other service uses the file of the embedded SQLite.
    embedded = database.url.get_backend_name() == "sqlite"
    return embedded or bool(settings.placement_database.sync_on_startup)


class Preparation:
    """Task that prepares the database once, and runs before every request.

    After the first success, a call only runs all tasks of ``periodic_tasks``. Until then, each call
    tries again. At most :data:`MAX_PREPARING` threads prepare the database or wait for this. Any
    further call raises :class:`Unavailable` at once.

    ``accepted`` is shared by the workers of a server, and becomes true when a worker finds the
    schema of this release. From then on, all workers of the server, including replacements of
    workers, also accept the schema of a newer release (rolling upgrade).
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        clock: Clock,
        periodic_tasks: Sequence[Callable[[], None]] = (),
        accepted: ctypes.c_bool | None = None,
    ) -> None:
        self._accepted = ctypes.c_bool(False) if accepted is None else accepted
        self._may_sync = can_sync(settings, database)
        self._database, self._clock, self._periodic_tasks = database, clock, periodic_tasks
        self._slots, self._lock = Semaphore(MAX_PREPARING), Lock()
        self._done = False

    def __call__(self) -> None:
        """Prepare the database, or raise :class:`Unavailable`."""
        if not self._done:
            if not self._slots.acquire(blocking=False):
                raise Unavailable(_BUSY)
            try:
                if not self._lock.acquire(timeout=_MAX_WAIT):
                    raise Unavailable(_BUSY)
                try:
                    if not self._done:
                        self._prepare()
                        self._done = True
                finally:
                    self._lock.release()
            finally:
                self._slots.release()
        self.run_refresh()

    def run_refresh(self) -> None:
        """Run the periodic tasks, between requests, if the database is prepared."""
        if self._done:
            for task in self._periodic_tasks:
                task()

    def _prepare(self) -> None:
        try:
            if self._may_sync:
                sync(self._database, self._clock)
            else:
                check_schema_revision(self._database)
                sync_standard_names(self._database, self._clock)
        except NewerSchema as failure:
            if not self._accepted.value:
                raise
            LOG.warning(
                "this worker, like its server, continues with the schema of a newer release: %s",
                failure.detail,
            )
            self._database.enable_commit_marks()
        self._accepted.value = True


def warm_up(
    database: Database,
    sources: Callable[[Connection], ProviderSource],
    settings: Settings,
    random: Random,
) -> None:
    """Search for candidates once, so that the first request is not slow.

    The search compiles the statements, opens a connection and reads provider summaries. A rejected
    query is ignored. Raises :class:`Unavailable` if the database is unavailable.
    """
    with database.read() as connection, suppress(Invalid):
        source = sources(connection)
        search = prepare(source, _WARM_UP_QUERY)
        providers = find(source, search, settings, random).providers
        trees = source.list_tree_providers([provider.id for provider in providers])
        render_summaries(source, trees)


def freeze_loaded_objects() -> None:
    """Exclude loaded objects from garbage collection, and collect less often.

    Loaded modules are never garbage, and a response of thousands of rows should not start many
    collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
