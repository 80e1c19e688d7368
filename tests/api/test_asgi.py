"""The ASGI application of ``serve``: the environ that it makes, the answers that it passes on."""

import asyncio
import threading
import time
from http import HTTPStatus

import pytest

from placement_sched.api.serving.asgi import Bridge
from placement_sched.api.serving.body_reading import REFUSED, BodyRefusal
from placement_sched.api.serving.framing import MOST_OF_ONE

SCOPE = {
    "type": "http",
    "http_version": "1.1",
    "server": ("127.0.0.1", "8778"),
    "client": ("10.0.0.1", "4711"),
    "scheme": "http",
    "raw_path": b"/a%ff/%2f/%c3%a9/x%20y",
    "query_string": b"q=%ff&b=1",
    "headers": [(b"host", b"cloud:8778")],
    "method": "PUT",
}


def ask(application, *pieces, bare=False, **scope):
    """Return status, headers and content of the answer to a request."""
    messages = [{"type": "http.request", "body": piece, "more_body": True} for piece in pieces]
    messages.append({"type": "http.request", "more_body": False})
    sent = []

    async def receive():
        return messages.pop(0)

    async def send(message):
        sent.append(message)

    bridge = Bridge(application, most=1000, threads=1)
    if not bare:
        scope["headers"] = [*SCOPE["headers"], *scope.get("headers", ())]
    asyncio.run(bridge({**SCOPE, **scope}, receive, send))
    start, body = sent
    return start["status"], dict(start["headers"]), body["body"]


def refused(environ, start_response):
    """An application that answers what a request is refused with."""
    refusal = environ.get(REFUSED) or BodyRefusal(HTTPStatus.OK, "")
    start_response(f"{refusal.status.value} {refusal.status.phrase}", [])
    return [refusal.detail.encode()]


def environ_of(*pieces, **scope):
    seen = {}

    def application(environ, start_response):
        seen.update(environ, body=environ["wsgi.input"].read())
        start_response("204 No Content", [])
        return []

    assert ask(application, *pieces, **scope)[0] == 204
    return seen


def test_environ_is_that_of_pep_3333():
    environ = environ_of()
    expected = {
        "REQUEST_METHOD": "PUT",
        "SCRIPT_NAME": "",
        "PATH_INFO": "/a\xff///\xc3\xa9/x y",
        "QUERY_STRING": "q=%ff&b=1",
        "SERVER_NAME": "127.0.0.1",
        "SERVER_PORT": "8778",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "REMOTE_ADDR": "10.0.0.1",
        "wsgi.version": (1, 0),
        "wsgi.url_scheme": "http",
        "body": b"",
    }
    assert {key: environ[key] for key in expected} == expected
    assert "PATH" not in environ  # the process's own environment is no part of a request


def test_headers_are_joined_and_keep_their_bytes():
    headers = [
        (b"content-type", b"application/json"),
        (b"x-a", b"1"),
        (b"x-a", b"2"),
        (b"cookie", b"a=1"),
        (b"cookie", b"b=2"),
        (b"x-name", b"caf\xc3\xa9"),
    ]
    environ = environ_of(headers=headers)
    assert environ["CONTENT_TYPE"] == "application/json"
    assert environ["HTTP_X_A"] == "1,2"
    assert environ["HTTP_COOKIE"] == "a=1;b=2"
    assert environ["HTTP_X_NAME"] == "caf\xc3\xa9"


def test_a_header_with_an_underscore_is_not_taken_for_another():
    underscored = (b"x_auth_token", b"admin")
    assert "HTTP_X_AUTH_TOKEN" not in environ_of(headers=[underscored])
    both = [underscored, (b"x-auth-token", b"bob"), underscored]
    assert environ_of(headers=both).get("HTTP_X_AUTH_TOKEN") == "bob"
    length = (b"content_length", b"5")
    assert environ_of(headers=[length]).get("CONTENT_LENGTH") is None


def test_a_body_is_complete_before_the_application_is_called():
    environ = environ_of(b"ab", b"c", headers=[(b"content-length", b"3")])
    assert (environ["CONTENT_LENGTH"], environ["body"]) == ("3", b"abc")


def test_an_answer_is_passed_on_whole():
    closed = []

    class Pieces(list):
        def close(self):
            closed.append(True)

    def application(environ, start_response):
        write = start_response("201 Created", [("X-A", "1"), ("X-B", "\xe9")])
        write(b"a")
        return Pieces([b"b", b"c"])

    assert ask(application) == (201, {b"X-A": b"1", b"X-B": b"\xe9"}, b"abc")
    assert closed


