# SPDX-License-Identifier: Apache-2.0
"""Notifications of the start and the end of scheduling requests."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from oslo_log import log

from placement_sched.config.settings import Settings
from placement_sched.model.request_spec import RequestSpec
from placement_sched.notifications.bus import Bus, Sender
from placement_sched.notifications.event import END, ERROR, START, Event, Reason

LOG = log.getLogger(__name__)

#: Drivers that send nothing; the configuration sample has an empty driver.
_NO_DRIVER = frozenset({"", "noop"})


class Announcer:
    """Notifier of requests.

    Without settings it sends nothing. Each process has its own sender, created at the first
    notification, so that forked workers share neither connections nor threads.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._senders: dict[int, Sender] = {}

    @contextmanager
    def announcing(self, spec: RequestSpec) -> Iterator[None]:
        """Notify of the start of a request, and of its result or error after the block."""
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
    """Return the announcer for ``[oslo_messaging_notifications]``.

    Raises :class:`~placement_sched.errors.ConfigurationError` if its options are invalid.
    """
    if not set(settings.oslo_messaging_notifications.driver) - _NO_DRIVER:
        return SILENT
    Bus(settings).close()
    return Announcer(settings)
