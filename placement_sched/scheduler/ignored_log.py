"""Logs what requests say without effect: each key and value once, not with every request."""

from collections.abc import Iterable
from threading import Lock

from oslo_log import log

from placement_sched.model.ignored import Ignored

LOG = log.getLogger(__name__)

#: So many different keys and values are remembered. Of more, the oldest may be logged again.
MOST = 1000


class IgnoredLog:
    """What one process has logged already; for any number of threads."""

    def __init__(self) -> None:
        self._logged: dict[int, None] = {}
        self._lock = Lock()

    def log(self, ignored: Iterable[Ignored]) -> None:
        """Log each of these that was not logged before."""
        for one in ignored:
            if self._is_new(one):
                LOG.warning("%s", one.detail)

    def _is_new(self, one: Ignored) -> bool:
        known = hash(one)  # of one size, however long the value is
        with self._lock:
            if known in self._logged:
                return False
            if len(self._logged) >= MOST:
                del self._logged[next(iter(self._logged))]
            self._logged[known] = None
            return True
