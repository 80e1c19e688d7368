# SPDX-License-Identifier: Apache-2.0
"""Random requests for all routes of all APIs cause no server error and no memory leak."""

import gc
import logging
import random
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import flask
import psutil
import pytest

from placement_sched.api.application import Application
from placement_sched.app import create_app
from placement_sched.store.checks import Invariant
from tests.chaos.endpoints import ALWAYS_REJECTING
from tests.chaos.grammar import Grammar
from tests.chaos.http_clients import HttpClient, InProcessClient, send_json
from tests.chaos.run_length import TRIED, WHOLE, choose_count
from tests.chaos.valid_requests import AGENT, DrawnRequest, create_objects
from tests.conftest import Client
from tests.support.invariants import assert_invariants
from tests.support.versions import LATEST_HEADERS
from tests.verifier.model import Fault

pytestmark = pytest.mark.slow

#: Number of requests, and the maximum if an endpoint has not succeeded by then.
REQUESTS = choose_count(250, 5000)
MOST = REQUESTS + 500
#: Numbers of requests before memory is traced and before its first measurement. In between, caches
#: replace entries from before the trace. Only the full form measures, because tracing is slow.
TRACED, MEASURED = REQUESTS // 5, REQUESTS * 3 // 5
#: Maximum average of bytes in Python objects that a measured request leaves.
MAX_LEAK = 1536
#: Number of requests over HTTP, and the maximum growth in megabytes during the second half.
SERVED = choose_count(250, 1700)
MAX_GROWTH = choose_count(40, 10)
#: Part of the only correct response with status 501, which nova also sends.
UNREPORTED = "has not reported its uptime"
#: Invariants that clients may break. They may free or replace an instance's allocations, record it
#: on another host than the selected host, and set the aggregates of a provider by hand.
MAY_BE = {
    Invariant.ANOTHER_HOST,
    Invariant.NOT_CLAIMED,
    Fault.CLAIM_DIFFERS,
    Fault.NOT_IN_PLACEMENT,
    Fault.STALE_IN_PLACEMENT,
}


class EndpointRecorder:
    """Records the endpoints that random requests reach, and those endpoints that succeed.

    Requests that pages send to the APIs do not count.
    """

    def __init__(self, application: Application) -> None:
        self.entered: set[str] = set()
        self.succeeded: set[str] = set()
        views = application.view_functions
        self.endpoints = {rule.endpoint for rule in application.url_map.iter_rules()}
        for endpoint in self.endpoints:
            views[endpoint] = self._record_calls(endpoint, views[endpoint])

    @property
    def unrequested_endpoints(self) -> set[str]:
        return self.endpoints - self.entered

    @property
    def failed_endpoints(self) -> set[str]:
        """The endpoints without a successful request."""
        return self.endpoints - self.succeeded

    def _record_calls(self, endpoint: str, view: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: Any, **named: Any) -> Any:
            if flask.request.headers.get("User-Agent") != AGENT:
                return view(*arguments, **named)
            self.entered.add(endpoint)
            answer = view(*arguments, **named)
            if _read_status(answer) < 400:
                self.succeeded.add(endpoint)
            return answer

        return record


def _read_status(answer: Any) -> int:
    """Return the status of any value that Flask accepts from a view."""
    if isinstance(answer, tuple):
        return next((int(part) for part in answer[1:] if isinstance(part, int)), 200)
    return int(getattr(answer, "status_code", None) or getattr(answer, "status", None) or 200)


def build_grammar(client: InProcessClient | HttpClient, application: Any, seed: int) -> Grammar:
    """Create objects, and return a grammar whose requests name them."""
    create_objects(lambda *request: send_json(client, *request))

    def get(path: str) -> Any:
        return send_json(client, "GET", path, None, f"{path.split('/')[1]} latest")

    return Grammar.for_application(application, random.Random(seed), get)


def send_request(client: InProcessClient | HttpClient, drawn: DrawnRequest) -> tuple[int, str]:
    return client.send(drawn.method, drawn.address, drawn.headers, drawn.body)


def is_failure(status: int, text: str) -> bool:
    """Return whether a response is a server error or contains a traceback."""
    return "Traceback" in text or (status >= 500 and UNREPORTED not in text)


def measure_remaining_bytes() -> int:
    """Return the number of traced bytes after a garbage collection."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def application(settings):
    application = create_app(settings)
    yield application
    application.close()


def test_random_requests_cause_no_server_error_in_process(
    application, database, caplog, record_property
):
    reached = EndpointRecorder(application)
    app = Client(application)
    client = InProcessClient(app)
    grammar = build_grammar(client, application, 20261123)
    grammar.succeeded = reached.succeeded
    statuses: set[int] = set()
    number = before = 0
    while number < REQUESTS or (
        reached.failed_endpoints != set(ALWAYS_REJECTING) and number < MOST
    ):
        number += 1
        drawn = grammar.draw_request()
        status, text = send_request(client, drawn)
        statuses.add(status)
        assert not is_failure(status, text), (drawn, text)
        failures = [
            record
            for record in caplog.records
            if record.exc_info or record.levelno >= logging.ERROR
        ]
        assert not failures, (drawn, failures)
        caplog.clear()
        if WHOLE and number == TRACED:
            tracemalloc.start()
        if WHOLE and number == MEASURED:
            before = measure_remaining_bytes()
    assert {200, 201, 204, 303, 400, 403, 404, 405, 409} <= statuses
    assert reached.unrequested_endpoints == set()
    assert reached.failed_endpoints == set(ALWAYS_REJECTING)
    assert app.get("/placement/resource_providers", headers=LATEST_HEADERS).status_int == 200
    assert_invariants(database, but=MAY_BE)
    done = f"{len(reached.succeeded)} of {len(reached.endpoints)} endpoints succeed"
    record_property(TRIED, f"{number} requests; {done}")
    if WHOLE:
        left = (measure_remaining_bytes() - before) / (number - MEASURED)
        tracemalloc.stop()
        assert left < MAX_LEAK


@pytest.mark.chaos
def test_random_requests_cause_no_server_error_and_no_memory_growth_of_a_server(
    serve, database_url, application, database, record_property
):
    server = serve(OS_PLACEMENT_DATABASE__CONNECTION=database_url)
    (worker,) = server.workers()
    memory = psutil.Process(worker).memory_info
    statuses: set[int] = set()
    before = 0
    with closing(HTTPConnection(urlsplit(server.url).netloc, timeout=60)) as connection:
        client = HttpClient(connection)
        grammar = build_grammar(client, application, 20261124)
        for number in range(SERVED):
            drawn = grammar.draw_request()
            status, text = send_request(client, drawn)
            statuses.add(status)
            if status < 400 and drawn.method == drawn.endpoint.method:
                grammar.succeeded.add(drawn.endpoint.view)
            assert not is_failure(status, text), (drawn, text)
            if number == SERVED // 2:
                before = memory().rss
    assert {200, 201, 204, 400, 403, 404} <= statuses
    reachable = {endpoint.view for endpoint in grammar.endpoints} - set(ALWAYS_REJECTING)
    missing = reachable - grammar.succeeded
    assert len(missing) <= choose_count(20, 0), missing
    grown = (memory().rss - before) / 2**20
    assert grown < MAX_GROWTH
    assert {worker} == server.workers()
    assert "Traceback" not in server.log.read_text()
    assert_invariants(database, but=MAY_BE)
    record_property(TRIED, f"{SERVED} over HTTP, grown by {grown:.1f} MB")
