# SPDX-License-Identifier: Apache-2.0
"""Requests to the ASGI application of ``serve``, and applications that take time."""

import asyncio
import threading
import time

from placement_sched.api.serving import REJECTED_BODY_KEY

ASGI_HTTP_SCOPE = {
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


async def collect_messages_to_client(bridge, path, leaves=None):
    """Return the messages that a client of a path receives until ``leaves`` is done."""
    leaves = leaves or asyncio.get_running_loop().create_future()
    path, _, query = path.partition(b"?")
    sent = []

    async def receive_disconnect():
        await asyncio.wait([leaves], timeout=60)
        return {"type": "http.disconnect"}

    async def record_message(message):
        sent.append(message)

    scope = {**ASGI_HTTP_SCOPE, "method": "GET", "raw_path": path, "query_string": query}
    await bridge(scope, receive_disconnect, record_message)
    return sent


def send_concurrent_requests(bridge, *paths, cancelled=(), gone=()):
    """Send requests in order and return their statuses, None if there is no response.

    The server cancels the ``cancelled`` requests at once. The clients in ``gone`` close their
    connections after all requests have arrived.
    """

    async def send_request(path, leaves):
        sent = await collect_messages_to_client(bridge, path, leaves)
        return sent[0]["status"] if sent else None

    async def send_all_requests():
        leave, stay = (asyncio.get_running_loop().create_future() for _ in range(2))
        tasks = []
        for path in paths:
            tasks.append(asyncio.create_task(send_request(path, leave if path in gone else stay)))
            await asyncio.sleep(0.01)
            if path in cancelled:
                tasks[-1].cancel()
        await asyncio.sleep(0.05)
        leave.set_result(None)
        return await asyncio.gather(*tasks, return_exceptions=True)

    return asyncio.run(send_all_requests())


class SlowApplication:
    """An application that sleeps in each request and records the order of the ends."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.begun: list[str] = []
        self.ended: list[str] = []

    def __call__(self, environ, start_response):
        rejection = environ.get(REJECTED_BODY_KEY)
        self.begun.append(environ["PATH_INFO"])
        if rejection is None:
            time.sleep(self.seconds)
        self.ended.append(environ["PATH_INFO"])
        start_response(f"{200 if rejection is None else int(rejection.status)} ", [])
        return []


class BlockingApplication:
    """An application that blocks requests until it has rejected a request or served ``free``.

    It records the order of its responses.
    """

    def __init__(self, free: str = "") -> None:
        self.free = free
        self.released = threading.Event()
        self.begun: list[str] = []
        self.ended: list[str] = []

    def __call__(self, environ, start_response):
        rejection, path = environ.get(REJECTED_BODY_KEY), environ["PATH_INFO"]
        self.begun.append(path)
        if rejection is not None or path == self.free:
            self.ended.append(path)
            self.released.set()
        else:
            self.ended.append(path if self.released.wait(5) else f"{path} waited in vain")
        start_response(f"{200 if rejection is None else int(rejection.status)} ", [])
        return []
