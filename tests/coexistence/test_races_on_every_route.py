# SPDX-License-Identifier: Apache-2.0
"""Races of both services on every write route of placement, with few names."""

import os
import random
from collections import Counter
from typing import Any

import pytest

from placement_sched.app import create_app
from placement_sched.db.transaction import Database
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.chaos.write_routes import WriteRoute, list_write_routes
from tests.chaos.writes import WriteRequestDrawer
from tests.coexistence.conftest import build_peer_url
from tests.conftest import make_settings
from tests.differential.exchange import Reply, Request
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement
from tests.support.processes import run_in_processes
from tests.support.versions import PEER_LATEST
from tests.verifier.growth import assert_generations_grow
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.system

#: Number of processes of each service: eight in ``make test-only WHAT=chaos``.
PROCESSES_PER_SERVICE = int(os.environ.get("PLACEMENT_SCHED_TEST_RACE_EACH", "2"))
#: Number of requests of each process.
WRITES_PER_PROCESS = choose_count(60, 80)
#: Maximum number of races until each service has succeeded on a third of the routes.
MAX_ATTEMPTS = 3
#: Neither service deletes resource classes, because the peer does not check whether the class of an
#: inventory that it writes still exists.
ROUTE_OF_NEITHER_SERVICE = "DELETE /placement/resource_classes/<name>"
#: Routes that the peer does not use. ``test_races.py`` has races for its claims, with a
#: ledger that detects overcommitment. The peer takes no locks when it deletes or moves providers:
#: two moves may leave a loop, and a concurrent write may leave rows of a deleted provider.
ROUTES_NOT_USED_BY_PEER = {
    "PUT /placement/allocations/<consumer_uuid>",
    "POST /placement/allocations",
    "DELETE /placement/allocations/<consumer_uuid>",
    "POST /placement/reshaper",
    "PUT /placement/resource_providers/<uuid>",
    "DELETE /placement/resource_providers/<uuid>",
}

#: Whether the peer answered, the route and the status.
RouteResponse = tuple[bool, str, int]


class RandomWriter:
    """Sends random writes to a service."""

    def __init__(self, which: int, url: str, routes: list[WriteRoute]) -> None:
        self._is_peer = which % 2 == 1
        self._service = (
            OpenStackPlacementPeer(build_peer_url(url)) if self._is_peer else OwnPlacement(url)
        )
        self._random = random.Random(which)
        self._world = WriteRequestDrawer(self._random, self._get_document)
        self._routes = [
            route
            for route in routes
            if not (self._is_peer and route.name in ROUTES_NOT_USED_BY_PEER)
        ]
        self.responses: Counter[RouteResponse] = Counter()

    def send_random_write(self) -> None:
        route = self._random.choice(self._routes)
        path = self._world.draw_path(route.rule)
        body = self._world.draw_body(route.name)
        version = route.version.removeprefix("placement ")
        reply = self._send_request(route.method, path, version, ... if body is None else body)
        self.responses[self._is_peer, route.name, reply.status] += 1

    def close(self) -> None:
        self._service.close()

    def _get_document(self, path: str) -> Any:
        reply = self._send_request("GET", path, PEER_LATEST)
        return reply.document if reply.status == 200 else {}

    def _send_request(self, method: str, path: str, version: str, document: object = ...) -> Reply:
        target = path.removeprefix("/placement")
        return self._service.send_request(
            Request(method, target, version=version, document=document)
        )


def send_random_writes(
    barrier, which: int, url: str, routes: list[WriteRoute]
) -> list[Counter[RouteResponse]]:
    writer = RandomWriter(which, url, routes)
    barrier.wait(120)
    for _ in range(WRITES_PER_PROCESS):
        writer.send_random_write()
    writer.close()
    return [writer.responses]


@pytest.fixture
def database(shared_db_url):
    database = Database(make_settings(shared_db_url))
    yield database
    database.dispose()


@pytest.mark.all_databases
def test_concurrent_writes_on_every_route_keep_invariants(database, shared_db_url, record_property):
    application = create_app(make_settings(shared_db_url))
    all_routes = [
        route for route in list_write_routes(application) if route.rule.startswith("/placement/")
    ]
    routes = [route for route in all_routes if route.name != ROUTE_OF_NEITHER_SERVICE]
    application.close()
    responses: Counter[RouteResponse] = Counter()
    for _ in range(MAX_ATTEMPTS):
        with assert_generations_grow(database):
            for counts in run_in_processes(
                2 * PROCESSES_PER_SERVICE, send_random_writes, shared_db_url, routes
            ):
                responses.update(counts)
        done = {(by, name) for by, name, status in responses if status < 300}
        totals = [sum(by == is_peer for by, _ in done) for is_peer in (False, True)]
        if min(totals) >= len(routes) / 3:
            break
    assert min(totals) >= len(routes) / 3, responses
    failed = {key: number for key, number in responses.items() if not key[0] and key[2] >= 500}
    assert failed == {}
    assert_invariants(database)
    record_property(
        TRIED_KEY, f"{responses.total()} writes by {len(routes)} routes of both services"
    )
