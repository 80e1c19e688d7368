# SPDX-License-Identifier: Apache-2.0
"""Both services write at the same moment, by every route of placement, on the same few names."""

import os
import random
from collections import Counter
from typing import Any

import pytest

from placement_sched.app import create_app
from placement_sched.db.transaction import Database
from tests.chaos.scale import TRIED, choose_count
from tests.chaos.write_routes import WriteRoute, list_write_routes
from tests.chaos.writes import World
from tests.coexistence.conftest import peer_url
from tests.conftest import Client, make_settings
from tests.differential.exchange import Reply, Request
from tests.differential.sides import Ours, Peer
from tests.support.invariants import assert_generations_grow, assert_invariants
from tests.support.processes import run_in_processes
from tests.support.versions import PEER_LATEST

pytestmark = pytest.mark.system

#: Processes of each service; ``make test-only WHAT=chaos`` has eight.
EACH = int(os.environ.get("PLACEMENT_SCHED_TEST_RACE_EACH", "2"))
#: Requests of each process.
WRITES = choose_count(60, 80)
#: How often they may all be started until each service has done a third of what there is to do.
ATTEMPTS = 3
#: What is deleted by neither: the other service does not look whether the class of an inventory
#: that it writes is still there.
BY_NEITHER = "DELETE /placement/resource_classes/<name>"
#: What the other service does not write here. Its claims are raced in ``test_racing.py``, where a
#: ledger tells which are too many. It does not lock what it deletes or moves: two moves at once may
#: leave a loop of providers, and of a provider that it deletes may be left what is written at the
#: same moment.
NOT_BY_PEER = {
    "PUT /placement/allocations/<consumer_uuid>",
    "POST /placement/allocations",
    "DELETE /placement/allocations/<consumer_uuid>",
    "POST /placement/reshaper",
    "PUT /placement/resource_providers/<uuid>",
    "DELETE /placement/resource_providers/<uuid>",
}

#: Whether the peer answered, by which way, and with what status.
Answer = tuple[bool, str, int]


class Writer:
    """Writes to one of the services at random, one request after the other."""

    def __init__(self, which: int, url: str, ways: list[WriteRoute]) -> None:
        self._is_peer = which % 2 == 1
        self._service = Peer(peer_url(url)) if self._is_peer else Ours(url)
        self._dice = random.Random(which)
        self._world = World(self._dice, self._get)
        self._ways = [way for way in ways if not (self._is_peer and way.name in NOT_BY_PEER)]
        self.answers: Counter[Answer] = Counter()

    def write(self) -> None:
        way = self._dice.choice(self._ways)
        path = self._world.path(way.rule)
        body = self._world.body(way.name)
        version = way.version.removeprefix("placement ")
        reply = self._ask(way.method, path, version, ... if body is None else body)
        self.answers[self._is_peer, way.name, reply.status] += 1

    def close(self) -> None:
        self._service.close()

    def _get(self, path: str) -> Any:
        reply = self._ask("GET", path, PEER_LATEST)
        return reply.document if reply.status == 200 else {}

    def _ask(self, method: str, path: str, version: str, document: object = ...) -> Reply:
        target = path.removeprefix("/placement")
        return self._service.ask(Request(method, target, version=version, document=document))


def write_at_random(barrier, which: int, url: str, ways: list[WriteRoute]) -> list[Counter[Answer]]:
    writer = Writer(which, url, ways)
    barrier.wait(120)
    for _ in range(WRITES):
        writer.write()
    writer.close()
    return [writer.answers]


@pytest.fixture
def database(shared_url):
    database = Database(make_settings(shared_url))
    yield database
    database.dispose()


@pytest.mark.all_databases
def test_concurrent_writes_on_every_route_keep_invariants(database, shared_url, record_property):
    application = create_app(make_settings(shared_url))
    every = [
        way for way in list_write_routes(Client(application)) if way.rule.startswith("/placement/")
    ]
    ways = [way for way in every if way.name != BY_NEITHER]
    application.close()
    answers: Counter[Answer] = Counter()
    for _ in range(ATTEMPTS):
        with assert_generations_grow(database):
            for one in run_in_processes(2 * EACH, write_at_random, shared_url, ways):
                answers.update(one)
        done = {(by, name) for by, name, status in answers if status < 300}
        each = [sum(by == is_peer for by, _ in done) for is_peer in (False, True)]
        if min(each) >= len(ways) / 3:
            break
    assert min(each) >= len(ways) / 3, answers
    failed = {key: many for key, many in answers.items() if not key[0] and key[2] >= 500}
    assert failed == {}
    assert_invariants(database)
    record_property(TRIED, f"{answers.total()} writes by {len(ways)} routes of both services")
