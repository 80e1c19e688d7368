"""The client of the races reads whole answers, and tells broken ones."""

import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from plain_http import Broken, ask

Server = Callable[[bytes], tuple[int, list[bytes]]]


@pytest.fixture
def answering() -> Iterator[Server]:
    """Give a function that starts a server of one answer; it returns port and what was sent."""
    threads, listeners = [], []

    def serve(answer: bytes) -> tuple[int, list[bytes]]:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)
        seen: list[bytes] = []

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                seen.append(connection.recv(65536))
                connection.sendall(answer)

        threads.append(threading.Thread(target=run))
        threads[-1].start()
        return listener.getsockname()[1], seen

    yield serve
    for thread in threads:
        thread.join()
    for listener in listeners:
        listener.close()


def test_answer_is_read_whole(answering):
    body = b"x" * 3_000_000
    port, seen = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n" + body)
    assert ask(port, "PUT /a HTTP/1.1\r\nX-Auth-Token: admin", b"{}") == (200, body)
    assert seen == [
        b"PUT /a HTTP/1.1\r\nX-Auth-Token: admin\r\n"
        b"Host: 127.0.0.1:%d\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}" % port
    ]


def test_answer_without_a_body_is_read(answering):
    port, _ = answering(b"HTTP/1.1 204 No Content\r\nserver: here\r\n\r\n")
    assert ask(port, "DELETE /a HTTP/1.1") == (204, b"")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nfour",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Le",
    ],
)
def test_broken_answer_is_told(answering, answer):
    port, _ = answering(answer)
    with pytest.raises(Broken):
        ask(port, "GET /a HTTP/1.1")
