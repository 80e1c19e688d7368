"""The worker processes of a server: a lock that they share, cores, and how a new one is stopped."""

import logging
import multiprocessing
import os
import signal
from asyncio import AbstractEventLoop
from functools import partial
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


def keep_early_signals(loop: AbstractEventLoop) -> None:
    """Let a signal stop a worker that has its handlers, and whose loop does not run yet.

    uvloop loses such a signal. Where a loop takes no handlers, granian sets plain ones, which are
    called at any time.
    """

    def refuse(*_handler: object) -> None:
        raise NotImplementedError

    loop.add_signal_handler = refuse  # type: ignore[method-assign, assignment]


def let_new_workers_stop() -> None:
    """Let each worker that is forked from now on die of SIGTERM and SIGINT until it serves.

    A forked child inherits the server's own handlers, which would note the signal for a loop that
    does not run there; granian gives a worker its handlers only once the application is made.
    Python drops a signal that a child gets before its first step, so signals wait until then.
    """
    stops = (signal.SIGTERM, signal.SIGINT)
    unblock = partial(signal.pthread_sigmask, signal.SIG_UNBLOCK, stops)

    def in_child() -> None:
        for stop in stops:
            signal.signal(stop, signal.SIG_DFL)
        unblock()

    block = partial(signal.pthread_sigmask, signal.SIG_BLOCK, stops)
    os.register_at_fork(before=block, after_in_parent=unblock, after_in_child=in_child)
