# SPDX-License-Identifier: Apache-2.0
"""The HTTP client of the benchmarks."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from plain_http import Broken, Client

pytestmark = pytest.mark.slow

HttpServerStarter = Callable[..., tuple[int, list[list[bytes]]]]


@pytest.fixture
def start_http_server() -> Iterator[HttpServerStarter]:
    """Give a function that starts a server, and returns its port and the requests.

    Each list has the responses of a connection, which the server then closes. After an empty
    response it waits until the client closes the connection.
    """
    threads, listeners = [], []

    def start_listener(*connections: list[bytes]) -> tuple[int, list[list[bytes]]]:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        seen: list[list[bytes]] = []

        def send_responses() -> None:
            for responses in connections:
                connection, _ = listener.accept()
                with connection:
                    seen.append([])
                    for response in responses:
                        if not response:
                            # Wait for the client.
                            connection.recv(65536)
                            break
                        seen[-1].append(connection.recv(65536))
                        connection.sendall(response)

        threads.append(threading.Thread(target=send_responses))
        threads[-1].start()
        return listener.getsockname()[1], seen

    yield start_listener
    for thread in threads:
        thread.join(timeout=60)
    for listener in listeners:
        listener.close()


def test_large_http_response_is_read(start_http_server):
    body = b"x" * 3_000_000
    port, seen = start_http_server([b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + body])
    client = Client(port)
    message = client.message("PUT /a HTTP/1.1\r\nX-Auth-Token: admin", b"{}")
    assert client.get_response(message) == (200, body)
    client.close()
    assert seen == [
        [
            b"PUT /a HTTP/1.1\r\nX-Auth-Token: admin\r\n"
            b"Host: 127.0.0.1:%d\r\nContent-Length: 2\r\n\r\n{}" % port
        ]
    ]


def test_open_http_connection_is_reused(start_http_server):
    empty = b"HTTP/1.1 204 No Content\r\nserver: here\r\n\r\n"
    port, seen = start_http_server([empty, empty, b""])
    client = Client(port)
    assert [client.get_response(client.message(f"DELETE /{name} HTTP/1.1")) for name in "ab"] == [
        (204, b"")
    ] * 2
    client.close()
    assert [len(requests) for requests in seen] == [2]


def test_http_connection_closed_by_the_server_is_replaced(start_http_server):
    response = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
    port, seen = start_http_server([response], [response], [response])
    client = Client(port, reuse=False)
    assert [client.get_response(client.message("GET /a HTTP/1.1")) for _ in range(3)] == [
        (200, b"a")
    ] * 3
    assert [len(requests) for requests in seen] == [1, 1, 1]


def test_malformed_http_response_is_reported(start_http_server):
    for response in (
        b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nfour",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nbody",
        b"HTTP/1.1 200 OK\r\nContent-Le",
    ):
        port, _ = start_http_server([response])
        with pytest.raises(Broken):
            Client(port).get_response(b"GET /a HTTP/1.1\r\n\r\n")
