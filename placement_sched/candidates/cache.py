# SPDX-License-Identifier: Apache-2.0
"""Provider cache of a process, which follows the change log."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from threading import Lock, Thread
from time import monotonic
from typing import Any

from oslo_log import log

from placement_sched.candidates.columns import ProviderColumns
from placement_sched.candidates.tree_index import TreeIndex
from placement_sched.db.transaction import Connection
from placement_sched.errors import Unavailable, format_one_line
from placement_sched.model.provider import SHARES
from placement_sched.store.placement import provider_state
from placement_sched.store.placement.change_log import ChangeLog, Changes

LOG = log.getLogger(__name__)

#: Seconds until the cache is tried again after it was disabled.
_PAUSE = 60.0
#: Seconds that a request waits for a reload by another request. Then it searches the database.
MAX_LOAD_WAIT = 0.2
#: If more providers have changed, all are reloaded in parts, to bound the memory for their rows.
MAX_CHANGED_PROVIDERS = 20_000
#: Names of the background threads: a thread loads all providers, another checks the cache.
LOAD_THREAD, CHECK_THREAD = "load provider cache", "check provider cache"
#: Seconds that rows of the change log may be missing after they were read, because Galera nodes
#: may lag.
MAX_LAG = 2.0
#: Seconds between two reads of late rows (see ``change_log``): by the background thread, by a
#: request if the process was idle, and the minimum after a long transaction.
LATE_PAUSE, MAX_LATE_PAUSE, MIN_LATE_PAUSE = 5.0, 10.0, 1.0
#: Seconds between two comparisons of all providers with the database.
COMPARE_PAUSE = 300.0


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """Figures of a provider cache, for metrics.

    ``seconds`` is the last full load. ``repairs`` counts providers that the log has missed.
    """

    providers: int = 0
    nbytes: int = 0
    refreshes: int = 0
    full_readings: int = 0
    seconds: float = 0.0
    repairs: int = 0


class ProviderCache:
    """All providers of the cloud, in the memory of this process.

    All threads share the cache. They read it within :meth:`lock_columns`, so that no thread reads a
    partial change. Only a single thread at a time loads rows, while other threads read the cache.
    """

    def __init__(
        self,
        changes: ChangeLog,
        clock: Callable[[], float] = monotonic,
        report: Callable[[CacheFigures], None] = lambda _figures: None,
        open_connection: Callable[[], AbstractContextManager[Connection]] | None = None,
    ) -> None:
        """Create an empty cache for the change log ``changes``.

        ``clock`` is in seconds. ``report`` is called with the figures whenever they change.
        ``open_connection`` opens a connection for the background thread that loads all providers
        while requests search the database. Without it, the first request loads all providers
        itself.
        """
        self._log, self._clock, self._report = changes, clock, report
        self._open_connection = open_connection
        self._lock, self._load_lock = Lock(), Lock()
        #: Position in the log up to which changes are applied, None if the cache is out of date.
        self._position: Any = None
        self._columns: ProviderColumns | None = None
        self._index: TreeIndex | None = None
        self._not_before = -_PAUSE
        #: Time of the first read that lacked earlier rows of the log, None if no rows are missing.
        self._lacking_since: float | None = None
        #: Times of the last read of late rows and of the last comparison of all providers.
        self._late_rows_read_at = self._compared_at = self._clock()
        self._has_late_rows = False
        self._check_lock = Lock()
        self._reason = ""
        self.figures = CacheFigures()

    def refresh(self, connection: Connection) -> bool:
        """Apply all committed changes, and return whether the cache can be used.

        Sends a single SQL statement if nothing has changed. Returns False if the change log is not
        available, while all providers are being loaded, and after an error. The request can then
        search in the database. If the connection is lost, its error is raised instead.
        """
        try:
            return self._apply_changes(connection)
        except Exception as failure:
            if getattr(failure, "connection_invalidated", False):
                raise
            LOG.debug("the provider cache failed", exc_info=True)
            self._disable(_describe_failure(failure))
            return False

    @property
    def is_loading(self) -> bool:
        """Return whether all providers are being loaded for the first time."""
        return not self.figures.full_readings and self._load_lock.locked()

    def wait(self, seconds: float) -> None:
        """Wait at most this many seconds for a thread that loads all providers."""
        if self._load_lock.acquire(timeout=seconds):
            self._load_lock.release()

    def _apply_changes(self, connection: Connection) -> bool:
        position = self._position
        if position is None:
            if not self._start_loading(connection):
                return False
            position = self._position
        changes = self._read_log(connection, position)
        if changes.lacks_rows:
            return False
        if changes.is_empty:
            with self._lock:
                if self._position is position:
                    self._position = changes.position
            return True
        must_wait = not self._load_lock.acquire(blocking=False)
        if must_wait and not self._load_lock.acquire(timeout=MAX_LOAD_WAIT):
            return False
        is_handed_over = False
        try:
            if must_wait and self._position is not None:  # another thread has applied changes
                later = self._read_log(connection, self._position)
                # Late rows are returned only once.
                changes = replace(
                    later,
                    providers=changes.providers | later.providers,
                    names=changes.names or later.names,
                )
            if self._position is None or changes.lacks_rows:
                return False
            if _needs_full_load(changes):
                reason = "the change log lacks rows that were read before, or all providers changed"
                if not changes.needs_full_reload:
                    reason = f"{len(changes.providers)} providers may have changed"
                LOG.info("loading all providers: %s", reason)
                is_handed_over = self._start_full_load(connection)
            else:
                self._load_changed(connection, changes)
            return self._position is not None
        finally:
            if not is_handed_over:
                self._load_lock.release()

    def _read_log(self, connection: Connection, position: Any) -> Changes:
        """Read the changes since ``position``, and late rows if they are due."""
        changes = self._log.read(connection, position)
        if changes.lacks_rows:
            now = self._clock()
            self._lacking_since = now if self._lacking_since is None else self._lacking_since
            lacks_rows = now - self._lacking_since < MAX_LAG
            return replace(changes, lacks_rows=lacks_rows, needs_full_reload=True)
        self._lacking_since = None
        now = self._clock()
        elapsed = now - self._late_rows_read_at
        self._has_late_rows |= changes.has_late_rows
        if (
            elapsed >= LATE_PAUSE
            and self._open_connection
            and self._check_lock.acquire(blocking=False)
        ):
            self._late_rows_read_at = now
            arguments = (self._open_connection,)
            Thread(
                target=self._run_checks_in_thread, args=arguments, name=CHECK_THREAD, daemon=True
            ).start()
        if (self._has_late_rows and elapsed >= MIN_LATE_PAUSE) or elapsed >= MAX_LATE_PAUSE:
            self._late_rows_read_at, self._has_late_rows = now, False
            return changes.merge(self._log.read_late_rows(connection, changes.position))
        return changes

    def _run_checks_in_thread(
        self, open_connection: Callable[[], AbstractContextManager[Connection]]
    ) -> None:
        try:
            self.run_checks(open_connection)
        finally:
            self._check_lock.release()

    def run_checks(self, open_connection: Callable[[], AbstractContextManager[Connection]]) -> None:
        """Apply late rows, check triggers, and compare all providers if due."""
        try:
            with open_connection() as connection:
                self._apply_late_rows(connection)
                if (reason := self._log.find_defect(connection)) is not None:
                    self._disable(reason)
                elif self._clock() - self._compared_at >= COMPARE_PAUSE:
                    self._compared_at = self._clock()
                    self.compare(connection)
        except Exception as failure:
            LOG.debug("the check of the provider cache failed", exc_info=True)
            LOG.info("the provider cache could not be checked: %s", _describe_failure(failure))

    def _apply_late_rows(self, connection: Connection) -> None:
        with self._load_lock:
            if self._position is None:
                return
            changes = self._log.read(connection, self._position)
            if changes.lacks_rows:
                return
            changes = changes.merge(self._log.read_late_rows(connection, changes.position))
            if _needs_full_load(changes):
                with self._lock:
                    self._position = None  # the next request starts to load all providers
            elif changes.is_empty:
                self._position = changes.position
            else:
                self._load_changed(connection, changes)

    def compare(self, connection: Connection) -> frozenset[int]:
        """Compare all providers with the database, and reload differences.

        Compares generations and used amounts. Returns the ids that the change log has missed.
        """
        sums = provider_state.read_sums(connection)
        with self._load_lock:
            columns = self._columns
            if columns is None or self._position is None:
                return frozenset()
            own = columns.compute_sums()
            batches = [key for key in sums.keys() | own.keys() if sums.get(key) != own.get(key)]
            if not batches:
                return frozenset()
            ids = set(columns.list_ids_in_batches(batches)) | provider_state.list_ids_in_batches(
                connection, batches
            )
            rows = provider_state.read_providers(connection, ids)
            # Providers that have changed since the sums were read may differ.
            changes = self._log.read(connection, self._position)
            changes = changes.merge(self._log.read_late_rows(connection, changes.position))
            if changes.lacks_rows or changes.needs_full_reload:
                return frozenset()
            differing = frozenset(columns.find_differing_providers(ids, rows) - changes.providers)
            if differing:
                LOG.error(
                    "%d cached providers differ from the database without an entry in the change "
                    "log and are reloaded",
                    len(differing),
                )
                self.figures = replace(self.figures, repairs=self.figures.repairs + len(differing))
                with self._lock_for_change():
                    columns.replace(differing, provider_state.read_providers(connection, differing))
                self._report(self.figures)
            return differing

    def _start_loading(self, connection: Connection) -> bool:
        if self._clock() < self._not_before or not self._load_lock.acquire(blocking=False):
            return False
        is_handed_over = False
        try:
            if self._position is None:
                with self._lock:  # free the memory of the outdated cache
                    self._columns = self._index = None
                is_handed_over = self._start_full_load(connection)
            return self._position is not None
        finally:
            if not is_handed_over:
                self._load_lock.release()

    def _disable(self, reason: str) -> None:
        """Disable the cache for a minute and log the reason once."""
        with self._lock:
            self._position = None
        self._not_before = self._clock() + _PAUSE
        self.figures = replace(self.figures, providers=0, nbytes=0)
        self._report(self.figures)
        if reason != self._reason:
            self._reason = reason
            LOG.warning(
                "the provider cache is off for now, and SQL finds candidates more slowly: %s "
                "(to keep it off, set [placement] providers_in_memory = false)",
                reason,
            )

    def _start_full_load(self, connection: Connection) -> bool:
        """Load all providers, and return whether a thread took over the load lock."""
        with self._lock:
            self._position = None
        if self._open_connection is None:
            self._load_all(connection)
            return False
        Thread(
            target=self._run_load, args=(self._open_connection,), name=LOAD_THREAD, daemon=True
        ).start()
        return True

    def _run_load(self, open_connection: Callable[[], AbstractContextManager[Connection]]) -> None:
        try:
            with open_connection() as connection:
                self._load_all(connection)
        except Exception as failure:
            LOG.debug("the provider cache failed", exc_info=True)
            self._disable(_describe_failure(failure))
        finally:
            self._load_lock.release()

    def _load_changed(self, connection: Connection, changes: Changes) -> None:
        """Load the changed providers again, under the load lock of the caller."""
        columns = self._get_columns()
        names = provider_state.read_names(connection) if changes.names else columns.names
        rows = provider_state.read_providers(connection, changes.providers)
        with self._lock_for_change():
            if names is not columns.names:
                columns.set_names(names)
            columns.replace(changes.providers, rows)
        self._position = changes.position
        self._report_figures(columns, refreshes=self.figures.refreshes + 1)

    def _load_all(self, connection: Connection) -> None:
        # Triggers that are missing may be the reason for loading all providers.
        if (reason := self._log.find_defect(connection)) is not None:
            self._disable(reason)
            return
        began = self._clock()
        position = self._log.begin(connection)
        columns = ProviderColumns(provider_state.read_names(connection))
        for batch in provider_state.read_all_providers(connection):
            columns.replace([row[0] for row in batch.providers], batch)
        # Each part was read at a different time, so providers changed since then are reloaded.
        changes = self._log.read(connection, position)
        if changes.lacks_rows or changes.needs_full_reload:  # a reload would fail in the same way
            self._disable("the change log lacks changes written while all providers were loaded")
            return
        if changes.names:
            columns.set_names(provider_state.read_names(connection))
        columns.replace(
            changes.providers, provider_state.read_providers(connection, changes.providers)
        )
        with self._lock:
            self._columns, self._index = columns, None
        self._position, self._reason, self._lacking_since = changes.position, "", None
        readings, seconds = self.figures.full_readings + 1, self._clock() - began
        self._report_figures(columns, full_readings=readings, seconds=seconds)

    def _report_figures(self, columns: ProviderColumns, **more: Any) -> None:
        size = {"providers": len(columns), "nbytes": columns.nbytes}
        self.figures = replace(self.figures, **size, **more)
        self._report(self.figures)

    @contextmanager
    def _lock_for_change(self) -> Iterator[None]:
        """Lock the cache, and reload all providers later if the change fails."""
        with self._lock:
            try:
                yield
            except BaseException:
                self._columns = self._index = self._position = None
                raise

    def _get_columns(self) -> ProviderColumns:
        if self._columns is None:
            raise Unavailable("the provider cache is being reloaded. Try again")
        return self._columns

    @contextmanager
    def lock_columns(self) -> Iterator[tuple[ProviderColumns, TreeIndex]]:
        """Lock the cache, and return its columns and tree index.

        Call :meth:`refresh` first. Use columns and tree index only if it has returned True.
        """
        with self._lock:
            columns = self._get_columns()
            if self._index is None or not self._index.is_current:
                self._index = TreeIndex(columns, columns.names.traits.get(SHARES))
            yield columns, self._index


def _describe_failure(failure: Exception) -> str:
    """Describe an error without its SQL statement."""
    error = getattr(failure, "orig", None) or failure
    return f"{type(error).__name__}: {format_one_line(error)}"


def _needs_full_load(changes: Changes) -> bool:
    return changes.needs_full_reload or len(changes.providers) > MAX_CHANGED_PROVIDERS
