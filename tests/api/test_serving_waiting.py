# SPDX-License-Identifier: Apache-2.0
"""Which request the ASGI application of ``serve`` answers next, and what it refuses."""

import asyncio
import json
import threading

import pytest

from placement_sched.api.serving import AsgiToWsgi
from tests.api.bridge import Held, Slow, asked_at_once, messages

pytestmark = pytest.mark.slow


def test_what_has_waited_too_long_is_refused_and_not_worked_on():
    slow = Slow(0.3)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, patience=0.2)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c") == [200, 503, 503]


def test_what_has_waited_too_long_is_refused_while_no_thread_is_free():
    slow = Slow(2)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, patience=0.2)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c") == [200, 503, 503]
    assert slow.ended == ["/b", "/c", "/a"]


def test_without_a_bound_every_request_is_answered_in_its_turn():
    slow = Slow(0.05)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, patience=0)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c") == [200, 200, 200]
    assert slow.begun == ["/a", "/b", "/c"]


@pytest.mark.parametrize("path", [b"/healthz", b"/healthz/live", b"/healthz/ready"])
def test_health_is_answered_while_all_threads_are_at_work_and_others_wait(path):
    held = Held(free=path.decode())
    bridge = AsgiToWsgi(held, limit=1000, threads=2)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c", path) == [200] * 4
    assert held.begun == ["/a", "/b", path.decode(), "/c"]
    assert held.ended[0] == path.decode()


def test_whether_it_lives_is_never_refused():
    slow = Slow(0.3)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, patience=0.2)
    assert asked_at_once(bridge, *[b"/healthz"] * 3) == [200] * 3


def test_whether_it_is_ready_is_refused_when_it_has_waited_too_long():
    held = Held()
    bridge = AsgiToWsgi(held, limit=1000, threads=1, patience=0.2)
    assert asked_at_once(bridge, *[b"/healthz/ready"] * 2) == [200, 503]


def test_a_database_that_does_not_tell_whether_it_is_ready_keeps_no_other_request_waiting():
    held = Held(free="/a")
    bridge = AsgiToWsgi(held, limit=1000, threads=1)
    assert asked_at_once(bridge, b"/healthz/ready", b"/healthz/ready", b"/a") == [200] * 3
    assert held.ended == ["/a", "/healthz/ready", "/healthz/ready"]


def test_clients_that_ask_again_and_again_for_its_health_displace_nobody():
    slow = Slow(0.002)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1)

    async def ask_on(path):
        while len(slow.ended) < 200:
            await messages(bridge, path)

    async def crowd():
        await asyncio.gather(*map(ask_on, [b"/healthz/ready"] * 16 + [b"/a"] * 4))

    asyncio.run(crowd())
    assert slow.ended.count("/a") >= 20  # a thread for each kind: half of all


def test_a_server_that_stops_is_not_ready_though_the_database_does_not_answer():
    held = Held()
    bridge = AsgiToWsgi(held, limit=1000, threads=1, stopping=lambda: bool(held.begun))
    assert asked_at_once(bridge, b"/healthz/ready", b"/healthz/ready") == [200, 503]
    assert held.ended == ["/healthz/ready"] * 2


@pytest.mark.parametrize(
    ("path", "thread", "content"),
    [
        ("/healthz", "MainThread", "live"),
        ("/healthz/", "MainThread", "live"),
        ("/healthz/live", "MainThread", "live"),
        ("/healthz/live/", "MainThread", "live"),
        ("/healthz/live?ready", "MainThread", "live"),
        ("/healthz?already", "MainThread", "live"),
        ("/healthz?live", "MainThread", "live"),
        ("/healthz?a;ready", "MainThread", "live"),
        ("/healthz/ready", "readiness", "ready"),
        ("/healthz/ready/", "readiness", "ready"),
        ("/healthz/%72eady", "readiness", "ready"),
        ("/healthz?ready", "readiness", "ready"),
        ("/healthz/?a&ready=1", "readiness", "ready"),
        ("/healthz?%72eady", "readiness", "ready"),
        ("/healthzz", "request", None),
        ("/healthz//", "request", None),
        ("/healthz//ready", "request", None),
        ("/healthz/ready//", "request", None),
        ("/healthz/elsewhere", "request", None),
        ("/placement/healthz", "request", None),
    ],
)
def test_only_what_the_application_answers_as_health_is_taken_for_it(
    sqlite_app, path, thread, content
):
    threads = []

    def application(environ, start_response):
        threads.append(threading.current_thread().name)
        return sqlite_app.app(environ, start_response)

    bridge = AsgiToWsgi(application, limit=1000, threads=1)
    body = json.loads(asyncio.run(messages(bridge, path.encode()))[1]["body"] or "{}")
    name = "request_0" if thread == "request" else thread
    assert (threads, body.get("status")) == ([name], content)


def test_what_its_client_has_given_up_is_not_worked_on():
    slow = Slow(0.3)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, patience=30)
    assert asked_at_once(bridge, b"/a", b"/b", b"/c", gone=[b"/b"]) == [200, None, 200]
    assert slow.begun == ["/a", "/c"]


def test_what_is_at_work_when_its_client_leaves_is_done_to_its_end():
    slow = Slow(0.3)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, patience=30)
    assert asked_at_once(bridge, b"/a", b"/b", gone=[b"/a"]) == [200, 200]
    assert slow.begun == ["/a", "/b"]


def test_what_is_cancelled_as_the_server_stops_is_not_worked_on():
    slow = Slow(0.2)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, patience=30)
    first, second, third = asked_at_once(bridge, b"/a", b"/b", b"/c", cancelled=[b"/b"])
    assert (first, third) == (200, 200)
    assert isinstance(second, asyncio.CancelledError)
    assert slow.begun == ["/a", "/c"]


def test_requests_that_were_refused_leave_nothing_in_memory():
    """While all threads are stuck, for instance on a lock of the database."""
    held = Held()
    bridge = AsgiToWsgi(held, limit=1000, threads=1, patience=0.05)

    async def crowd():
        tasks = [asyncio.create_task(messages(bridge, b"/a")) for _ in range(20)]
        await asyncio.sleep(0.3)
        waiting = bridge._executor._work_queue.qsize()
        await asyncio.gather(*tasks)
        return waiting

    assert asyncio.run(crowd()) == 0
    assert held.ended[0] == "/a"
