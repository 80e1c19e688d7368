# SPDX-License-Identifier: Apache-2.0
"""Clients that claim and free at random during faults, and a check of their writes."""

import json
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from multiprocessing.synchronize import Barrier, Event
from urllib.parse import urlsplit
from uuid import uuid4

from sqlalchemy import select

from placement_sched.db.tables import allocations, consumers
from placement_sched.db.transaction import Database
from tests.support.versions import LATEST_HEADERS
from tests.verifier.growth import find_lost_writes
from tests.verifier.model import AcknowledgedWrites, HeldAmounts

_HEADERS = {"X-Auth-Token": "admin", "Content-Type": "application/json", **LATEST_HEADERS}
#: No response, or 503: the COMMIT may have succeeded or failed.
_UNKNOWN = (None, 503)
_DONE_OR_NOT = (204, *_UNKNOWN)


@dataclass
class Ledger:
    """Writes of a client, the consumers that it may free, and counts of its responses."""

    writes: AcknowledgedWrites = field(default_factory=AcknowledgedWrites)
    held: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)


class Claimer:
    """Claims a VCPU of two providers for each new consumer, and frees some consumers."""

    def __init__(self, urls: list[str], providers: list[str], seed: int) -> None:
        self._addresses = [urlsplit(url).netloc for url in urls]
        self._providers = providers
        self._dice = random.Random(seed)
        self.ledger = Ledger()

    def run_for(self, seconds: float) -> Ledger:
        """Claim and free for a number of seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.ledger.held and self._dice.random() < 0.3:
                self._free_allocations(self._dice.choice(sorted(self.ledger.held)))
            else:
                self._claim_allocations(str(uuid4()))
        return self.ledger

    def _claim_allocations(self, consumer: str) -> None:
        chosen = self._dice.sample(self._providers, 2)
        body = {
            "allocations": {uuid: {"resources": {"VCPU": 1}} for uuid in chosen},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        status = self._send("PUT", consumer, body)
        amounts = {(uuid, "VCPU"): 1 for uuid in chosen} if status in _DONE_OR_NOT else {}
        self._record_write(consumer, amounts, status)
        if status == 204:
            self.ledger.held.add(consumer)

    def _free_allocations(self, consumer: str) -> None:
        self.ledger.held.discard(consumer)
        status = self._send("DELETE", consumer, None)
        if status in _DONE_OR_NOT:
            self._record_write(consumer, {}, status)
        else:
            self.ledger.held.add(consumer)

    def _record_write(self, consumer: str, amounts: HeldAmounts, status: int | None) -> None:
        self.ledger.writes.note(consumer, amounts, answered=status not in _UNKNOWN)

    def _send(self, method: str, consumer: str, body: object) -> int | None:
        connection = HTTPConnection(self._dice.choice(self._addresses), timeout=120)
        content = None if body is None else json.dumps(body)
        try:
            connection.request(method, f"/placement/allocations/{consumer}", content, _HEADERS)
            status = connection.getresponse().status
            self.ledger.answers[f"{method} {status}"] += 1
        except (HTTPException, OSError):
            self.ledger.answers[f"{method} without answer"] += 1
            time.sleep(0.02)  # the server may be starting
            return None
        finally:
            connection.close()
        return status


def claim_randomly(
    barrier: Barrier, which: int, urls: list[str], providers: list[str], begun: Event, over: Event
) -> list[Ledger]:
    """Set ``begun``, then claim and free until ``over`` is set, in a process of several."""
    claimer = Claimer(urls, providers, seed=which)
    barrier.wait(120)
    begun.set()
    while not over.is_set():
        claimer.run_for(0.2)
    return [claimer.ledger]


def check_ledgers(database: Database, ledgers: list[Ledger]) -> Counter[str]:
    """Compare the database with the responses of all clients, and count the responses.

    Acknowledged writes are complete. Rejected writes have no rows. A write without a response has
    all of its rows or none.
    """
    answers: Counter[str] = Counter()
    for ledger in ledgers:
        answers.update(ledger.answers)
        assert [fault.detail for fault in find_lost_writes(database, ledger.writes)] == []
    with database.read() as connection:
        holding = set(connection.scalars(select(allocations.c.consumer_id)))
        stored = set(connection.scalars(select(consumers.c.uuid)))
    assert stored == holding, "consumers without allocations, or allocations without consumer"
    return answers