def test_a_defect_is_500_and_the_thread_lives_on(caplog):
    def application(environ, start_response):
        raise ZeroDivisionError

    status, _, content = ask(application)
    assert (status, content) == (500, b"The server failed; see its log.")
    assert "ZeroDivisionError" in caplog.text


@pytest.mark.parametrize(("length", "closes"), [(b"900", False), (b"999999999", True)])
def test_an_answer_without_its_body_read_says_that_the_connection_closes(length, closes):
    def application(environ, start_response):
        start_response("413 Request Entity Too Large", [])
        return []

    answered = ask(application, b"x" * 900, headers=[(b"content-length", length)])
    assert (answered[1].get(b"connection") == b"close") is closes


@pytest.mark.parametrize(
    ("hosts", "version", "status"),
    [
        ([b"cloud"], "1.1", 200),
        ([b"cloud_1.example.org:8778"], "1.1", 200),
        ([b"192.0.2.1:80"], "1.1", 200),
        ([b"[2001:db8::1]:80"], "1.1", 200),
        ([b""], "1.1", 200),
        ([b"a", b"b"], "1", 400),
        ([b"a", b"b"], "1.1", 400),
        ([b"a", b"a"], "1.1", 400),
        ([b'a b"<>'], "1.1", 400),
        ([b"a/b"], "1.1", 400),
        ([b"user@a"], "1.1", 400),
        ([b"a:port"], "1.1", 400),
        ([b"[::1"], "1.1", 400),
        ([b"\xff"], "1.1", 400),
    ],
)
def test_a_request_has_one_host_at_most(hosts, version, status):
    headers = [(b"host", one) for one in hosts]
    found = ask(refused, bare=True, headers=headers, http_version=version)
    assert found[0] == status
    assert (found[1].get(b"connection") == b"close") == (status != 200)


