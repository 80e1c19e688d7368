# SPDX-License-Identifier: Apache-2.0
"""A ``placement-sched serve`` under libfaketime, whose wall clock is set while it serves.

SQLite uses the wrong clock of the server. PostgreSQL has the right time, as on another machine.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.chaos.fake_time import FakeClock, create_fake_clock
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.support.scheduling import make_flavor, make_report, make_spec, make_uuid
from tests.support.servers import PROGRAM, Server, build_environment, start_server, wait_until
from tests.support.versions import LATEST
from tests.verifier.growth import assert_generations_grow
from tests.verifier.verify import assert_invariants

JUMP_COUNT = choose_count(12, 40)
MINUTE, DAY, YEAR = 60, 86_400, 31_536_000
#: Offsets of the clock in seconds.
CLOCK_OFFSETS = [0, MINUTE, -MINUTE, 10 * MINUTE, -DAY, DAY, YEAR, -YEAR, 10 * YEAR, -10 * YEAR]
#: Seconds between two jumps, while clients run.
SECONDS_BETWEEN_JUMPS = 0.4
CLIENT_COUNT = 3
pytestmark = pytest.mark.chaos


@pytest.fixture
def fake_clock(tmp_path) -> FakeClock:
    return create_fake_clock(tmp_path)


@pytest.fixture
def server(fake_clock, database_url, tmp_path) -> Iterator[Server]:
    variables = build_environment(
        OS_PLACEMENT_DATABASE__CONNECTION=database_url,
        OS_SCHEDULER__DECISION_RETENTION="3600",
        **fake_clock.variables,
    )
    with start_server(
        "--workers", "2", folder=tmp_path, variables=variables, program=PROGRAM
    ) as server:
        yield server


class InstancePlacingClient(threading.Thread):
    """Reports a host, places, frees and lists instances until it is stopped."""

    def __init__(self, server: Server, which: int) -> None:
        super().__init__(daemon=True)
        self._server, self._which = server, which
        self._dice = random.Random(which)
        self.over = threading.Event()
        self.statuses: Counter[str] = Counter()
        self.failures: list[str] = []
        self.placed = 0
        #: Placed instances, and instances that were freed or not placed.
        self.held: set[str] = set()
        self.free: set[str] = set()

    def run(self) -> None:
        number = 0
        while not self.over.is_set():
            number += 1
            self._send_request(
                "POST", "/scheduler/v1/compute_nodes", [make_report("cn1", vcpus=1000)]
            )
            self._place_instance(make_uuid(self._which * 100_000 + number))
            if self.held and self._dice.random() < 0.3:
                self._free_instance(self._dice.choice(sorted(self.held)))
            for path in ("/scheduler/v1/hosts", "/scheduler/v1/decisions", "/metrics", "/healthz"):
                self._send_request("GET", path, None)
            self._send_request("GET", "/placement/resource_providers", None)

    def _place_instance(self, uuid: str) -> None:
        request = make_spec(uuid, flavor=make_flavor(vcpus=1, memory_mb=1, root_gb=0))
        status = self._send_request(
            "POST", "/scheduler/v1/select_destinations", {"request_spec": request}
        )
        (self.held if status == 200 else self.free).add(uuid)
        self.placed += status == 200

    def _free_instance(self, uuid: str) -> None:
        if self._send_request("DELETE", f"/scheduler/v1/instances/{uuid}", None) == 204:
            self.held.discard(uuid)
            self.free.add(uuid)

    def _send_request(self, method: str, path: str, body: object) -> int:
        if path == "/metrics":
            status, _, text = self._server.get(path)
        else:
            version = {"OpenStack-API-Version": f"placement {LATEST}"}
            status, text = self._server.send(method, path, body, **version)
        self.statuses[f"{method} {status}"] += 1
        if status >= 500:
            self.failures.append(f"{method} {path}: {status} {text}")
        return status


@pytest.mark.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
def test_requests_succeed_while_the_wall_clock_of_the_server_changes(
    fake_clock, database, server, record_property
):
    server.request_json(
        "POST", "/scheduler/v1/compute_nodes", [make_report("cn1", vcpus=1000), make_report("cn2")]
    )
    clients = [InstancePlacingClient(server, which) for which in range(1, CLIENT_COUNT + 1)]
    dice = random.Random(1)
    with assert_generations_grow(database):
        for client in clients:
            client.start()
        for _ in range(JUMP_COUNT):
            fake_clock.set(dice.choice([leap for leap in CLOCK_OFFSETS if leap != fake_clock.off]))
            time.sleep(SECONDS_BETWEEN_JUMPS)
            server.wait_for("/healthz/ready", 200)
        fake_clock.set(0)
        # On a slow machine, a jump between each report and the next selection makes the host down.
        # With the right time, instances are placed again.
        before = sum(client.placed for client in clients)
        is_placed_again = wait_until(lambda: sum(client.placed for client in clients) > before, 120)
        for client in clients:
            client.over.set()
        for client in clients:
            client.join(timeout=120)
    statuses = sum((client.statuses for client in clients), Counter())
    assert [failure for client in clients for failure in client.failures] == []
    assert not any(client.is_alive() for client in clients)
    assert is_placed_again, statuses
    assert {name.split()[1] for name in statuses} <= {"200", "204", "409"}
    for client in clients:
        assert client.held | client.free
        for uuids, is_placed in ((client.held, True), (client.free, False)):
            for uuid in uuids:
                document = server.request_json(
                    "GET", f"/placement/allocations/{uuid}", version=LATEST
                )
                assert bool(document["allocations"]) == is_placed, uuid
    assert "Traceback" not in server.log.read_text()
    assert_invariants(database)
    of = f"a server on {database.reader.dialect.name}"
    record_property(
        TRIED_KEY, f"{JUMP_COUNT} jumps of the clock of {of}, {statuses.total()} requests"
    )
