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
from placement_sched.db.transaction import Database
from placement_sched.extensions.what_if.violations.task import VIOLATION_THREAD, ViolationRun
from placement_sched.store.checks import Invariant
from tests.chaos.endpoints import REJECTING_VIEWS
from tests.chaos.grammar import RequestDrawer
from tests.chaos.http_clients import HttpClient, InProcessClient, send_json
from tests.chaos.run_length import IS_FULL_RUN, TRIED_KEY, choose_count
from tests.chaos.valid_requests import DRAWN_USER_AGENT, DrawnRequest, create_cloud_objects
from tests.conftest import AdminClient
from tests.support.concurrency import join_threads
from tests.support.versions import LATEST_HEADERS
from tests.verifier.model import Fault
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.slow

#: Number of requests, and the maximum if an endpoint has not succeeded by then.
REQUEST_COUNT = choose_count(250, 5000)
MAX_REQUEST_COUNT = REQUEST_COUNT + 500
#: Numbers of requests before memory is traced and before its first measurement. In between, caches
#: replace entries from before the trace. Only the full form measures, because tracing is slow.
REQUESTS_BEFORE_TRACE, REQUESTS_BEFORE_MEASUREMENT = REQUEST_COUNT // 5, REQUEST_COUNT * 3 // 5
#: Maximum average of bytes in Python objects that a measured request leaves. About 560 bytes are
#: labels of metrics and cached values of a cloud that grows.
MAX_LEAKED_BYTES_PER_REQUEST = 1024
#: Number of requests over HTTP, and the maximum growth in megabytes during the second half.
HTTP_REQUEST_COUNT = choose_count(250, 1700)
MAX_GROWTH_MB = choose_count(40, 10)
#: Part of the only correct response with status 501, which nova also sends.
UNREPORTED_UPTIME_TEXT = "has not reported its uptime"
#: Invariants that clients may break. They may free or replace an instance's allocations, record it
#: on another host than the selected host, and set the aggregates of a provider by hand.
BREAKABLE_INVARIANTS = {
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
        def record_call(*arguments: Any, **named: Any) -> Any:
            if flask.request.headers.get("User-Agent") != DRAWN_USER_AGENT:
                return view(*arguments, **named)
            self.entered.add(endpoint)
            response = view(*arguments, **named)
            if _get_response_status(response) < 400:
                self.succeeded.add(endpoint)
            return response

        return record_call


def _get_response_status(response: Any) -> int:
    """Return the status of any value that Flask accepts from a view."""
    if isinstance(response, tuple):
        return next((int(part) for part in response[1:] if isinstance(part, int)), 200)
    return int(getattr(response, "status_code", None) or getattr(response, "status", None) or 200)


def create_request_drawer(
    client: InProcessClient | HttpClient, application: Any, seed: int
) -> RequestDrawer:
    """Create objects, and return a drawer of requests that name them."""
    create_cloud_objects(lambda *request: send_json(client, *request))

    def read_document(path: str) -> Any:
        return send_json(client, "GET", path, None, f"{path.split('/')[1]} latest")

    return RequestDrawer.create_for_application(application, random.Random(seed), read_document)


def send_request(client: InProcessClient | HttpClient, drawn: DrawnRequest) -> tuple[int, str]:
    return client.send_request(drawn.method, drawn.url, drawn.headers, drawn.body)


def is_server_error(status: int, text: str) -> bool:
    """Return whether a response is a server error or contains a traceback."""
    return "Traceback" in text or (status >= 500 and UNREPORTED_UPTIME_TEXT not in text)


def measure_traced_bytes(database: Database) -> int:
    """Return the number of traced bytes after a garbage collection.

    Compiled statements are removed first. Their number is limited, but random requests compile new
    statements until the end of the test.
    """
    for engine in (database.reader, database.writer):
        engine.clear_compiled_cache()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def application(settings):
    application = create_app(settings)
    yield application
    join_threads(VIOLATION_THREAD)
    application.close()


def test_random_requests_cause_no_server_error_in_process(
    application, database, caplog, record_property
):
    ViolationRun(application.services.scheduler).run_round()
    recorder = EndpointRecorder(application)
    app = AdminClient(application)
    client = InProcessClient(app)
    drawer = create_request_drawer(client, application, 20261123)
    drawer.succeeded = recorder.succeeded
    statuses: set[int] = set()
    number = before = 0
    while number < REQUEST_COUNT or (
        recorder.failed_endpoints != set(REJECTING_VIEWS) and number < MAX_REQUEST_COUNT
    ):
        number += 1
        drawn = drawer.draw_request()
        status, text = send_request(client, drawn)
        statuses.add(status)
        assert not is_server_error(status, text), (drawn, text)
        failures = [
            record
            for record in caplog.records
            if record.exc_info or record.levelno >= logging.ERROR
        ]
        assert not failures, (drawn, failures)
        caplog.clear()
        if IS_FULL_RUN and number == REQUESTS_BEFORE_TRACE:
            tracemalloc.start()
        if IS_FULL_RUN and number == REQUESTS_BEFORE_MEASUREMENT:
            before = measure_traced_bytes(application.services.database)
    assert {200, 201, 204, 303, 400, 403, 404, 405, 409} <= statuses
    assert recorder.unrequested_endpoints == set()
    assert recorder.failed_endpoints == set(REJECTING_VIEWS)
    assert app.get("/placement/resource_providers", headers=LATEST_HEADERS).status_int == 200
    assert_invariants(database, but=BREAKABLE_INVARIANTS)
    summary = f"{len(recorder.succeeded)} of {len(recorder.endpoints)} endpoints succeed"
    record_property(TRIED_KEY, f"{number} requests; {summary}")
    if IS_FULL_RUN:
        after = measure_traced_bytes(application.services.database)
        leaked_bytes = (after - before) / (number - REQUESTS_BEFORE_MEASUREMENT)
        tracemalloc.stop()
        assert leaked_bytes < MAX_LEAKED_BYTES_PER_REQUEST


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
        drawer = create_request_drawer(client, application, 20261124)
        for number in range(HTTP_REQUEST_COUNT):
            drawn = drawer.draw_request()
            status, text = send_request(client, drawn)
            statuses.add(status)
            if status < 400 and drawn.method == drawn.endpoint.method:
                drawer.succeeded.add(drawn.endpoint.view)
            assert not is_server_error(status, text), (drawn, text)
            if number == HTTP_REQUEST_COUNT // 2:
                before = memory().rss
    assert {200, 201, 204, 400, 403, 404} <= statuses
    reachable = {endpoint.view for endpoint in drawer.endpoints} - set(REJECTING_VIEWS)
    missing_views = reachable - drawer.succeeded
    assert len(missing_views) <= choose_count(20, 0), missing_views
    growth_mb = (memory().rss - before) / 2**20
    assert growth_mb < MAX_GROWTH_MB
    assert {worker} == server.workers()
    assert "Traceback" not in server.log.read_text()
    assert_invariants(database, but=BREAKABLE_INVARIANTS)
    record_property(TRIED_KEY, f"{HTTP_REQUEST_COUNT} over HTTP, grown by {growth_mb:.1f} MB")
