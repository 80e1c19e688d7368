# SPDX-License-Identifier: Apache-2.0
"""Base class of work that a process repeats periodically."""

from abc import ABC, abstractmethod
from threading import Lock, Thread
from time import monotonic
from typing import ClassVar

from oslo_log import log

from placement_sched.errors import Error, sentence

LOG = log.getLogger(__name__)

#: Seconds between two rounds of most tasks.
PAUSE = 60.0


class PeriodicTask(ABC):
    """Work that a process repeats in rounds, at least ``pause`` seconds apart.

    Any thread may call the task, before and between requests. Most calls only read the clock. A
    round runs in a thread named ``thread_name``, or without a name in the thread of the caller.
    ``failure`` begins the log messages about failures, after which the next round tries again.
    """

    thread_name: ClassVar[str] = ""
    failure: ClassVar[str]
    pause = PAUSE

    def __init__(self, delay: float = 0.0) -> None:
        """Set the seconds until the first round."""
        self._turn = Lock()
        self._next = monotonic() + delay

    def __call__(self) -> None:
        """Run a round, or start its thread, if the round is due."""
        if monotonic() < self._next or self._turn.locked() or not self.is_due():
            return
        if self.thread_name:
            Thread(target=self._run, name=self.thread_name, daemon=True).start()
        else:
            self._run()

    def _run(self) -> None:
        """Run a round, unless another thread runs it or has just run it."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            if monotonic() < self._next:
                return
            self._next = monotonic() + self.pause
            self.run_round()
        except Error as failure:
            LOG.warning("%s: %s", self.failure, sentence(failure))
        except Exception:
            LOG.exception(self.failure)
        finally:
            self._turn.release()

    def is_due(self) -> bool:
        """Return whether there may be work.

        Called whenever the task is called after the pause.
        """
        return True

    @abstractmethod
    def run_round(self) -> None:
        """Do the work.

        May change ``_next``, the earliest time of the next round.
        """
