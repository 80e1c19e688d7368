"""How many threads may wait for SQLite's one write lock, so that others are left for reading."""

from threading import Lock, Semaphore
from types import TracebackType

from placement_sched.errors import Unavailable

LOCKED = "the database is locked by another writer; try again"

#: Writers that may be under way or wait for the lock: half of a server's threads.
PLACES = 2
#: Seconds that one more writer waits for a place, which is long for those that were given one.
PATIENCE = 3.0


class WriteGate:
    """Lets few writers in at a time; a context manager for any number of threads.

    Readers of SQLite never wait for writers, but a server's threads may all be taken by writers
    that wait for one of another process. Once somebody has waited here in vain, the next are
    refused at once, until one that was let in leaves.
    """

    def __init__(self, places: int = PLACES, patience: float = PATIENCE) -> None:
        self._places = Semaphore(places)
        self._patience = patience
        self._lock = Lock()
        self._stuck = False

    def __enter__(self) -> None:
        """Enter; raise :class:`Unavailable` where those inside do not get on."""
        if self._places.acquire(timeout=0 if self._stuck else self._patience):
            return
        with self._lock:
            self._stuck = True
        raise Unavailable(LOCKED)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leave, and let the next in."""
        with self._lock:
            self._stuck = False
        self._places.release()
