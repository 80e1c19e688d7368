"""What the worker processes of a server need of the machine: a lock that they share, and cores."""

import logging
import multiprocessing
import os
from multiprocessing.synchronize import Lock

from placement_sched.errors import ConfigurationError

LOG = logging.getLogger(__name__)
#: Where the C library keeps the locks that processes share.
_SHARED = "/dev/shm"  # noqa: S108 - not ours to choose


def shared_lock() -> Lock:
    """Return a lock that a server shares with its workers.

    Raises :class:`ConfigurationError` where the machine allows none, as in a chroot or container
    whose ``/dev/shm`` is not there, full, or closed to the user of the service.
    """
    try:
        return multiprocessing.Lock()
    except OSError as failure:
        user = os.geteuid()
        raise ConfigurationError(
            f"worker processes cannot share a lock: {_SHARED}: {failure.strerror}; mount it as "
            f"tmpfs that user {user} may write, with mode 1777"
        ) from None


def warn_of_idle(workers: int) -> None:
    """Log where there are more workers than cores: each of them answers with one core at most."""
    cores = len(os.sched_getaffinity(0))
    if workers > max(cores, 2):  # a second one answers while the first is busy or replaced
        LOG.warning("%s workers on %s cores: as many as there are cores will do", workers, cores)
