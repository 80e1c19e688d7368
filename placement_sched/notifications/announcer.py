"""Notifies of requests for hosts: that they began, and how they ended."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.model.request_spec import RequestSpec
from placement_sched.notifications.bus import Bus, Sender
from placement_sched.notifications.event import END, ERROR, START, Event, Reason

LOG = log.getLogger(__name__)

#: Drivers that send nothing; the configuration sample has an empty one.
_NO_DRIVER = frozenset({"", "noop"})


class Announcer:
    """Notifies of requests as its settings say; without settings it sends nothing.

    Each process has a sender of its own, made at the first notification: connections and
    threads of a server that forks stay its own.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._senders: dict[int, Sender] = {}

    @contextmanager
    def announcing(self) -> Iterator[Callable[[RequestSpec], None]]:
        """Give a function to call once the request is known; notify then how it ended."""
        taken: list[RequestSpec] = []

        def began(spec: RequestSpec) -> None:
            taken.append(spec)
            self._notify(Event(START, spec))

        try:
            yield began
        except Exception as failure:
            for spec in taken:
                self._notify(Event(ERROR, spec, Reason.of(failure)))
            raise
        for spec in taken:
            self._notify(Event(END, spec))

    def close(self) -> None:
        """Send what is left, if the bus takes it soon."""
        sender = self._senders.pop(os.getpid(), None)
        if sender is not None:
            sender.close()

    def _notify(self, event: Event) -> None:
        """Put it in the queue: what goes wrong there or later is logged, and fails no request."""
        settings = self._settings
        if settings is None:
            return
        try:
            # No lock guards this: a child forked while another thread holds one never gets it.
            pid = os.getpid()
            sender = self._senders.get(pid)
            if sender is None:
                sender = self._senders.setdefault(pid, Sender(lambda: Bus(settings)))
            sender.put(event)
        except Exception:
            LOG.exception("a notification was not sent")


#: Sends nothing.
SILENT = Announcer()


def announcer_of(settings: Settings) -> Announcer:
    """Return the announcer that ``[oslo_messaging_notifications]`` describes.

    Raises :class:`~placement_sched.errors.ConfigurationError` where its options do not fit.
    """
    if not set(settings.oslo_messaging_notifications.driver) - _NO_DRIVER:
        return SILENT
    Bus(settings).close()
    return Announcer(settings)
