# SPDX-License-Identifier: Apache-2.0
"""The queue of the ASGI application of ``serve``: order and rejections."""

import asyncio
import json
import threading

import pytest

from placement_sched.api.serving import AsgiToWsgi
from tests.api.bridge import (
    BlockingApplication,
    SlowApplication,
    collect_messages_to_client,
    send_concurrent_requests,
)

pytestmark = pytest.mark.slow


def test_waiting_request_is_rejected_while_threads_are_busy():
    held = BlockingApplication()
    bridge = AsgiToWsgi(held, limit=1000, threads=1, queue_timeout=0.2)
    assert send_concurrent_requests(bridge, b"/a", b"/b") == [200, 503]
    assert held.ended == ["/b", "/a"]


def test_requests_are_served_in_order_if_waiting_is_unlimited():
    slow = SlowApplication(0.05)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, queue_timeout=0)
    assert send_concurrent_requests(bridge, b"/a", b"/b", b"/c") == [200, 200, 200]
    assert slow.begun == ["/a", "/b", "/c"]


@pytest.mark.parametrize("path", [b"/healthz", b"/healthz/live", b"/healthz/ready"])
def test_health_checks_are_answered_while_all_request_threads_are_busy(path):
    held = BlockingApplication(free=path.decode())
    bridge = AsgiToWsgi(held, limit=1000, threads=2)
    assert send_concurrent_requests(bridge, b"/a", b"/b", b"/c", path) == [200] * 4
    assert held.begun == ["/a", "/b", path.decode(), "/c"]
    assert held.ended[0] == path.decode()


def test_liveness_checks_are_200_even_after_waiting_longer_than_the_limit():
    slow = SlowApplication(0.1)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, queue_timeout=0.05)
    assert send_concurrent_requests(bridge, *[b"/healthz"] * 3) == [200] * 3


def test_readiness_check_is_503_after_waiting_too_long():
    held = BlockingApplication()
    bridge = AsgiToWsgi(held, limit=1000, threads=1, queue_timeout=0.1)
    assert send_concurrent_requests(bridge, *[b"/healthz/ready"] * 2) == [200, 503]


def test_slow_readiness_check_does_not_block_requests():
    held = BlockingApplication(free="/a")
    bridge = AsgiToWsgi(held, limit=1000, threads=1)
    assert (
        send_concurrent_requests(bridge, b"/healthz/ready", b"/healthz/ready", b"/a") == [200] * 3
    )
    assert held.ended == ["/a", "/healthz/ready", "/healthz/ready"]


def test_requests_are_served_while_clients_send_health_checks_continuously():
    slow = SlowApplication(0.002)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1)

    async def send_requests_repeatedly(path):
        while len(slow.ended) < 200:
            await collect_messages_to_client(bridge, path)

    async def send_all_requests():
        await asyncio.gather(*map(send_requests_repeatedly, [b"/healthz/ready"] * 16 + [b"/a"] * 4))

    asyncio.run(send_all_requests())
    assert slow.ended.count("/a") >= 20  # health checks and others get half of the threads each


def test_readiness_check_of_a_stopping_server_is_503_without_a_database_check():
    held = BlockingApplication()
    bridge = AsgiToWsgi(held, limit=1000, threads=1, stopping=lambda: bool(held.begun))
    assert send_concurrent_requests(bridge, b"/healthz/ready", b"/healthz/ready") == [200, 503]
    assert held.ended == ["/healthz/ready"] * 2


def test_only_health_paths_are_answered_outside_the_request_threads(sqlite_app):
    threads = []

    def application(environ, start_response):
        threads.append(threading.current_thread().name)
        return sqlite_app.app(environ, start_response)

    bridge = AsgiToWsgi(application, limit=1000, threads=1)
    for path, thread, content in [
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
    ]:
        threads.clear()
        body = json.loads(
            asyncio.run(collect_messages_to_client(bridge, path.encode()))[1]["body"] or "{}"
        )
        name = "request_0" if thread == "request" else thread
        assert (threads, body.get("status")) == ([name], content), path


def test_request_of_a_disconnected_client_is_not_started():
    slow = SlowApplication(0.3)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, queue_timeout=30)
    assert send_concurrent_requests(bridge, b"/a", b"/b", b"/c", gone=[b"/b"]) == [200, None, 200]
    assert slow.begun == ["/a", "/c"]


def test_running_request_of_a_disconnected_client_is_finished():
    slow = SlowApplication(0.3)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, queue_timeout=30)
    assert send_concurrent_requests(bridge, b"/a", b"/b", gone=[b"/a"]) == [200, 200]
    assert slow.begun == ["/a", "/b"]


def test_request_cancelled_at_shutdown_is_not_started():
    slow = SlowApplication(0.2)
    bridge = AsgiToWsgi(slow, limit=1000, threads=1, queue_timeout=30)
    first, second, third = send_concurrent_requests(bridge, b"/a", b"/b", b"/c", cancelled=[b"/b"])
    assert (first, third) == (200, 200)
    assert isinstance(second, asyncio.CancelledError)
    assert slow.begun == ["/a", "/c"]


def test_requests_rejected_after_waiting_are_removed_from_the_queue():
    """All threads are stuck, for instance on a lock of the database."""
    held = BlockingApplication()
    bridge = AsgiToWsgi(held, limit=1000, threads=1, queue_timeout=0.05)

    async def send_all_requests():
        tasks = [asyncio.create_task(collect_messages_to_client(bridge, b"/a")) for _ in range(20)]
        await asyncio.sleep(0.3)
        waiting = bridge._executor._work_queue.qsize()
        await asyncio.gather(*tasks)
        return waiting

    assert asyncio.run(send_all_requests()) == 0
    assert held.ended[0] == "/a"
