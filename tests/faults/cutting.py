# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy before a database, which cuts connections at their COMMITs."""

import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

from sqlalchemy.engine import make_url

#: Seconds for which :attr:`Cut.LATE` keeps a COMMIT back.
DELAY = 0.3
#: The longest silence, in seconds.
_HUSHED = 120
_PIECE = 2**16
#: That of a transaction that has written, which leaves its mark in the same query. A new connection
#: commits as well, before any work has begun.
_COMMIT = re.compile(rb"\bsched_commit_marks\b.*\bCOMMIT\b", re.DOTALL)


class Cut(Enum):
    """What becomes of a COMMIT."""

    #: It never comes to the database.
    BEFORE = "before"
    #: It is sent on, and the connection cut in the same moment.
    UNDER_WAY = "under way"
    #: The database has answered, and the answer does not come to the client.
    ANSWERED = "answered"
    #: The client has lost its connection for a while when the COMMIT comes to the database.
    LATE = "late"


class CuttingProxy(threading.Thread):
    """Passes connections on to a server; each of ``plan`` cuts one COMMIT."""

    def __init__(self, server: tuple[str, int], listening: socket.socket | None = None) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._listening = listening or socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self.host, self.port = self._listening.getsockname()
        #: What becomes of the next COMMITs; those after them pass.
        self.plan: list[Cut] = []
        #: Whether the database is away, for all connections; and whether from the next cut on.
        self.away = False
        self.then_away = False
        self._clients: set[socket.socket] = set()
        #: How many were cut.
        self.cuts = 0
        #: Whether the next COMMIT is kept back, with all that comes after it on any connection.
        self.hushes_commit = False
        self._speaks = threading.Event()
        self._speaks.set()

    def run(self) -> None:
        """Pass connections on until :meth:`stop`."""
        while not self._over.is_set():
            with suppress(OSError):
                client, _address = self._listening.accept()
                if self.away:
                    client.close()
                    continue
                self._clients.add(client)
                threading.Thread(target=self._pass, args=(client,), daemon=True).start()

    def stop(self) -> None:
        """Take no more connections, and cut those that there are."""
        self._over.set()
        self.release_data()
        # Else the database might wait for one whose end is never heard of, with its locks.
        self.cut_connections()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def set_target(self, server: tuple[str, int]) -> None:
        """Pass new connections on to another server."""
        self._server = server

    def hold_back_data(self) -> None:
        """Keep back what either side says, on all connections, until :meth:`speak`.

        The kernel goes on to acknowledge what a client sends, and new connections.
        """
        self._speaks.clear()

    def release_data(self) -> None:
        """Pass everything on again, first what was kept back."""
        self.hushes_commit = False
        self._speaks.set()

    def cut_connections(self) -> None:
        """Cut all connections that there are."""
        while self._clients:
            with suppress(OSError):
                self._clients.pop().shutdown(socket.SHUT_RDWR)

    def _pass(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._server) as server:
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # select() takes no descriptor above 1023, of which a long run of tests has some.
            both = select.poll()
            for one in (client, server):
                both.register(one, select.POLLIN)
            while True:
                ready = {number for number, _ in both.poll()}
                if server.fileno() in ready:
                    piece = server.recv(_PIECE)
                    self._speaks.wait(_HUSHED)
                    client.sendall(piece)
                else:
                    piece = client.recv(_PIECE)
                    if _COMMIT.search(piece) and self.plan:
                        self._cut(client, server, piece)
                        return
                    if self.hushes_commit and _COMMIT.search(piece):
                        self.hold_back_data()
                    self._speaks.wait(_HUSHED)
                    server.sendall(piece)
                if not piece:
                    return

    def _cut(self, client: socket.socket, server: socket.socket, piece: bytes) -> None:
        cut = self.plan.pop(0)
        self.cuts += 1
        if self.then_away:
            self.away = True
            self.cut_connections()
        if cut is Cut.LATE:
            client.close()
            time.sleep(DELAY)
        if cut is not Cut.BEFORE:
            server.sendall(piece)
        if cut in {Cut.ANSWERED, Cut.LATE}:
            server.recv(_PIECE)


@contextmanager
def run_proxy(
    url: str, listening: socket.socket | None = None
) -> Iterator[tuple[CuttingProxy, str]]:
    """Give a proxy before the server of a database, and the URL that goes through it.

    It listens on a port of loopback, or where ``listening`` does.
    """
    direct = make_url(url)
    ports = {"postgresql": 5432, "mysql": 3306}
    where = (direct.host or "127.0.0.1", direct.port or ports[direct.get_backend_name()])
    proxy = CuttingProxy(where, listening)
    proxy.start()
    through = direct.set(host=proxy.host, port=proxy.port)
    try:
        yield proxy, through.render_as_string(hide_password=False)
    finally:
        proxy.stop()
        proxy.join(timeout=60)
