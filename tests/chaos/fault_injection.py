# SPDX-License-Identifier: Apache-2.0
"""Clients that claim during faults, and a check that no acknowledged write is lost."""

import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.chaos.recorded_writes import check_recorded_writes, claim_allocations_at_random
from tests.chaos.run_length import choose_count
from tests.conftest import make_settings
from tests.support.processes import FORKSERVER, run_in_processes
from tests.support.providers import make_provider
from tests.support.servers import Server
from tests.verifier.growth import assert_generations_grow
from tests.verifier.verify import assert_invariants

LOG = logging.getLogger(__name__)
CLIENT_COUNT = 8
#: Minimum and maximum of the random seconds between two faults.
PAUSE_RANGE = (0.05, 0.5)


class _FaultRepeater(threading.Thread):
    """Injects a fault ``count`` times, after pauses of random length."""

    def __init__(
        self, inject_fault: Callable[[], None], count: int, pauses: tuple[float, float]
    ) -> None:
        super().__init__(daemon=True)
        self._inject_fault, self._count, self._pauses = inject_fault, count, pauses
        self._stopped = threading.Event()
        #: Set when clients run.
        self.started = FORKSERVER.Event()
        self.ended = FORKSERVER.Event()
        self.injected_faults = 0

    def run(self) -> None:
        try:
            assert self.started.wait(240), "no client began"
            while self.injected_faults < self._count and not self._stopped.wait(self._draw_pause()):
                self._inject_fault()
                self.injected_faults += 1
            self._stopped.wait(max(self._pauses))
        finally:
            self.ended.set()

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=120)

    def _draw_pause(self) -> float:
        return random.uniform(*self._pauses)


def claim_during_faults(
    database: Database,
    servers: list[Server],
    inject_fault: Callable[[], None],
    count: int,
    pauses: tuple[float, float] = PAUSE_RANGE,
    fault_noun: str = "kills",
) -> str:
    """Let clients claim during faults, check the database, and return a summary."""
    providers = [make_provider(database, VCPU=1_000_000) for _ in range(5)]
    urls = [server.url for server in servers]
    fault = _FaultRepeater(inject_fault, count, pauses)
    with assert_generations_grow(database):
        fault.start()
        try:
            recorded_writes = run_in_processes(
                CLIENT_COUNT,
                claim_allocations_at_random,
                urls,
                providers,
                fault.started,
                fault.ended,
            )
        finally:
            fault.stop()
        for server in servers:
            server.wait_for("/healthz/ready", 200)
    statuses = check_recorded_writes(database, recorded_writes)
    LOG.info("%s %s: %s", fault.injected_faults, fault_noun, dict(statuses))
    assert fault.injected_faults == count
    assert statuses["PUT 204"] > choose_count(2, 10) * CLIENT_COUNT, dict(statuses)
    assert {name.split()[1] for name in statuses} <= {"204", "404", "409", "503", "without"}
    for server in servers:
        before, traceback, after = server.log.read_text().partition("Traceback")
        assert not traceback, before[-1000:] + traceback + after[:5000]
    assert_invariants(database)
    return f"{fault.injected_faults} {fault_noun}, {statuses.total()} writes"


@contextmanager
def open_database_with_schema(url: str) -> Iterator[Database]:
    """Yield a database with the schema."""
    database = Database(make_settings(url))
    try:
        sync(database, utcnow)
        yield database
    finally:
        database.dispose()
