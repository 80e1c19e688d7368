# SPDX-License-Identifier: Apache-2.0
"""How bodies are read: by the event loop under ``serve``, by a thread under other WSGI servers."""

import asyncio
from io import BytesIO
from selectors import SelectSelector

import pytest
from werkzeug.test import run_wsgi_app

from placement_sched.api import serving
from placement_sched.api.serving import (
    DISCARDED,
    FULL,
    INCOMPLETE,
    SLOW,
    SMALL,
    BodyMemory,
    BodyReader,
)

MOST = 1000


def echo(environ, start_response):
    """A WSGI application that looks at the body only after it has begun to answer."""
    start_response("200 OK", [])
    return [environ["CONTENT_LENGTH"].encode(), b" ", environ["wsgi.input"].read()]


class Stream(BytesIO):
    """What a server gives, a few bytes at a time."""

    def read(self, size=-1):
        return super().read(min(size, 7) if size >= 0 else -1)


def ask(data, **environ):
    stream = Stream(data)
    asked = {"wsgi.input": stream, "REQUEST_METHOD": "PUT", **environ}
    content, status, _ = run_wsgi_app(BodyReader(echo, MOST), asked)
    return status, b"".join(content), stream.tell()


def test_a_body_is_read_whole_and_no_further():
    assert ask(b"x" * 100 + b"GET /", CONTENT_LENGTH="100") == ("200 OK", b"100 " + b"x" * 100, 100)


def test_a_body_of_chunks_has_a_length_for_the_application():
    chunked = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    assert ask(b"x" * 100, **chunked) == ("200 OK", b"100 " + b"x" * 100, 100)


@pytest.mark.parametrize(
    "announced",
    [
        {"CONTENT_LENGTH": "5000"},
        {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True},
    ],
)
def test_a_body_above_the_limit_is_read_and_dropped(announced):
    assert ask(b"x" * 5000, **announced) == ("200 OK", b"5000 ", 5000)


def test_a_body_beyond_all_bounds_is_not_read():
    length = str(DISCARDED + 1)
    assert ask(b"x" * 5000, CONTENT_LENGTH=length) == ("200 OK", length.encode() + b" ", 0)


@pytest.mark.parametrize("length", ["", "0", "-5", "x", "²"])
def test_no_length_is_no_body(length):
    assert ask(b"GET /", CONTENT_LENGTH=length)[2] == 0


def test_a_body_that_ends_early_is_400_and_not_answered_by_the_application():
    status, content, _ = ask(b"x" * 10, CONTENT_LENGTH="100")
    assert status == "400 Bad Request"
    assert INCOMPLETE.detail.encode() in content


def test_chunks_that_a_server_does_not_take_apart_are_411():
    assert ask(b"5\r\nhello", HTTP_TRANSFER_ENCODING="chunked")[0] == "411 Length Required"


class Sent:
    """The messages that a server sends for a body (ASGI), silence after them."""

    def __init__(self, *pieces, ended=True, gone=False):
        self._messages = [{"type": "http.request", "body": x, "more_body": True} for x in pieces]
        if ended:
            self._messages.append({"type": "http.request", "body": b"", "more_body": False})
        if gone:
            self._messages.append({"type": "http.disconnect"})

    async def __call__(self):
        if not self._messages:
            await asyncio.sleep(60)
        return self._messages.pop(0)


class Idling(SelectSelector):
    """Says at once that nothing happens, and counts the seconds for which it should have waited."""

    passed = 0.0

    def select(self, timeout=None):
        self.passed += timeout or 0.0
        return super().select(0)


class OwnTime(asyncio.SelectorEventLoop):
    """A loop for which only waiting takes time: no machine is too slow for it."""

    def __init__(self):
        self._idling = Idling()
        super().__init__(self._idling)

    def time(self):
        return self._idling.passed


def read(receive, *, bodies=None, **environ):
    with asyncio.Runner(loop_factory=OwnTime) as runner:
        return runner.run((bodies or BodyMemory(MOST, MOST)).read(environ, receive))


@pytest.mark.parametrize(
    "announced", [{"CONTENT_LENGTH": "6"}, {"HTTP_TRANSFER_ENCODING": "chunked"}]
)
def test_the_loop_reads_a_body_whole(announced):
    body = read(Sent(b"abc", b"def"), **announced)
    assert (body.data, body.amount) == (b"abcdef", 6)


def test_what_was_announced_and_has_come_is_not_waited_for():
    assert read(Sent(b"abc", ended=False), CONTENT_LENGTH="3").data == b"abc"


@pytest.mark.parametrize(
    ("receive", "refusal"),
    [
        (Sent(b"abc", ended=False, gone=True), INCOMPLETE),
        (Sent(b"abc"), INCOMPLETE),
        (Sent(b"abc", ended=False), SLOW),
    ],
)
def test_a_body_that_does_not_come_is_refused(monkeypatch, receive, refusal):
    monkeypatch.setattr(serving, "PATIENCE", 0.05)
    body = read(receive, CONTENT_LENGTH="6")
    assert (body.data, body.refusal, body.ended) == (b"", refusal, False)


def test_a_large_body_has_time_as_long_as_it_comes_at_the_least_rate(monkeypatch):
    class Steady:
        async def __call__(self):
            await asyncio.sleep(0.1)
            return {"type": "http.request", "body": b"x" * 100, "more_body": True}

    monkeypatch.setattr(serving, "PATIENCE", 0.4)
    monkeypatch.setattr(serving, "STEP", 100)
    assert len(read(Steady(), CONTENT_LENGTH="1000").data) == 1000
    monkeypatch.setattr(serving, "STEP", 800)
    assert read(Steady(), CONTENT_LENGTH="1000").refusal is SLOW


@pytest.mark.parametrize(
    "announced", [{"CONTENT_LENGTH": "1200"}, {"HTTP_TRANSFER_ENCODING": "chunked"}]
)
def test_the_loop_drops_what_is_above_the_limit(announced):
    body = read(Sent(b"x" * 600, b"x" * 600), **announced)
    assert (body.data, body.amount, body.refusal, body.ended) == (b"", 1200, None, True)


@pytest.mark.parametrize(
    "announced",
    [
        {"CONTENT_LENGTH": str(DISCARDED + 1)},
        {"CONTENT_LENGTH": "1200", "HTTP_EXPECT": "100-Continue"},
    ],
)
def test_what_need_not_come_is_not_asked_for(announced):
    body = read(None, **announced)
    assert (body.amount, body.ended) == (int(announced["CONTENT_LENGTH"]), False)


def test_large_bodies_share_the_memory_and_small_ones_are_always_taken():
    bodies = BodyMemory(10 * SMALL, room=3 * SMALL)
    large = {"CONTENT_LENGTH": str(2 * SMALL)}

    def sent():
        return Sent(*[b"x" * SMALL] * 2)

    first = read(sent(), bodies=bodies, **large)
    second = read(sent(), bodies=bodies, **large)
    assert (first.refusal, second.refusal, second.data, second.ended) == (None, FULL, b"", True)
    assert read(Sent(b"x" * SMALL), bodies=bodies, CONTENT_LENGTH=str(SMALL)).refusal is None
    bodies.release(first)
    assert read(sent(), bodies=bodies, **large).refusal is None
