"""The provider cache of a process: read once, and kept current by the change log."""

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
from placement_sched.errors import Unavailable, one_line
from placement_sched.model.provider import SHARES
from placement_sched.store.placement import provider_state
from placement_sched.store.placement.change_log import ChangeLog, Changes

LOG = log.getLogger(__name__)

#: Seconds until a log that was not kept is asked about again.
_PAUSE = 60.0
#: Seconds that a request waits for what another one reads; the database answers it as well.
PATIENCE = 0.2
#: Of more changed providers all are read, in parts: their rows would take too much memory.
MANY = 20_000
#: Names of the threads that read all providers, and that compare them, beside requests.
THREAD, UPKEEP_THREAD = "providers in memory", "upkeep of providers in memory"
#: Seconds for which known rows of the change log may be missing: a node of a Galera cluster may be
#: that late.
MAX_LAG = 2.0
#: Seconds between two searches for late rows: by a thread; by a request, if the process was idle;
#: and at least, after a long transaction.
LATE_PAUSE, MAX_LATE_PAUSE, MIN_LATE_PAUSE = 5.0, 10.0, 1.0
#: Seconds between two comparisons of all providers with the database.
COMPARE_PAUSE = 300.0


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """Figures of a provider cache. ``seconds`` is the duration of the last full reading.

    ``repairs`` counts the providers that differed though the change log did not say so.
    """

    providers: int = 0
    nbytes: int = 0
    refreshes: int = 0
    full_readings: int = 0
    seconds: float = 0.0
    repairs: int = 0


