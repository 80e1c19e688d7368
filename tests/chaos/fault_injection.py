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
from tests.chaos.ledger import check_ledgers, claim_randomly
from tests.chaos.run_length import choose_count
from tests.conftest import make_settings
from tests.support.invariants import assert_generations_grow, assert_invariants
from tests.support.processes import PROCESSES, run_in_processes
from tests.support.providers import make_provider
from tests.support.servers import Server

LOG = logging.getLogger(__name__)
CLIENTS = 8
#: Minimum and maximum of the random seconds between two faults.
PAUSES = (0.05, 0.5)


class _RepeatedFault(threading.Thread):
    """Injects a fault ``many`` times, after pauses of random length."""

    def __init__(self, happen: Callable[[], None], many: int, pauses: tuple[float, float]) -> None:
        super().__init__(daemon=True)
        self._happen, self._many, self._pauses = happen, many, pauses
        self._stopped = threading.Event()
        #: Set when clients run.
        self.begun = PROCESSES.Event()
        self.over = PROCESSES.Event()
        self.happened = 0

    def run(self) -> None:
        try:
            assert self.begun.wait(240), "no client began"
            while self.happened < self._many and not self._stopped.wait(self._draw_pause()):
                self._happen()
                self.happened += 1
            self._stopped.wait(max(self._pauses))
        finally:
            self.over.set()

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=120)

    def _draw_pause(self) -> float:
        return random.uniform(*self._pauses)


def claim_during_faults(
    database: Database,
    servers: list[Server],
    happen: Callable[[], None],
    many: int,
    pauses: tuple[float, float] = PAUSES,
    called: str = "kills",
) -> str:
    """Let clients claim during faults, check the database, and return a summary."""
    providers = [make_provider(database, VCPU=1_000_000) for _ in range(5)]
    urls = [server.url for server in servers]
    fault = _RepeatedFault(happen, many, pauses)
    with assert_generations_grow(database):
        fault.start()
        try:
            ledgers = run_in_processes(
                CLIENTS, claim_randomly, urls, providers, fault.begun, fault.over
            )
        finally:
            fault.stop()
        for server in servers:
            server.wait_for("/healthz/ready", 200)
    answers = check_ledgers(database, ledgers)
    LOG.info("%s %s: %s", fault.happened, called, dict(answers))
    assert fault.happened == many
    assert answers["PUT 204"] > choose_count(2, 10) * CLIENTS, dict(answers)
    assert {name.split()[1] for name in answers} <= {"204", "404", "409", "503", "without"}
    for server in servers:
        before, traceback, after = server.log.read_text().partition("Traceback")
        assert not traceback, before[-1000:] + traceback + after[:5000]
    assert_invariants(database)
    return f"{fault.happened} {called}, {answers.total()} writes"


@contextmanager
def open_prepared_database(url: str) -> Iterator[Database]:
    """Yield a database with the schema."""
    database = Database(make_settings(url))
    try:
        sync(database, utcnow)
        yield database
    finally:
        database.dispose()
