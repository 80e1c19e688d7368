"""Requests that a grammar makes, on all routes of all faces: none fails, none is lost, all end."""

import logging
import random

import psutil
import pytest

from placement_sched.app import create_app
from tests.chaos.grammar import UUIDS, Drawn, Grammar
from tests.chaos.scale import TRIED, times
from tests.conftest import Client
from tests.invariants import assert_invariants
from tests.placing import report
from tests.versions import LATEST_HEADERS

REQUESTS = times(400, 7000)
#: Bytes by which this process may grow while the second half is asked.
MOST_GROWTH = 64 * 2**20


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


@pytest.fixture
def application(settings):
    application = create_app(settings)
    yield application
    application.close()


def test_no_request_that_the_grammar_makes_fails(application, database, caplog, record_property):
    app = Client(application)
    furnish(app)
    process, before = psutil.Process(), 0
    statuses: set[int] = set()
    grammar = Grammar.of(application, random.Random(20261123))
    for number in range(REQUESTS):
        drawn = grammar.draw()
        status, text = send(app, drawn)
        statuses.add(status)
        assert status < 500, (drawn, text)
        assert "Traceback" not in text, drawn
        failures = [one for one in caplog.records if one.exc_info or one.levelno >= logging.ERROR]
        assert not failures, (drawn, failures)
        caplog.clear()
        if number == REQUESTS // 2:
            before = process.memory_info().rss
    # The grammar reaches what is there, and what is refused.
    assert {200, 204, 400, 403, 404, 405, 409, 415} <= statuses
    assert process.memory_info().rss - before < MOST_GROWTH
    assert app.get("/placement/resource_providers", headers=LATEST_HEADERS).status_int == 200
    assert_invariants(database)
    record_property(TRIED, f"{REQUESTS} requests")
