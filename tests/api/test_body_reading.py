# SPDX-License-Identifier: Apache-2.0
"""Reading of bodies: in the event loop of ``serve``, and in threads of WSGI servers."""

import asyncio
from io import BytesIO
from selectors import SelectSelector

import pytest
from werkzeug.test import run_wsgi_app

from placement_sched.api import serving
from placement_sched.api.serving import FULL, INCOMPLETE, SLOW, BodyMemory, BodyReader
from placement_sched.config.options.api import API
from placement_sched.limits import MAX_DISCARDED_BYTES, MAX_UNCOUNTED_BYTES

MAX_BODY_BYTES = 1000


def echo_application(environ, start_response):
    """A WSGI application that reads the body after the start of its response."""
    start_response("200 OK", [])
    return [environ["CONTENT_LENGTH"].encode(), b" ", environ["wsgi.input"].read()]


class ShortReadStream(BytesIO):
    """A stream that returns at most seven bytes at a time."""

    def read(self, size=-1):
        return super().read(min(size, 7) if size >= 0 else -1)


def send_body(data, **environ):
    stream = ShortReadStream(data)
    request_environ = {"wsgi.input": stream, "REQUEST_METHOD": "PUT", **environ}
    content, status, _ = run_wsgi_app(BodyReader(echo_application, MAX_BODY_BYTES), request_environ)
    return status, b"".join(content), stream.tell()


def test_body_is_read_to_its_content_length():
    assert send_body(b"x" * 100 + b"GET /", CONTENT_LENGTH="100") == (
        "200 OK",
        b"100 " + b"x" * 100,
        100,
    )


def test_chunked_body_gets_a_content_length():
    chunked = {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True}
    assert send_body(b"x" * 100, **chunked) == ("200 OK", b"100 " + b"x" * 100, 100)


def test_body_above_the_limit_is_read_and_discarded():
    for announced in [
        {"CONTENT_LENGTH": "5000"},
        {"HTTP_TRANSFER_ENCODING": "chunked", "wsgi.input_terminated": True},
    ]:
        assert send_body(b"x" * 5000, **announced) == ("200 OK", b"5000 ", 5000), announced


def test_body_longer_than_the_discard_limit_is_not_read():
    length = str(MAX_DISCARDED_BYTES + 1)
    assert send_body(b"x" * 5000, CONTENT_LENGTH=length) == ("200 OK", length.encode() + b" ", 0)


def test_request_without_content_length_has_no_body():
    for length in ["", "0", "-5", "x", "²"]:
        assert send_body(b"GET /", CONTENT_LENGTH=length)[2] == 0, length


def test_truncated_body_is_400_without_a_call_of_the_application():
    status, content, _ = send_body(b"x" * 10, CONTENT_LENGTH="100")
    assert status == "400 Bad Request"
    assert INCOMPLETE.detail.encode() in content


def test_chunked_body_that_the_server_has_not_decoded_is_411():
    assert send_body(b"5\r\nhello", HTTP_TRANSFER_ENCODING="chunked")[0] == "411 Length Required"


class AsgiBodyMessages:
    """The ASGI messages of a body, and silence after them."""

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


