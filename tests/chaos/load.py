# SPDX-License-Identifier: Apache-2.0
"""Clients of a separate process that send requests without pause."""

import threading
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from tests.support.versions import LATEST_HEADERS

HEADERS = {"X-Auth-Token": "admin", **LATEST_HEADERS}


def send_requests(
    seconds: float, clients: int, url: str, paths: list[str], patience: float
) -> Counter[str]:
    """Let each client request the paths in turn, and count the outcomes.

    A client that has waited for ``patience`` seconds closes its connection and opens another.
    Outcomes are statuses, ``503 without Retry-After``, ``gave up`` and ``cut``.
    """
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + seconds
    lock = threading.Lock()

    def send(number: int) -> None:
        mine: Counter[str] = Counter()
        connection = HTTPConnection(urlsplit(url).netloc, timeout=patience)
        turn = number
        while time.monotonic() < end:
            path = paths[turn % len(paths)]
            turn += 1
            mine[_send_request(connection, path)] += 1
        connection.close()
        with lock:
            outcomes.update(mine)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=seconds + 2 * patience + 60)
    return outcomes


def _send_request(connection: HTTPConnection, path: str) -> str:
    try:
        connection.request("GET", path, headers=HEADERS)
        answer = connection.getresponse()
        answer.read()
    except TimeoutError:
        connection.close()
        return "gave up"
    except (OSError, HTTPException):
        connection.close()
        return "cut"
    if answer.status == 503 and not answer.headers.get("Retry-After"):
        return "503 without Retry-After"
    return str(answer.status)