class ProviderCache:
    """The cloud in this process's memory.

    Threads share it. What is asked of it is asked while it is :meth:`held`, so that no question
    sees a change half made; what is read for it is read by one thread at a time, beside questions.
    """

    def __init__(
        self,
        changes: ChangeLog,
        clock: Callable[[], float] = monotonic,
        report: Callable[[CacheFigures], None] = lambda _figures: None,
        opened: Callable[[], AbstractContextManager[Connection]] | None = None,
    ) -> None:
        """``clock`` is in seconds; ``report`` is called with the figures whenever they change.

        ``opened`` gives a connection on which a thread reads all providers, while requests are
        answered by the database. Without, a request that finds them unread reads them itself.
        """
        self._log, self._clock, self._report = changes, clock, report
        self._opened = opened
        self._lock, self._reading = Lock(), Lock()
        #: Up to where the log was followed; None where what is held is no longer up to date.
        self._position: Any = None
        self._cloud: ProviderColumns | None = None
        self._shape: tuple[int, TreeIndex] | None = None
        self._not_before = -_PAUSE
        #: Since when known rows of the log are missing; None while they are there.
        self._lacking_since: float | None = None
        #: When late rows were last looked for, and all providers last compared.
        self._looked_at = self._compared_at = self._clock()
        self._has_late_rows = False
        self._upkeep = Lock()
        self._reason = ""
        self.figures = CacheFigures()

    def refresh(self, connection: Connection) -> bool:
        """Apply all changes committed so far; return whether there is a cache.

        One statement where nothing has changed, and one more for some thousands of providers that
        have. There is none where the log of changes is not kept, and while all providers are read.
        Whatever goes wrong leaves none, for the database answers as well; but where the connection
        is lost, that is raised.
        """
        try:
            return self._is_brought_up_to_date(connection)
        except Exception as failure:
            if getattr(failure, "connection_invalidated", False):
                raise
            LOG.debug("the providers in memory", exc_info=True)
            self._do_without(_words_of(failure))
            return False

    @property
    def is_loading(self) -> bool:
        """Whether all providers are being read for the first time."""
        return not self.figures.full_readings and self._reading.locked()

    def wait(self, seconds: float) -> None:
        """Wait for a thread that reads all providers, for so long at most."""
        if self._reading.acquire(timeout=seconds):
            self._reading.release()

    def _is_brought_up_to_date(self, connection: Connection) -> bool:
        position = self._position
        if position is None:
            if not self._begin(connection):
                return False
            position = self._position
        seen = self._seen(connection, position)
        if seen.lacks_rows:
            return False
        if not (seen.is_in_doubt or seen.providers or seen.names):
            with self._lock:
                if self._position is position:
                    self._position = seen.position
            return True
        waited = not self._reading.acquire(blocking=False)
        if waited and not self._reading.acquire(timeout=PATIENCE):
            return False
        handed_on = False
        try:
            if waited and self._position is not None:  # another thread has read something by now
                later = self._seen(connection, self._position)
                # Late rows are found once.
                seen = replace(
                    later,
                    providers=seen.providers | later.providers,
                    names=seen.names or later.names,
                )
            if self._position is not None and not seen.lacks_rows:
                handed_on = self._follow(connection, seen)
            return self._position is not None and not seen.lacks_rows
        finally:
            if not handed_on:
                self._reading.release()

    def _seen(self, connection: Connection, position: Any) -> Changes:
        """Return what the log says; late rows are looked for if it is time to."""
        seen = self._log.read(connection, position)
        if seen.lacks_rows:
            now = self._clock()
            self._lacking_since = now if self._lacking_since is None else self._lacking_since
            lacks_rows = now - self._lacking_since < MAX_LAG
            return replace(seen, lacks_rows=lacks_rows, is_in_doubt=True)
        self._lacking_since = None
        now = self._clock()
        pause = now - self._looked_at
        self._has_late_rows |= seen.has_late_rows
        if pause >= LATE_PAUSE and self._opened and self._upkeep.acquire(blocking=False):
            self._looked_at = now
            arguments = (self._opened,)
            Thread(target=self._keep_up, args=arguments, name=UPKEEP_THREAD, daemon=True).start()
        if (self._has_late_rows and pause >= MIN_LATE_PAUSE) or pause >= MAX_LATE_PAUSE:
            self._looked_at, self._has_late_rows = now, False
            return seen.and_then(self._log.read_late_rows(connection, seen.position))
        return seen

    def _keep_up(self, opened: Callable[[], AbstractContextManager[Connection]]) -> None:
        try:
            self.keep_up(opened)
        finally:
            self._upkeep.release()

    def keep_up(self, opened: Callable[[], AbstractContextManager[Connection]]) -> None:
        """Look for late rows and lost triggers; compare all providers from time to time."""
        try:
            with opened() as connection:
                self._look_for_late_rows(connection)
                if (reason := self._log.why_not_kept(connection)) is not None:
                    self._do_without(reason)
                elif self._clock() - self._compared_at >= COMPARE_PAUSE:
                    self._compared_at = self._clock()
                    self.compare(connection)
        except Exception as failure:
            LOG.debug("the upkeep of the providers in memory", exc_info=True)
            LOG.info("the providers in memory were not compared: %s", _words_of(failure))

    def _look_for_late_rows(self, connection: Connection) -> None:
        with self._reading:
            if self._position is None:
                return
            seen = self._log.read(connection, self._position)
            if not seen.lacks_rows:
                seen = seen.and_then(self._log.read_late_rows(connection, seen.position))
                self._take(connection, seen)

    def compare(self, connection: Connection) -> frozenset[int]:
        """Compare all providers with the database, repair those that differ; return their ids.

        Compared are generations and used amounts. Nothing differs unless the change log has missed
        something.
        """
        sums = provider_state.read_sums(connection)
        with self._reading:
            cloud = self._cloud
            if cloud is None or self._position is None:
                return frozenset()
            here = cloud.sums()
            batches = [key for key in sums.keys() | here.keys() if sums.get(key) != here.get(key)]
            if not batches:
                return frozenset()
            ids = set(cloud.ids_in(batches)) | provider_state.ids_in(connection, batches)
            found = provider_state.read_providers(connection, ids)
            # Providers that were written since need not be equal.
            seen = self._log.read(connection, self._position)
            seen = seen.and_then(self._log.read_late_rows(connection, seen.position))
            if seen.lacks_rows or seen.is_in_doubt:
                return frozenset()
            differing = frozenset(cloud.differing(ids, found) - seen.providers)
            if differing:
                LOG.error(
                    "%d providers in memory differ from the database, which the change log did not "
                    "say; they are repaired",
                    len(differing),
                )
                self.figures = replace(self.figures, repairs=self.figures.repairs + len(differing))
                with self._changing():
                    cloud.replace(differing, provider_state.read_providers(connection, differing))
                self._report(self.figures)
            return differing

    def _take(self, connection: Connection, seen: Changes) -> None:
        """Load again what has changed, by a thread that holds the lock of reading."""
        if seen.is_in_doubt or self._cloud is None or len(seen.providers) > MANY:
            with self._lock:
                self._position = None
            self._read_if_kept(connection)
        elif seen.providers or seen.names:
            self._follow(connection, seen)
        else:
            self._position = seen.position

    def _begin(self, connection: Connection) -> bool:
        if self._clock() < self._not_before or not self._reading.acquire(blocking=False):
            return False
        handed_on = False
        try:
            if self._position is None:
                with self._lock:  # what was of no use for so long
                    self._cloud = self._shape = None
                handed_on = self._read_again(connection)
            return self._position is not None
        finally:
            if not handed_on:
                self._reading.release()

    def _do_without(self, reason: str) -> None:
        """Let requests search the database for a while, and say why, once."""
        with self._lock:
            self._position = None
        self._not_before = self._clock() + _PAUSE
        self.figures = replace(self.figures, providers=0, nbytes=0)
        self._report(self.figures)
        if reason != self._reason:
            self._reason = reason
            LOG.warning(
                "candidates are searched for in the database, which takes longer than in memory: "
                "%s ([placement] providers_in_memory = false if this is to stay so)",
                reason,
            )

    def _read_again(self, connection: Connection) -> bool:
        """Read all providers, or let a thread do so; return whether it got the lock of reading.

        What requests are asking already goes on being answered from what was known before.
        """
        with self._lock:
            self._position = None
        if self._opened is None:
            self._read_if_kept(connection)
            return False
        Thread(target=self._read_beside, args=(self._opened,), name=THREAD, daemon=True).start()
        return True

    def _read_beside(self, opened: Callable[[], AbstractContextManager[Connection]]) -> None:
        try:
            with opened() as connection:
                self._read_if_kept(connection)
        except Exception as failure:
            LOG.debug("the providers in memory", exc_info=True)
            self._do_without(_words_of(failure))
        finally:
            self._reading.release()

    def _read_if_kept(self, connection: Connection) -> None:
        # The log in doubt may mean that nothing writes it any more.
        if (reason := self._log.why_not_kept(connection)) is not None:
            self._do_without(reason)
        else:
            self._read_all(connection)

    def _follow(self, connection: Connection, seen: Changes) -> bool:
        """Read what has changed; return whether a thread got the lock of reading."""
        cloud = self._cloud
        if cloud is None or seen.is_in_doubt or len(seen.providers) > MANY:
            LOG.info("reading all providers: %s", _why(seen))
            return self._read_again(connection)
        names = provider_state.read_names(connection) if seen.names else cloud.names
        found = provider_state.read_providers(connection, seen.providers)
        with self._changing():
            cloud.names = names
            if seen.names:
                cloud.shape += 1
            cloud.replace(seen.providers, found)
        self._position = seen.position
        self._count(cloud, refreshes=self.figures.refreshes + 1)
        return False

    def _read_all(self, connection: Connection) -> None:
        began = self._clock()
        position = self._log.begin(connection)
        cloud = ProviderColumns(provider_state.read_names(connection))
        for some in provider_state.read_all_providers(connection):
            cloud.replace([row[0] for row in some.providers], some)
        # Each part was read at a moment of its own; what has changed meanwhile is read again.
        seen = self._log.read(connection, position)
        if seen.lacks_rows or seen.is_in_doubt:  # it would be at each request
            self._do_without("what was written meanwhile is not known from the log of changes")
            return
        if seen.names:
            cloud.names = provider_state.read_names(connection)
        cloud.replace(seen.providers, provider_state.read_providers(connection, seen.providers))
        with self._lock:
            self._cloud, self._shape = cloud, None
        self._position, self._reason, self._lacking_since = seen.position, "", None
        readings, seconds = self.figures.full_readings + 1, self._clock() - began
        self._count(cloud, full_readings=readings, seconds=seconds)

    def _count(self, cloud: ProviderColumns, **more: Any) -> None:
        size = {"providers": len(cloud), "nbytes": cloud.nbytes}
        self.figures = replace(self.figures, **size, **more)
        self._report(self.figures)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the cache for a change; if that fails, all providers are read again."""
        with self._lock:
            try:
                yield
            except BaseException:
                self._cloud = self._shape = self._position = None
                raise

    def _known(self) -> ProviderColumns:
        if self._cloud is None:
            raise Unavailable("the providers in memory are being read again; try again")
        return self._cloud

    @contextmanager
    def held(self) -> Iterator[tuple[ProviderColumns, TreeIndex]]:
        """Give the cloud and its shape, which no other thread changes meanwhile.

        To be asked after :meth:`refresh` has returned True.
        """
        with self._lock:
            cloud, shape = self._known(), self._shape
            if shape is None or shape[0] != cloud.shape:
                shares = cloud.names.traits.get(SHARES)
                shape = self._shape = (cloud.shape, TreeIndex(cloud, shares))
            yield cloud, shape[1]


def _words_of(failure: Exception) -> str:
    """Return what failed, without the statement that a database's failure was about."""
    said = getattr(failure, "orig", None) or failure
    return f"{type(said).__name__}: {one_line(said)}"


def _why(seen: Changes) -> str:
    if seen.is_in_doubt:
        return "the change log lacks rows that were read before, or says that all may be changed"
    return f"{len(seen.providers)} may have changed"
