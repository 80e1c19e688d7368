# SPDX-License-Identifier: Apache-2.0
"""A private exchange on a real RabbitMQ in place of nova's, and a client that sends to it."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit

from kombu import Connection

from tests.nova.scheduling import Conductor


def convert_to_amqp_url(url: str) -> str:
    return url.replace("rabbit://", "amqp://")


@contextmanager
def run_conductor_on_exchange(url: str, exchange: str) -> Iterator[Conductor]:
    caller = Conductor(url, exchange)
    try:
        yield caller
    finally:
        caller.close()
        with Connection(convert_to_amqp_url(url)) as connection:
            connection.default_channel.exchange_delete(exchange)


def count_messages(url: str, queue: str) -> int | None:
    with Connection(convert_to_amqp_url(url)) as connection:
        try:
            return connection.default_channel.queue_declare(queue, passive=True).message_count
        except connection.channel_errors:
            return None


class BrokerProxy:
    """A TCP proxy of the broker whose connections a test can cut."""

    def __init__(self, url: str) -> None:
        address = urlsplit(convert_to_amqp_url(url))
        self._broker = (address.hostname or "127.0.0.1", address.port or 5672)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._refusing = threading.Event()
        port = self._listener.getsockname()[1]
        self.url = f"rabbit://{address.username}:{address.password}@127.0.0.1:{port}/"
        threading.Thread(target=self._forward_connections, daemon=True).start()

    def cut_connections(self) -> None:
        self._refusing.set()
        for connection in self._open:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self._open.clear()

    def accept_connections(self) -> None:
        self._refusing.clear()

    def close(self) -> None:
        self.cut_connections()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _forward_connections(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing.is_set():
                client.close()
                continue
            broker = socket.create_connection(self._broker)
            self._open += [client, broker]
            for ends in ((client, broker), (broker, client)):
                threading.Thread(target=_forward_bytes, args=ends, daemon=True).start()


def _forward_bytes(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)
    source.close()
