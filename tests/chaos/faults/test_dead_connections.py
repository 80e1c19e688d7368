# SPDX-License-Identifier: Apache-2.0
"""A database that repeatedly closes connections causes no error other than 503."""

import threading
from collections import Counter

import pytest

from placement_sched.db import engine, errors
from tests.chaos.faults.cutting_proxy import run_database_proxy
from tests.chaos.faults.requests import create_provider
from tests.chaos.run_length import TRIED_KEY
from tests.conftest import make_settings
from tests.support.versions import LATEST_HEADERS
from tests.verifier.verify import assert_invariants

#: SQLite has no connections that a server could close.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True),
]
#: Number of times that SQLAlchemy's pool replaces a closed connection.
POOL_CONNECT_ATTEMPTS = 2
CONNECTION_CUT_COUNT = 40


@pytest.fixture
def number_of_closed_connections(monkeypatch):
    """Give a list with the number of next connections that are found closed."""
    remaining = [0]
    is_open = engine.is_open

    def is_open_and_not_counted(dialect, connection):
        remaining[0] -= 1
        return remaining[0] < 0 and is_open(dialect, connection)

    monkeypatch.setattr(engine, "is_open", is_open_and_not_counted)
    return remaining


def test_connection_closed_by_the_database_is_replaced(app, number_of_closed_connections):
    for number in range(1, POOL_CONNECT_ATTEMPTS * errors._MAX_CONNECT_ATTEMPTS):
        number_of_closed_connections[0] = number
        create_provider(app, status=200)
        number_of_closed_connections[0] = number
        app.get("/placement/resource_providers", headers=LATEST_HEADERS, status=200)


def test_repeatedly_closed_connections_are_503_with_the_reason(app, number_of_closed_connections):
    app.get("/placement/traits", headers=LATEST_HEADERS)
    number_of_closed_connections[0] = 10_000
    for response in (
        create_provider(app, status=503),
        app.get("/placement/resource_providers", headers=LATEST_HEADERS, status=503),
    ):
        assert "closes its connections" in response.json["errors"][0]["detail"]
        assert response.headers["Retry-After"] == "1"
    number_of_closed_connections[0] = 0
    create_provider(app, status=200)


def test_cut_connections_cause_no_error_but_503(database_url, database, make_app, record_property):
    with run_database_proxy(database_url) as (proxy, url):
        app = make_app(make_settings(url))
        create_provider(app, status=200)
        stopped = threading.Event()
        statuses: Counter[int] = Counter()

        def send_requests_until_stopped():
            while not stopped.is_set():
                statuses[create_provider(app, expect_errors=True).status_int] += 1
                response = app.get(
                    "/placement/resource_providers?name=none",
                    headers=LATEST_HEADERS,
                    expect_errors=True,
                )
                statuses[response.status_int] += 1

        threads = [threading.Thread(target=send_requests_until_stopped) for _ in range(3)]
        for thread in threads:
            thread.start()
        for number in range(CONNECTION_CUT_COUNT):
            stopped.wait(0.01 + 0.003 * (number % 7))
            proxy.cut_connections()
        stopped.set()
        for thread in threads:
            thread.join(timeout=120)
    assert set(statuses) <= {200, 503}, statuses
    assert statuses[200] > 0
    assert_invariants(database)
    kind = database.reader.dialect.name
    record_property(
        TRIED_KEY,
        f"all connections cut {CONNECTION_CUT_COUNT} times on {kind}, {statuses.total()} requests",
    )
