# SPDX-License-Identifier: Apache-2.0
"""Threads that write through nodes until they are stopped."""

from collections import Counter
from itertools import count
from threading import Lock, Thread

from tests.support.servers import wait_until
from tests.support.versions import LATEST_HEADERS

PROVIDERS_PATH = "/placement/resource_providers"


class NodeWriters:
    """Threads that write through applications: new providers, and claims on a shared provider.

    ``turn`` makes the uuids of several groups of writers in a test unique.
    """

    def __init__(self, clients, shared: str, turn: int = 0) -> None:
        self._clients, self._shared, self._turn = clients, shared, turn
        self._lock, self._over = Lock(), False
        self.acknowledged: list[str] = []
        self.statuses: Counter[tuple[str, int]] = Counter()
        self._threads = [
            Thread(target=self._write_until_stopped, args=pair) for pair in enumerate(clients)
        ]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_failure):
        self._over = True
        for thread in self._threads:
            thread.join(timeout=120)
        assert not any(thread.is_alive() for thread in self._threads)

    def _write_until_stopped(self, which, client):
        for number in count():
            if self._over:
                return
            uuid = f"{self._turn:08}-0000-{which:04}-0000-{number:012}"
            owner = {"project_id": "p", "user_id": "u", "consumer_generation": None}
            claim = {"allocations": {self._shared: {"resources": {"VCPU": 1}}}, **owner}
            claim["consumer_type"] = "INSTANCE"
            writes = {
                "provider": ("POST", PROVIDERS_PATH, {"uuid": uuid, "name": uuid}),
                "claim": ("PUT", f"/placement/allocations/{uuid}", claim),
            }
            for what, (method, path, body) in writes.items():
                send = client.post_json if method == "POST" else client.put_json
                response = send(path, body, headers=LATEST_HEADERS, expect_errors=True)
                with self._lock:
                    self.statuses[what, response.status_int] += 1
                    if response.status_int < 300:
                        self.acknowledged.append(f"{what} {uuid}")

    def wait_for_writes(self, number: int) -> None:
        assert wait_until(lambda: len(self.acknowledged) >= number, 400), self.statuses
