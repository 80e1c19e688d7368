# SPDX-License-Identifier: Apache-2.0
"""Requests that a grammar makes, on all routes of all APIs: none fails, none is lost, all end."""

import gc
import logging
import random
import tracemalloc
from contextlib import closing
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from placement_sched.app import create_app
from placement_sched.model.checks import Invariant
from tests.chaos.asking import HttpClient, InProcessClient, send_json
from tests.chaos.entrances import ALWAYS_REJECTING
from tests.chaos.grammar import Grammar
from tests.chaos.reached import EndpointRecorder
from tests.chaos.right_requests import DrawnRequest, create_objects
from tests.chaos.scale import TRIED, choose_count
from tests.conftest import Client
from tests.support.invariants import assert_invariants
from tests.support.versions import LATEST_HEADERS
from tests.verifier.model import Fault

pytestmark = pytest.mark.slow

#: So many requests, and at most so many where an endpoint has not succeeded yet.
REQUESTS = choose_count(500, 5000)
MOST = REQUESTS + 500
#: After so many requests memory is traced; caches of a bounded size then still replace what they
#: have from before. After so many it is watched: by then what is kept for later requests is mostly
#: there (in the short form it is not).
TRACED, WATCHED = REQUESTS // 5, REQUESTS * 3 // 5
#: Bytes of Python's objects that a request after those may leave, on average.
MOST_LEFT = choose_count(8192, 1536)
#: Requests over HTTP, and the megabytes by which the server may grow in the second half of them.
SERVED = choose_count(250, 1700)
MOST_GROWTH = choose_count(40, 10)
#: The answer of 501 that is right, as nova's.
UNREPORTED = "has not reported its uptime"
#: What clients may do to what others have decided: free or replace what an instance has, record it
#: on another host than it was placed on, set the aggregates of a provider by hand.
MAY_BE = {
    Invariant.ANOTHER_HOST,
    Invariant.NOT_CLAIMED,
    Fault.CLAIM_DIFFERS,
    Fault.NOT_IN_PLACEMENT,
    Fault.STALE_IN_PLACEMENT,
}


def build_grammar(client: InProcessClient | HttpClient, application: Any, seed: int) -> Grammar:
    """Return a grammar whose requests name what it has made."""
    create_objects(lambda *asked: send_json(client, *asked))

    def get(path: str) -> Any:
        return send_json(client, "GET", path, None, f"{path.split('/')[1]} latest")

    return Grammar.for_application(application, random.Random(seed), get)


def send_request(client: InProcessClient | HttpClient, drawn: DrawnRequest) -> tuple[int, str]:
    """Return the status and the body of the answer to what was drawn."""
    return client.send(drawn.method, drawn.address, drawn.headers, drawn.body)


def is_failure(status: int, text: str) -> bool:
    """Return whether an answer is a server's failure, or shows one."""
    return "Traceback" in text or (status >= 500 and UNREPORTED not in text)


def remaining_bytes() -> int:
    """Return how much of what was made since is still there."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def application(settings):
    application = create_app(settings)
    yield application
    application.close()


def test_random_requests_never_fail_in_process(application, database, caplog, record_property):
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
        failures = [one for one in caplog.records if one.exc_info or one.levelno >= logging.ERROR]
        assert not failures, (drawn, failures)
        caplog.clear()
        if number == TRACED:
            tracemalloc.start()
        if number == WATCHED:
            before = remaining_bytes()
    left = (remaining_bytes() - before) / (number - WATCHED)
    tracemalloc.stop()
    # The grammar reaches what is there, and what is refused.
    assert {200, 201, 204, 303, 400, 403, 404, 405, 409} <= statuses
    assert reached.unrequested_endpoints == set()
    assert reached.failed_endpoints == set(ALWAYS_REJECTING)
    assert left < MOST_LEFT
    assert app.get("/placement/resource_providers", headers=LATEST_HEADERS).status_int == 200
    assert_invariants(database, but=MAY_BE)
    done = f"{len(reached.succeeded)} of {len(reached.endpoints)} endpoints succeed"
    record_property(TRIED, f"{number} requests, each of which leaves {left:.0f} bytes; {done}")


@pytest.mark.chaos
def test_server_answers_random_requests_without_growing(
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
            if status < 400 and drawn.method == drawn.entrance.method:
                grammar.succeeded.add(drawn.entrance.endpoint)
            assert not is_failure(status, text), (drawn, text)
            if number == SERVED // 2:
                before = memory().rss
    assert {200, 201, 204, 400, 403, 404} <= statuses
    missing = (
        {one.endpoint for one in grammar.entrances} - grammar.succeeded - set(ALWAYS_REJECTING)
    )
    assert len(missing) <= choose_count(20, 0), missing
    grown = (memory().rss - before) / 2**20
    assert grown < MOST_GROWTH
    assert {worker} == server.workers()
    assert "Traceback" not in server.log.read_text()
    assert_invariants(database, but=MAY_BE)
    record_property(TRIED, f"{SERVED} over HTTP, grown by {grown:.1f} MB")
