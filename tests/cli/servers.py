# SPDX-License-Identifier: Apache-2.0
"""Requests to a server, and its access log."""

import time

from placement_sched.api import middleware
from tests.support.scheduling import get_selected_hosts, make_spec

GLOBAL_REQUEST_ID = "req-0b6c1e52-93d7-4f0a-8f21-5a7d3c9e6b40"


def get_best_host(server) -> str:
    """Return the host that the next request would select."""
    body = {"request_spec": make_spec()}
    return get_selected_hosts(server.post("/scheduler/v1/explain", body)[1])[0]


def get_best_hosts(server) -> set[str]:
    """Return the hosts of several requests, which reach all workers."""
    return {get_best_host(server) for _ in range(16)}


def wait_for_access_line(server, request_id: str) -> str:
    """Wait for the access log line of a request, and return it."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for line in server.read_log_lines():
            if request_id in line and middleware.__name__ in line:
                return line
        time.sleep(0.05)
    raise AssertionError(server.log.read_text())
