# SPDX-License-Identifier: Apache-2.0
"""Notifications of the start and end of scheduling requests, sent to the bus."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from multiprocessing.util import Finalize
from queue import Full, Queue
from typing import Any, NamedTuple

from oslo_log import log

from placement_sched.clients.session import silence_library_logs
from placement_sched.config.conf import read_files
from placement_sched.config.options.notifications import (
    GROUP,
    UNVERSIONED,
    VERSIONED,
    oslo_messaging,
    set_exchange,
)
from placement_sched.config.opts import Conf
from placement_sched.config.settings import Settings
from placement_sched.errors import ConfigurationError
from placement_sched.model.document import Json
from placement_sched.model.request_spec import RequestSpec
from placement_sched.notifications import payloads
from placement_sched.notifications.event import END, ERROR, START, Event, Reason

LOG = log.getLogger(__name__)

#: Drivers that send nothing; the configuration sample has an empty driver.
_NO_DRIVER = frozenset({"", "noop"})


class Announcer:
    """Announce the start and the result of scheduling requests.

    Without settings it sends nothing. Each process has its own sender, created at the first
    notification, so that forked workers share neither connections nor threads.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._senders: dict[int, Sender] = {}

    @contextmanager
    def announcing(self, spec: RequestSpec) -> Iterator[None]:
        """Announce the start of a request, and at the end its result or error."""
        self._notify(Event(START, spec))
        try:
            yield
        except Exception as failure:
            self._notify(Event(ERROR, spec, Reason.of(failure)))
            raise
        self._notify(Event(END, spec))

    def close(self) -> None:
        """Send the queued notifications, if the bus accepts them soon."""
        sender = self._senders.pop(os.getpid(), None)
        if sender is not None:
            sender.close()

    def _notify(self, event: Event) -> None:
        settings = self._settings
        if settings is None:
            return
        try:
            # No lock: a child that is forked while another thread holds it would wait forever.
            pid = os.getpid()
            sender = self._senders.get(pid)
            if sender is None:
                sender = self._senders.setdefault(pid, Sender(lambda: Bus(settings)))
            sender.put(event)
        except Exception:
            LOG.exception("a notification was not sent")


#: The announcer that sends nothing.
SILENT = Announcer()


def announcer_of(settings: Settings) -> Announcer:
    """Create the announcer that ``[oslo_messaging_notifications]`` configures.

    Raises :class:`~placement_sched.errors.ConfigurationError` if its options are invalid.
    """
    if not set(settings.oslo_messaging_notifications.driver) - _NO_DRIVER:
        return SILENT
    Bus(settings).close()
    return Announcer(settings)


#: The entry point group of the values of ``driver``.
_DRIVERS = "oslo.messaging.notify.drivers"
#: Maximum number of queued events for a bus that does not accept them. Others are dropped.
WAITING = 1000
#: Seconds to wait at shutdown for the bus to accept the queued events.
GRACE = 5.0


class _Context(NamedTuple):
    """User and project of the request, in the form of a message's context in nova."""

    user_id: str | None
    project_id: str | None

    def redacted_copy(self) -> dict[str, Any]:
        """Return the fields to send, for oslo.messaging."""
        return {**self._asdict(), "user": self.user_id, "project": self.project_id}


class Bus:
    """Connection to the message bus, for use by a single thread.

    Connects at the first message. Raises :class:`~placement_sched.errors.ConfigurationError` if the
    options are invalid.
    """

    def __init__(self, settings: Settings) -> None:
        options, host = settings.oslo_messaging_notifications, settings.DEFAULT.host
        drivers = [name for name in options.driver if name]
        available = sorted(entry_points(group=_DRIVERS).names)
        for name in drivers:
            if name not in available:
                text = f"unknown driver {name!r}; there are {', '.join(available)}"
                raise ConfigurationError(f"[{GROUP}] driver: {text}")
        library = oslo_messaging()
        set_exchange()
        # A separate oslo.config object with the same files: the library registers many options,
        # some of them under names of this service's options.
        conf = read_files(Conf(), settings.conf.config_file)
        try:
            with silence_library_logs():
                transport = library.get_notification_transport(conf, options.transport_url)
        except library.MessagingException as error:
            text = " ".join(str(error).split())
            raise ConfigurationError(f"[{GROUP}] transport_url: {text}") from None
        conf.set_override("driver", drivers, GROUP)
        conf.set_override("retry", options.retry, GROUP)
        self._transport: Any = transport
        self._settings = settings.notifications
        senders = {
            UNVERSIONED: (f"scheduler.{host}", options.topics),
            VERSIONED: (f"nova-scheduler:{host}", self._settings.versioned_notifications_topics),
        }
        self._notifiers = {
            form: library.Notifier(transport, publisher_id=publisher, topics=topics)
            for form, (publisher, topics) in senders.items()
        }

    def send(self, event: Event) -> None:
        """Send the enabled messages of an event."""
        context = _Context(event.spec.user_id, event.spec.project_id)
        priority = "error" if event.phase == ERROR else "info"
        for form, request, payload in self._messages(event):
            notify = getattr(self._notifiers[form], priority)
            notify(context, f"scheduler.{request}.{event.phase}", payload)

    def close(self) -> None:
        """Close the connections."""
        self._transport.cleanup()

    def _messages(self, event: Event) -> Iterator[tuple[str, str, Json]]:
        notification_format = self._settings.notification_format
        if self._settings.notify_on_run_instance and event.phase in {START, END}:
            yield UNVERSIONED, "run_instance", payloads.run_instance(event)
        if notification_format != VERSIONED:
            yield UNVERSIONED, "select_destinations", payloads.unversioned(event)
        if notification_format != UNVERSIONED:
            yield VERSIONED, "select_destinations", payloads.versioned(event)


class Sender:
    """A queue of events, and a thread that sends them in order.

    The thread starts at the first event, and calls ``open_bus``.
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
        """Queue an event, or drop it with a warning if the queue is full."""
        self._start()
        try:
            self._queue.put_nowait(event)
        except Full:
            with self._lock:
                self._lost += 1
                is_first = self._lost == 1
            if is_first:
                LOG.warning(
                    "the message bus accepts no notifications: %d queued, others dropped",
                    self._queue.qsize(),
                )
            return
        if self._lost:
            with self._lock:
                lost, self._lost = self._lost, 0
            LOG.warning("the message bus accepts notifications again: %d were dropped", lost)

    def flush(self, timeout: float) -> bool:
        """Return whether the queue was sent within ``timeout`` seconds."""
        if self._thread is None or self._pid != os.getpid():
            return True
        done = threading.Event()
        try:
            self._queue.put(done, timeout=timeout)
        except Full:
            return False
        return done.wait(timeout)

    def close(self) -> None:
        """Send the queued events, if the bus accepts them soon, and stop the thread."""
        if self._at_exit is not None:
            self._at_exit.cancel()
        if self._thread is None or self._pid != os.getpid():
            return
        if self.flush(GRACE):
            self._queue.put(None)
            self._thread.join(GRACE)
        else:
            LOG.warning(
                "the message bus accepts no notifications: %d were not sent", self._queue.qsize()
            )

    def _start(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="notifications", daemon=True
                )
                self._thread.start()
                # Unlike atexit, this works in workers of multiprocessing, and does nothing in
                # forked children.
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
                # No failure may affect the request, which is already answered.
                LOG.exception("a notification was not sent")
        if bus is not None:
            bus.close()
