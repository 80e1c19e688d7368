"""Requests that a grammar makes, on all routes of all faces: none fails, none is lost, all end."""

import gc
import logging
import random
import tracemalloc
from contextlib import closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

import psutil
import pytest

from placement_sched.app import create_app
from tests.chaos.grammar import UUIDS, Drawn, Grammar
from tests.chaos.scale import TRIED, times
from tests.conftest import Client
from tests.invariants import assert_invariants
from tests.placing import report
from tests.versions import LATEST_HEADERS

REQUESTS = times(1200, 7000)
#: Bytes of Python's objects that a request may leave, on average of the second half: by then what
#: is kept for later requests is there.
MOST_LEFT = times(2048, 1024)
#: Requests over HTTP, and the megabytes by which the server may grow in the second half of them.
SERVED = times(300, 2000)
MOST_GROWTH = times(40, 10)
#: The answer of 501 that is right, as nova's.
UNREPORTED = "has not reported its uptime"


def furnish(app: Client) -> None:
    """Make what the names of the grammar name."""
    hosts = [report("cn1"), report("cn2")]
    app.post_json("/scheduler/v1/compute_nodes", hosts, headers={"X-Auth-Token": "admin"})
    app.put("/placement/traits/CUSTOM_GOLD", headers=LATEST_HEADERS)
    for number, uuid in enumerate(UUIDS[:3]):
        body = {"uuid": uuid, "name": f"provider{number}"}
        app.post_json("/placement/resource_providers", body, headers=LATEST_HEADERS)


def send(app: Client, drawn: Drawn) -> tuple[int, str]:
    """Return the status and the body of an answer."""
    request = app.RequestClass.blank(drawn.path, method=drawn.method, headers=drawn.headers)
    if drawn.body is not None:
        request.body = drawn.body
    answer = app.do_request(request, expect_errors=True)
    return answer.status_int, answer.body.decode("utf-8", "replace")


def is_failure(status: int, text: str) -> bool:
    """Return whether an answer is a server's failure, or shows one."""
    return "Traceback" in text or (status >= 500 and UNREPORTED not in text)


def number_of_bytes() -> int:
    """Return how much of what was made since is still there."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.fixture
def application(settings):
    application = create_app(settings)
    yield application
    application.close()


def test_no_request_that_the_grammar_makes_fails(application, database, caplog, record_property):
    app = Client(application)
    furnish(app)
    tracemalloc.start()
    before = 0
    statuses: set[int] = set()
    grammar = Grammar.of(application, random.Random(20261123))
    for number in range(REQUESTS):
        drawn = grammar.draw()
        status, text = send(app, drawn)
        statuses.add(status)
        assert not is_failure(status, text), (drawn, text)
        failures = [one for one in caplog.records if one.exc_info or one.levelno >= logging.ERROR]
        assert not failures, (drawn, failures)
        caplog.clear()
        if number == REQUESTS // 2:
            before = number_of_bytes()
    # The grammar reaches what is there, and what is refused.
    assert {200, 204, 400, 403, 404, 405, 409, 415} <= statuses
    left = (number_of_bytes() - before) / (REQUESTS - REQUESTS // 2)
    tracemalloc.stop()
    assert left < MOST_LEFT
    assert app.get("/placement/resource_providers", headers=LATEST_HEADERS).status_int == 200
    assert_invariants(database)
    record_property(TRIED, f"{REQUESTS} requests, each of which leaves {left:.0f} bytes")


@pytest.mark.system
def test_a_server_fails_no_request_of_the_grammar_and_does_not_grow(
    serve, database_url, application, database, record_property
):
    server = serve(OS_PLACEMENT_DATABASE__CONNECTION=database_url)
    (worker,) = server.workers()
    memory = psutil.Process(worker).memory_info
    furnish(Client(application))
    grammar = Grammar.of(application, random.Random(20261124))
    statuses: set[int] = set()
    before = 0
    with closing(HTTPConnection(urlsplit(server.url).netloc, timeout=60)) as connection:
        for number in range(SERVED):
            drawn = grammar.draw()
            connection.request(drawn.method, drawn.path, drawn.body, dict(drawn.headers))
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", "replace")
            statuses.add(answer.status)
            assert not is_failure(answer.status, text), (drawn, text)
            if number == SERVED // 2:
                before = memory().rss
    assert {200, 400, 403, 404} <= statuses
    grown = (memory().rss - before) / 2**20
    assert grown < MOST_GROWTH
    assert {worker} == server.workers()
    assert "Traceback" not in server.log.read_text()
    assert_invariants(database)
    record_property(TRIED, f"{SERVED} over HTTP, grown by {grown:.1f} MB")
