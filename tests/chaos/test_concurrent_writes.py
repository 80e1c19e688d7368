# SPDX-License-Identifier: Apache-2.0
"""Sixteen concurrent writers on every route that writes, with the same few names."""

import json
import logging
import random
import threading
import time
from collections import Counter
from http.client import HTTPConnection, HTTPException
from multiprocessing.synchronize import Barrier
from typing import Any
from urllib.parse import urlsplit

import pytest

from placement_sched.app import create_app
from placement_sched.db.transaction import Database
from placement_sched.store.checks import Invariant
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.chaos.write_routes import WriteRoute, list_write_routes
from tests.chaos.writes import HOSTS, PROVIDER_UUIDS, PROVIDER_VCPUS, WriteRequestDrawer
from tests.support.processes import run_in_processes
from tests.support.scheduling import make_report
from tests.verifier.model import Fault
from tests.verifier.verify import assert_invariants, verify

pytestmark = pytest.mark.system

LOG = logging.getLogger(__name__)
WRITER_COUNT, SECONDS_PER_RACE = 16, choose_count(4, 15)
#: Maximum number of races of that length. The test stops when each route has succeeded.
MAX_RACES = choose_count(1, 3)
#: Invariants that writers may break. A client may free or replace an instance's allocations, record
#: it on another host or not at all, and set the aggregates of a provider by hand.
BREAKABLE_INVARIANTS = {
    Invariant.ANOTHER_HOST,
    Invariant.NOT_RECORDED,
    Invariant.NOT_CLAIMED,
    Fault.CLAIM_DIFFERS,
    Fault.NOT_IN_PLACEMENT,
    Fault.STALE_IN_PLACEMENT,
}
OVER_ALLOCATION_FAULTS = {Invariant.OVER_CAPACITY, Fault.UNITS}


class RandomRouteWriter:
    """Sends random writes on a connection."""

    def __init__(self, which: int, url: str) -> None:
        self._connection = HTTPConnection(urlsplit(url).netloc, timeout=120)
        self._dice = random.Random(which)
        self._drawer = WriteRequestDrawer(self._dice, self._read_document)
        self.statuses: Counter[tuple[str, int]] = Counter()

    def send_write(self, route: WriteRoute) -> None:
        path = self._drawer.draw_path(route.rule)
        body = self._drawer.draw_body(route.name)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body)
        headers = {"OpenStack-API-Version": route.version, "Content-Type": route.kind}
        self.statuses[route.name, self._send_request(route.method, path, body, headers)[0]] += 1

    def _read_document(self, path: str) -> Any:
        api = path.split("/")[1]
        status, text = self._send_request(
            "GET", path, None, {"OpenStack-API-Version": f"{api} latest"}
        )
        return json.loads(text) if status == 200 else {}

    def _send_request(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> tuple[int, bytes]:
        headers = {"X-Auth-Token": "admin", "X-Roles": "admin,service", **headers}
        try:
            self._connection.request(method, path, body, headers)
            response = self._connection.getresponse()
            return response.status, response.read()
        except (HTTPException, OSError) as failure:
            self._connection.close()
            raise AssertionError(f"{method} {path}: {failure!r}") from failure


def write_to_random_routes(
    barrier: Barrier, which: int, url: str, routes: list[WriteRoute], seconds: float
) -> list[Counter[tuple[str, int]]]:
    """Write at random for a number of seconds, in a process of several."""
    writer, dice = RandomRouteWriter(which, url), random.Random(-which)
    barrier.wait(120)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        writer.send_write(dice.choice(routes))
    return [writer.statuses]


def create_hosts_and_providers(server) -> None:
    """Create the hosts and providers that the writers use."""
    server.request_json(
        "POST", "/scheduler/v1/compute_nodes", [make_report(host, vcpus=200) for host in HOSTS]
    )
    version = "placement 1.39"
    for uuid in PROVIDER_UUIDS:
        body = {"uuid": uuid, "name": uuid}
        server.request_json("POST", "/placement/resource_providers", body, version)
        inventories = {
            "resource_provider_generation": 0,
            "inventories": {"VCPU": {"total": PROVIDER_VCPUS}},
        }
        path = f"/placement/resource_providers/{uuid}/inventories"
        server.request_json("PUT", path, inventories, version)


class OverAllocationWatcher(threading.Thread):
    """Checks repeatedly that no inventory is over-allocated.

    No writer lowers the total of a claimed class, so over-allocation is a fault at any moment, even
    if the inventory was written after the allocations.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._over = threading.Event()
        self.checks = 0
        self.faults: list[str] = []

    def run(self) -> None:
        while not self._over.wait(0.3) and not self.faults:
            result = verify(self._database)
            faults = (*result.violations, *result.allowed)
            self.faults.extend(
                fault.detail for fault in faults if fault.invariant in OVER_ALLOCATION_FAULTS
            )
            self.checks += 1

    def stop(self) -> None:
        self._over.set()
        self.join(timeout=60)


def test_concurrent_writes_on_every_route_keep_database_invariants(
    serve, settings, database, database_url, record_property
):
    application = create_app(settings)
    routes = list(list_write_routes(application))
    application.close()
    assert len(routes) > 50
    server = serve("--workers", "2", OS_PLACEMENT_DATABASE__CONNECTION=database_url)
    create_hosts_and_providers(server)
    statuses: Counter[tuple[str, int]] = Counter()
    watcher = OverAllocationWatcher(database)
    watcher.start()
    names = {route.name for route in routes}
    for _ in range(MAX_RACES):
        for counts in run_in_processes(
            WRITER_COUNT, write_to_random_routes, server.url, routes, SECONDS_PER_RACE
        ):
            statuses.update(counts)
        failed_routes = names - {name for name, status in statuses if status < 300}
        if not failed_routes:
            break
    watcher.stop()
    assert watcher.checks
    assert watcher.faults == []
    failed = {key: number for key, number in statuses.items() if key[1] >= 500}
    before, traceback, after = server.log.read_text().partition("Traceback")
    assert not traceback, before[-1000:] + traceback + after[:5000]
    assert not [key for key in failed if key[1] != 503], failed
    assert sum(failed.values()) <= statuses.total() / 100, failed
    LOG.info("never done: %s", {k: n for k, n in statuses.items() if k[0] in failed_routes})
    assert len(failed_routes) <= choose_count(20, 0), {
        key: n for key, n in statuses.items() if key[0] in failed_routes
    }
    assert_invariants(database, but=BREAKABLE_INVARIANTS)
    # Over-allocation is allowed only after an inventory has shrunk, and none has.
    assert verify(database).allowed == ()
    kind = database.url.get_backend_name()
    record_property(TRIED_KEY, f"{statuses.total()} writes by {len(routes)} routes on {kind}")
