# SPDX-License-Identifier: Apache-2.0
"""A TCP proxy in front of a database that cuts connections at their COMMIT."""

import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum

from sqlalchemy.engine import make_url

#: The delay of a COMMIT by ``CommitCut.AFTER_DISCONNECT``, in seconds.
LATE_COMMIT_DELAY = 0.3
#: Maximum seconds until held data are passed on.
_MAX_HOLD_SECONDS = 120
_MAX_RECEIVED_BYTES = 2**16
#: A COMMIT of a transaction that has written, and inserts its commit mark in the same query. A new
#: connection also commits, before any transaction begins.
_WRITING_COMMIT_PATTERN = re.compile(rb"\bsched_commit_marks\b.*\bCOMMIT\b", re.DOTALL)


class CommitCut(Enum):
    #: The COMMIT does not reach the database.
    BEFORE_DATABASE = "before"
    #: The connection is cut while the COMMIT is sent on.
    WHILE_SENT = "under way"
    #: The database has responded, and the response does not reach the client.
    BEFORE_RESPONSE = "answered"
    #: The COMMIT reaches the database a while after the client has lost its connection.
    AFTER_DISCONNECT = "late"


class ConnectionCuttingProxy(threading.Thread):
    """A proxy that cuts connections at their next COMMITs according to ``planned_cuts``."""

    def __init__(self, server: tuple[str, int], listening: socket.socket | None = None) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._listening = listening or socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self.host, self.port = self._listening.getsockname()
        #: The cuts of the next COMMITs. Later COMMITs pass.
        self.planned_cuts: list[CommitCut] = []
        #: Whether the database is away now, and whether it goes away at the next cut.
        self.refuses_connections = False
        self.refuses_after_cut = False
        self._clients: set[socket.socket] = set()
        #: Number of COMMITs that were cut.
        self.cuts = 0
        #: Whether to hold back the next COMMIT and all data that follow on any connection.
        self.holds_commit = False
        self._may_pass = threading.Event()
        self._may_pass.set()

    def run(self) -> None:
        while not self._over.is_set():
            with suppress(OSError):
                client, _address = self._listening.accept()
                if self.refuses_connections:
                    client.close()
                    continue
                self._clients.add(client)
                threading.Thread(target=self._forward_data, args=(client,), daemon=True).start()

    def stop(self) -> None:
        """Accept no more connections, and cut the open connections."""
        self._over.set()
        self.release_data()
        # The database might otherwise wait for a client whose end it does not notice.
        self.cut_connections()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def set_database_address(self, server: tuple[str, int]) -> None:
        self._server = server

    def hold_back_data(self) -> None:
        """Hold back the data of both sides on all connections until :meth:`release_data`.

        The kernel still acknowledges packets and new connections.
        """
        self._may_pass.clear()

    def release_data(self) -> None:
        """Pass on the data that were held back, and all later data."""
        self.holds_commit = False
        self._may_pass.set()

    def cut_connections(self) -> None:
        while self._clients:
            with suppress(OSError):
                self._clients.pop().shutdown(socket.SHUT_RDWR)

    def _forward_data(self, client: socket.socket) -> None:
        with client, suppress(OSError), socket.create_connection(self._server) as server:
            for connection in (client, server):
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # select() accepts no descriptor above 1023, and a long run of tests reaches that.
            poll = select.poll()
            for connection in (client, server):
                poll.register(connection, select.POLLIN)
            while True:
                ready = {number for number, _ in poll.poll()}
                if server.fileno() in ready:
                    piece = server.recv(_MAX_RECEIVED_BYTES)
                    self._may_pass.wait(_MAX_HOLD_SECONDS)
                    client.sendall(piece)
                else:
                    piece = client.recv(_MAX_RECEIVED_BYTES)
                    if _WRITING_COMMIT_PATTERN.search(piece) and self.planned_cuts:
                        self._cut_at_commit(client, server, piece)
                        return
                    if self.holds_commit and _WRITING_COMMIT_PATTERN.search(piece):
                        self.hold_back_data()
                    self._may_pass.wait(_MAX_HOLD_SECONDS)
                    server.sendall(piece)
                if not piece:
                    return

    def _cut_at_commit(self, client: socket.socket, server: socket.socket, piece: bytes) -> None:
        cut = self.planned_cuts.pop(0)
        self.cuts += 1
        if self.refuses_after_cut:
            self.refuses_connections = True
            self.cut_connections()
        if cut is CommitCut.AFTER_DISCONNECT:
            client.close()
            time.sleep(LATE_COMMIT_DELAY)
        if cut is not CommitCut.BEFORE_DATABASE:
            server.sendall(piece)
        if cut in {CommitCut.BEFORE_RESPONSE, CommitCut.AFTER_DISCONNECT}:
            server.recv(_MAX_RECEIVED_BYTES)


@contextmanager
def run_database_proxy(
    url: str, listening: socket.socket | None = None
) -> Iterator[tuple[ConnectionCuttingProxy, str]]:
    """Run a proxy in front of the server of a database, and yield the proxy and its URL.

    It listens on ``listening``, or on a new port of loopback.
    """
    direct = make_url(url)
    ports = {"postgresql": 5432, "mysql": 3306}
    address = (direct.host or "127.0.0.1", direct.port or ports[direct.get_backend_name()])
    proxy = ConnectionCuttingProxy(address, listening)
    proxy.start()
    proxied = direct.set(host=proxy.host, port=proxy.port)
    try:
        yield proxy, proxied.render_as_string(hide_password=False)
    finally:
        proxy.stop()
        proxy.join(timeout=60)
