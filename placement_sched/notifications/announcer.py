"""Tells of requests for hosts: that they were taken up, and how they ended."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.model.spec import RequestSpec
from placement_sched.notifications.bus import Bus
from placement_sched.notifications.event import END, ERROR, START, Event, Reason
from placement_sched.notifications.sender import Sender

LOG = log.getLogger(__name__)

#: Takes a request that is taken up.
Began = Callable[[RequestSpec], None]


class Announcer:
    """Tells of requests by the settings it was given; without any it tells nobody.

    Each process has a sender of its own, made when there is something to tell: connections and
    threads of a server that forks stay its own.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._senders: dict[int, Sender] = {}

    @contextmanager
    def telling(self) -> Iterator[Began]:
        """Give whom to call once a request can be told of, and tell then how it ended."""
        taken: list[RequestSpec] = []

        def began(spec: RequestSpec) -> None:
            taken.append(spec)
            self._tell(Event(START, spec))

        try:
            yield began
        except Exception as failure:
            for spec in taken:
                self._tell(Event(ERROR, spec, Reason.of(failure)))
            raise
        for spec in taken:
            self._tell(Event(END, spec))

    def close(self) -> None:
        """Send what is left, if the bus takes it soon."""
        sender = self._senders.pop(os.getpid(), None)
        if sender is not None:
            sender.close()

    def _tell(self, event: Event) -> None:
        """Put it in the queue: what goes wrong there or later is logged, and fails no request."""
        settings = self._settings
        if settings is None:
            return
        try:
            self._sender(settings).put(event)
        except Exception:
            LOG.exception("a notification is not sent")

    def _sender(self, settings: Settings) -> Sender:
        """Return the sender of this process.

        No lock guards it: a child that is forked while another thread holds one never gets it.
        """
        pid = os.getpid()
        found = self._senders.get(pid)
        return found or self._senders.setdefault(pid, Sender(lambda: Bus(settings)))


#: What tells nobody where it is written as a driver; the sample has an empty one.
_NO_DRIVER = frozenset({"", "noop"})

#: Tells nobody.
SILENT = Announcer()


def announcer_of(settings: Settings) -> Announcer:
    """Return who tells of requests as ``[oslo_messaging_notifications]`` says.

    Raises :class:`~placement_sched.errors.ConfigurationError` where its options do not fit.
    """
    if not set(settings.oslo_messaging_notifications.driver) - _NO_DRIVER:
        return SILENT
    Bus(settings).close()
    return Announcer(settings)