class VirtualTimeSelector(SelectSelector):
    """A selector that returns at once and adds up the timeouts."""

    passed = 0.0

    def select(self, timeout=None):
        self.passed += timeout or 0.0
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock advances only while it waits, so that slow machines pass."""

    def __init__(self):
        self._idling = VirtualTimeSelector()
        super().__init__(self._idling)

    def time(self):
        return self._idling.passed


def read_body(receive, *, bodies=None, **environ):
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(
            (bodies or BodyMemory(MAX_BODY_BYTES, MAX_BODY_BYTES)).read(environ, receive)
        )


def test_event_loop_reads_the_whole_request_body():
    for announced in [{"CONTENT_LENGTH": "6"}, {"HTTP_TRANSFER_ENCODING": "chunked"}]:
        body = read_body(AsgiBodyMessages(b"abc", b"def"), **announced)
        assert (body.data, body.size) == (b"abcdef", 6), announced


def test_body_of_full_length_is_read_without_waiting_for_its_end():
    assert read_body(AsgiBodyMessages(b"abc", ended=False), CONTENT_LENGTH="3").data == b"abc"


@pytest.mark.parametrize(
    ("receive", "rejection"),
    [
        (AsgiBodyMessages(b"abc", ended=False, gone=True), INCOMPLETE),
        (AsgiBodyMessages(b"abc"), INCOMPLETE),
        (AsgiBodyMessages(b"abc", ended=False), SLOW),
    ],
)
def test_read_of_a_body_that_does_not_arrive_times_out(monkeypatch, receive, rejection):
    monkeypatch.setattr(serving, "MAX_BODY_WAIT", 0.05)
    body = read_body(receive, CONTENT_LENGTH="6")
    assert (body.data, body.rejection, body.is_complete) == (b"", rejection, False)


def test_large_body_is_accepted_at_the_minimum_rate(monkeypatch):
    class SteadyBody:
        async def __call__(self):
            await asyncio.sleep(0.1)
            return {"type": "http.request", "body": b"x" * 100, "more_body": True}

    monkeypatch.setattr(serving, "MAX_BODY_WAIT", 0.4)
    monkeypatch.setattr(serving, "BYTES_PER_WAIT", 100)
    assert len(read_body(SteadyBody(), CONTENT_LENGTH="1000").data) == 1000
    monkeypatch.setattr(serving, "BYTES_PER_WAIT", 800)
    assert read_body(SteadyBody(), CONTENT_LENGTH="1000").rejection is SLOW


def test_event_loop_discards_bytes_above_the_limit():
    for announced in [{"CONTENT_LENGTH": "1200"}, {"HTTP_TRANSFER_ENCODING": "chunked"}]:
        body = read_body(AsgiBodyMessages(b"x" * 600, b"x" * 600), **announced)
        assert (body.data, body.size, body.rejection, body.is_complete) == (
            b"",
            1200,
            None,
            True,
        ), announced


def test_largest_configurable_limit_is_at_most_the_size_that_is_read():
    (option,) = [option for option in API if option.name == "max_request_body_size"]
    assert option.type.max == MAX_DISCARDED_BYTES


def test_body_above_the_limit_or_with_expect_header_is_not_requested_from_the_client():
    for announced in [
        {"CONTENT_LENGTH": str(MAX_DISCARDED_BYTES + 1)},
        {"CONTENT_LENGTH": "1200", "HTTP_EXPECT": "100-Continue"},
    ]:
        body = read_body(None, **announced)
        assert (body.size, body.is_complete) == (int(announced["CONTENT_LENGTH"]), False), announced


def test_large_bodies_share_a_memory_limit_and_small_bodies_are_always_accepted():
    bodies = BodyMemory(10 * MAX_UNCOUNTED_BYTES, total=3 * MAX_UNCOUNTED_BYTES)
    large = {"CONTENT_LENGTH": str(2 * MAX_UNCOUNTED_BYTES)}

    def build_large_body():
        return AsgiBodyMessages(*[b"x" * MAX_UNCOUNTED_BYTES] * 2)

    first = read_body(build_large_body(), bodies=bodies, **large)
    second = read_body(build_large_body(), bodies=bodies, **large)
    assert (first.rejection, second.rejection, second.data, second.is_complete) == (
        None,
        FULL,
        b"",
        True,
    )
    assert (
        read_body(
            AsgiBodyMessages(b"x" * MAX_UNCOUNTED_BYTES),
            bodies=bodies,
            CONTENT_LENGTH=str(MAX_UNCOUNTED_BYTES),
        ).rejection
        is None
    )
    bodies.release(first)
    assert read_body(build_large_body(), bodies=bodies, **large).rejection is None
