# SPDX-License-Identifier: Apache-2.0
"""Messages of a service to systemd: the protocol of sd_notify(3)."""

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from threading import Thread
from time import sleep

#: Seconds between two checks whether the service is ready.
_PAUSE = 0.05
#: Seconds to wait for room in the queue of systemd. A signal handler waits too.
_MAX_WAIT = 1


class Notifier:
    """Sender of messages to systemd, which drops systemd's variables."""

    def __init__(self) -> None:
        address = os.environ.pop("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        microseconds = int(os.environ.pop("WATCHDOG_USEC", "0"))
        is_own = os.environ.pop("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        #: Seconds between two messages to the watchdog: half of its limit, or 0 without a watchdog.
        self._interval = microseconds / 2e6 if is_own else 0

    def start(
        self,
        is_ready: Callable[[], bool] = lambda: True,
        is_alive: Callable[[], bool] = lambda: True,
    ) -> None:
        """Send ``READY=1`` when ready, and then ``WATCHDOG=1`` while alive."""
        if self._address:
            Thread(target=self._run, args=(is_ready, is_alive), name="systemd", daemon=True).start()

    def stop(self) -> None:
        """Send ``STOPPING=1``."""
        self._send("STOPPING=1")

    def _run(self, is_ready: Callable[[], bool], is_alive: Callable[[], bool]) -> None:
        while not is_ready():
            sleep(_PAUSE)
        self._send("READY=1")
        while self._interval:
            if is_alive():
                self._send("WATCHDOG=1")
            sleep(self._interval)

    def _send(self, state: str) -> None:
        if self._address:
            with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagram:
                datagram.settimeout(_MAX_WAIT)
                datagram.sendto(state.encode(), self._address)
