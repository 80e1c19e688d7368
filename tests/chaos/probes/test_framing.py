# SPDX-License-Identifier: Apache-2.0
"""Requests with ambiguous ends, to a server and to a server behind HAProxy."""

import re
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pytest
import requests

from tests.chaos.probes.framing import FRAMING_PROBES
from tests.chaos.probes.raw_http import RawHttpClient, RawHttpResponse
from tests.chaos.run_length import TRIED_KEY
from tests.deploy import haproxy
from tests.support.servers import Server, wait_until
from tests.support.versions import LATEST_HEADERS

pytestmark = pytest.mark.system
#: A request in an access log: its method and path.
_LOGGED_PROBE_REQUEST = re.compile(
    r'"(\w+) (?:https?://\w+)?(/placement/traits/CUSTOM_(PROBE|SMUGGLED)_(\d+))[" ?]'
)
#: Log lines of HAProxy for a forwarded request, and for a forwarded request with status 400.
_FORWARDED_LOG_LINE = re.compile(r" servers/s\d+ [-\d/]+ \d+ ")
_FORWARDED_400_LOG_LINE = re.compile(r" servers/s\d+ [-\d/]+ 400 ")


def find_logged_requests(lines: list[str], number: int) -> list[str]:
    """Return the requests of a probe in the lines of a log."""
    matches = filter(None, map(_LOGGED_PROBE_REQUEST.search, lines))
    return [f"{match[1]} {match[3]}" for match in matches if int(match[4]) == number]


def send_all_framing_probes(client: RawHttpClient) -> list[list[RawHttpResponse]]:
    """Send each probe on a new connection, and return the responses."""
    numbered = [probe.build_bytes(number) for number, probe in enumerate(FRAMING_PROBES)]
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(client.send_bytes, numbered))


def describe_server_error(number: int, responses: list[RawHttpResponse]) -> str | None:
    """Return a description of a server error in the responses, None without an error."""
    statuses = [response.status for response in responses]
    if any(status >= 500 and status not in {501, 505} for status in statuses):
        return f"{FRAMING_PROBES[number].name}: answered {statuses}"
    return None


def describe_framing_faults(
    number: int, responses: list[RawHttpResponse], served: list[str]
) -> str | None:
    """Return a description of faults in responses and served requests, None without faults."""
    probe, statuses = FRAMING_PROBES[number], [response.status for response in responses]
    if len(served) > probe.requests or len(responses) > probe.requests:
        return f"{probe.name}: {served} served, answered {statuses}"
    if sum(status < 300 for status in statuses) > len(served):
        return f"{probe.name}: {statuses} for {served}"
    return describe_server_error(number, responses)


@pytest.fixture
def server(serve) -> Server:
    server = serve(OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING="true")
    server.wait_for("/healthz/ready", 200)
    return server


def test_server_serves_no_smuggled_http_request(server, record_property):
    responses = send_all_framing_probes(RawHttpClient(server.url))
    lines = server.read_log_lines()
    faults = [
        describe_framing_faults(n, probe_responses, find_logged_requests(lines, n))
        for n, probe_responses in enumerate(responses)
    ]
    assert [fault for fault in faults if fault] == []
    check_server_health(server)
    record_property(TRIED_KEY, f"{len(FRAMING_PROBES)} requests with ambiguous ends")


@dataclass
class ProxiedServer:
    """A server behind HAProxy with the configuration of ``deploy/haproxy``."""

    server: Server
    client: RawHttpClient
    log: Path


@pytest.fixture
def proxied_server(server, tmp_path) -> Iterator[ProxiedServer]:
    port = int(server.url.rpartition(":")[2])
    with haproxy.start_proxy(tmp_path, [port]) as (url, certificate):
        yield ProxiedServer(server, RawHttpClient(url, certificate), tmp_path / "proxy.log")


def test_server_and_proxy_agree_on_request_boundaries(proxied_server, record_property):
    with TraitCreatingClients(proxied_server.client) as clients:
        responses = send_all_framing_probes(proxied_server.client)
    assert clients.wrong_responses == []
    assert clients.response_count > 10
    # HAProxy writes the last line when the connection ends.
    assert wait_until(lambda: find_probes_with_differing_logs(proxied_server) == [], 20), (
        find_probes_with_differing_logs(proxied_server)
    )
    failures = [
        describe_server_error(n, probe_responses) for n, probe_responses in enumerate(responses)
    ]
    assert [failure for failure in failures if failure] == []
    check_server_health(proxied_server.server)
    record_property(TRIED_KEY, f"{len(FRAMING_PROBES)} through HAProxy")


def find_probes_with_differing_logs(proxied_server: ProxiedServer) -> list[str]:
    """Return the probes with different requests in the logs of proxy and server.

    The server logs nothing for a forwarded request that it rejects as malformed.
    """
    served = proxied_server.server.read_log_lines()
    lines = proxied_server.log.read_text().splitlines()
    forwarded = [line for line in lines if _FORWARDED_LOG_LINE.search(line)]
    refused = [line for line in lines if _FORWARDED_400_LOG_LINE.search(line)]
    differing = []
    for number, probe in enumerate(FRAMING_PROBES):
        by_proxy = Counter(find_logged_requests(forwarded, number))
        by_server = Counter(find_logged_requests(served, number))
        rejected = Counter(find_logged_requests(refused, number))
        if by_server - by_proxy or by_proxy - by_server - rejected:
            differing.append(f"{probe.name}: {by_proxy} forwarded, {by_server} served")
    return differing


class TraitCreatingClients:
    """Concurrent clients that check the responses to their own requests."""

    def __init__(self, client: RawHttpClient) -> None:
        self._client = client
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._create_traits_until_stopped, args=(which,))
            for which in range(3)
        ]
        self.wrong_responses: list[str] = []
        self.response_count = 0

    def _create_traits_until_stopped(self, which: int) -> None:
        with requests.Session() as session:
            session.trust_env = False
            session.verify = str(self._client.certificate)
            session.headers.update({"X-Auth-Token": "admin", **LATEST_HEADERS})
            for number in range(1_000_000):
                if self._over.is_set():
                    return
                path = f"/placement/traits/CUSTOM_BYSTANDER_{which}_{number}"
                response = session.put(self._client.url + path, timeout=60)
                if response.status_code != 201 or not response.headers["Location"].endswith(path):
                    self.wrong_responses.append(
                        f"{path}: {response.status_code} {response.headers}"
                    )
                self.response_count += 1

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_failure: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(timeout=120)


def check_server_health(server: Server) -> None:
    """Check that the server is ready and has logged no traceback."""
    assert server.get("/healthz/ready")[0] == 200
    assert "Traceback" not in server.log.read_text()
