"""A queue of events, and the thread of this process that puts them on the bus."""

import os
import threading
from collections.abc import Callable
from multiprocessing.util import Finalize
from queue import Full, Queue

from oslo_log import log

from placement_sched.notifications.bus import Bus
from placement_sched.notifications.event import Event

LOG = log.getLogger(__name__)

#: How many events wait for a bus that does not take them. Those that come then are lost.
WAITING = 1000
#: Seconds for which who ends waits for the bus to take what is left.
GRACE = 5.0


class Sender:
    """Takes events at once, and sends them in this order as soon as the bus takes them.

    ``open_bus`` is called by the thread, which starts at the first event.
    """

    def __init__(self, open_bus: Callable[[], Bus], *, waiting: int = WAITING) -> None:
        self._open_bus = open_bus
        self._queue: Queue[Event | threading.Event | None] = Queue(waiting)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._pid = os.getpid()
        self._lost = 0
        self._at_exit: Finalize | None = None

    def put(self, event: Event) -> None:
        """Take an event; where too many wait it is lost, which is logged."""
        self._start()
        try:
            self._queue.put_nowait(event)
        except Full:
            self._lose()
        else:
            self._found()

    def flush(self, timeout: float) -> bool:
        """Wait until what was put before is sent; return whether it was in that many seconds."""
        if self._thread is None or self._pid != os.getpid():
            return True
        done = threading.Event()
        try:
            self._queue.put(done, timeout=timeout)
        except Full:
            return False
        return done.wait(timeout)

    def close(self) -> None:
        """Send what is left, if the bus takes it soon, and end."""
        if self._at_exit is not None:
            self._at_exit.cancel()
        if self._thread is None or self._pid != os.getpid():
            return
        if self.flush(GRACE):
            self._queue.put(None)
            self._thread.join(GRACE)
        else:
            LOG.warning("the message bus takes nothing: %d are not sent", self._queue.qsize())

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="notifications", daemon=True
                )
                self._thread.start()
                # Unlike atexit it also works in a worker that multiprocessing started, and it
                # leaves alone a child that was forked.
                self._at_exit = Finalize(None, self.close, exitpriority=0)

    def _work(self) -> None:
        bus: Bus | None = None
        while (item := self._queue.get()) is not None:
            if isinstance(item, threading.Event):
                item.set()
                continue
            try:
                bus = bus or self._open_bus()
                bus.send(item)
            except Exception:
                # Whatever it is, it is not the fault of the request, which was answered already.
                LOG.exception("a notification is not sent")
        if bus is not None:
            bus.close()

    def _lose(self) -> None:
        with self._lock:
            self._lost += 1
            first = self._lost == 1
        if first:
            LOG.warning(
                "the message bus does not take notifications: %d wait, others are lost",
                self._queue.qsize(),
            )

    def _found(self) -> None:
        if not self._lost:
            return
        with self._lock:
            lost, self._lost = self._lost, 0
        LOG.warning("the message bus takes notifications again: %d were lost", lost)