@pytest.mark.parametrize(
    ("codings", "status"),
    [
        ([b"chunked"], 200),
        ([b"Chunked "], 200),
        ([b"gzip, chunked"], 501),
        ([b"gzip", b"chunked"], 501),
        ([b"chunked, chunked"], 501),
        ([b"identity"], 501),
    ],
)
def test_no_transfer_coding_but_chunked_is_taken(codings, status):
    headers = [(b"transfer-encoding", one) for one in codings]
    found = ask(refused, b"abc", headers=headers)
    assert found[0] == status
    assert (found[1].get(b"connection") == b"close") == (status != 200)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([(b"x-roles", b"r" * (MOST_OF_ONE - 7))], 200),
        ([(b"x-roles", b"r" * (MOST_OF_ONE - 6))], 431),
        ([(b"x-roles", b"r" * (MOST_OF_ONE // 2 - 7))] * 2, 200),
        ([(b"x-roles", b"r" * (MOST_OF_ONE // 2 - 6))] * 2, 431),
        ([(b"x-%d" % number, b"r" * 8189) for number in range(8)], 200),
        ([(b"x-%d" % number, b"r" * 8190) for number in range(8)], 431),
    ],
)
def test_headers_have_a_limited_length(headers, status):
    found = ask(refused, bare=True, headers=headers)
    assert found[0] == status
    assert (found[1].get(b"connection") == b"close") == (status != 200)


def asked_at_once(bridge, *paths, cancelled=(), gone=()):
    """Return the statuses of requests that come in this order, None of one without an answer.

    The server stops to serve some at once, and some clients go away once all have come.
    """

    async def one(path, leaves):
        sent = []

        async def receive():
            await asyncio.wait([leaves], timeout=60)
            return {"type": "http.disconnect"}

        async def send(message):
            sent.append(message)

        await bridge({**SCOPE, "method": "GET", "raw_path": path}, receive, send)
        return sent[0]["status"] if sent else None

    async def every():
        leave, stay = (asyncio.get_running_loop().create_future() for _ in range(2))
        tasks = []
        for path in paths:
            tasks.append(asyncio.create_task(one(path, leave if path in gone else stay)))
            await asyncio.sleep(0.01)
            if path in cancelled:
                tasks[-1].cancel()
        await asyncio.sleep(0.05)
        leave.set_result(None)
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(every())


class Slow:
    """An application that takes a while for each request, and notes the order of their ends."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begun: list[str] = []
        self.ended: list[str] = []

    def __call__(self, environ, start_response):
        refusal = environ.get(REFUSED)
        self.begun.append(environ["PATH_INFO"])
        if refusal is None:
            time.sleep(self.seconds)
        self.ended.append(environ["PATH_INFO"])
        start_response(f"{200 if refusal is None else int(refusal.status)} ", [])
        return []


def test_what_has_waited_too_long_is_refused_and_not_worked_on():
    slow = Slow(0.3)
    bridge = Bridge(slow, most=1000, threads=1, patience=0.2)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c") == [200, 503, 503]


def test_what_has_waited_too_long_is_refused_while_no_thread_is_free():
    slow = Slow(2)
    bridge = Bridge(slow, most=1000, threads=1, patience=0.2)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c") == [200, 503, 503]
    assert slow.ended == ["/b", "/c", "/a"]


def test_without_a_bound_every_request_is_answered_in_its_turn():
    slow = Slow(0.05)
    bridge = Bridge(slow, most=1000, threads=1, patience=0)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c") == [200, 200, 200]
    assert slow.begun == ["/a", "/b", "/c"]


def test_health_is_answered_before_all_that_waits_and_is_never_refused():
    slow = Slow(0.3)
    bridge = Bridge(slow, most=1000, threads=1, patience=0.2)
    assert asked_at_once(bridge, b"/a", b"/b", b"/healthz/live") == [200, 503, 200]
    assert slow.begun == ["/a", "/healthz/live", "/b"]


def test_what_its_client_has_given_up_is_not_worked_on():
    slow = Slow(0.3)
    bridge = Bridge(slow, most=1000, threads=1, patience=30)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c", gone=[b"/b"]) == [200, None, 200]
    assert slow.begun == ["/a", "/c"]


def test_what_is_at_work_when_its_client_leaves_is_done_to_its_end():
    slow = Slow(0.3)
    bridge = Bridge(slow, most=1000, threads=1, patience=30)
    assert asked_at_once(bridge, b"/a", b"/b", gone=[b"/a"]) == [200, 200]
    assert slow.begun == ["/a", "/b"]


def test_while_clients_give_up_the_newest_request_is_answered_first():
    slow = Slow(0.3)
    bridge = Bridge(slow, most=1000, threads=1, patience=30)
    paths = [b"/a", b"/b", b"/c", b"/d", b"/healthz/live"]
    assert asked_at_once(bridge, *paths, gone=[b"/b"]) == [200, None, 200, 200, 200]
    assert [one for one in slow.begun if one != "/healthz/live"] == ["/a", "/d", "/c"]


def test_what_has_waited_too_long_is_refused_before_the_newest_is_answered():
    slow = Slow(0.3)
    bridge = Bridge(slow, most=1000, threads=1, patience=0.2)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c", b"/d", gone=[b"/d"]) == [200, 503, 503, None]
    assert slow.begun == ["/a", "/b", "/c"]


def test_requests_are_answered_in_their_order_again_a_second_after_the_last_client_gave_up():
    slow = Slow(1.3)
    bridge = Bridge(slow, most=1000, threads=1, patience=30)
    asked_at_once(bridge, b"/a", b"/b", b"/c", b"/d", gone=[b"/b"])
    assert slow.begun == ["/a", "/c", "/d"]


def test_what_is_cancelled_as_the_server_stops_is_not_worked_on():
    slow = Slow(0.2)
    bridge = Bridge(slow, most=1000, threads=1, patience=30)
    first, second, third = asked_at_once(bridge, b"/a", b"/b", b"/c", cancelled=[b"/b"])
    assert (first, third) == (200, 200)
    assert isinstance(second, asyncio.CancelledError)
    assert slow.begun == ["/a", "/c"]


@pytest.mark.parametrize("path", ["/healthz", "/healthz/", "/healthz/live"])
def test_whether_it_lives_is_answered_while_all_threads_are_at_work(path):
    over = threading.Event()

    def application(environ, start_response):
        if not environ["PATH_INFO"].startswith("/healthz"):
            assert over.wait(60)
        start_response("200 OK", [])
        return [environ["PATH_INFO"].encode()]

    async def answer(bridge, asked):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {**SCOPE, "method": "GET", "raw_path": asked.encode(), "query_string": b""}
        await bridge(scope, None, send)
        return sent[1]["body"].decode()

    async def race():
        bridge = Bridge(application, most=1000, threads=2)
        slow = [asyncio.create_task(answer(bridge, "/slow")) for _ in range(3)]
        await asyncio.sleep(0)
        first = await answer(bridge, path)
        over.set()
        return first, await asyncio.gather(*slow)

    assert asyncio.run(race()) == (path, ["/slow"] * 3)
