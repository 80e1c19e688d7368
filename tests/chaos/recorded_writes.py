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
from tests.verifier.model import AcknowledgedWrites, AllocatedAmounts

_REQUEST_HEADERS = {"X-Auth-Token": "admin", "Content-Type": "application/json", **LATEST_HEADERS}
#: No response, or 503: the COMMIT may have succeeded or failed.
_UNKNOWN_RESULT_STATUSES = (None, 503)
_POSSIBLE_WRITE_STATUSES = (204, *_UNKNOWN_RESULT_STATUSES)


@dataclass
class RecordedWrites:
    """Writes of a client, the consumers that it may free, and counts of its responses."""

    writes: AcknowledgedWrites = field(default_factory=AcknowledgedWrites)
    held: set[str] = field(default_factory=set)
    statuses: Counter[str] = field(default_factory=Counter)


class AllocationClaimer:
    """Claims a VCPU of two providers for each new consumer, and frees some consumers."""

    def __init__(self, urls: list[str], providers: list[str], seed: int) -> None:
        self._addresses = [urlsplit(url).netloc for url in urls]
        self._providers = providers
        self._dice = random.Random(seed)
        self.recorded_writes = RecordedWrites()

    def claim_and_free_for_seconds(self, seconds: float) -> RecordedWrites:
        """Claim and free for a number of seconds."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.recorded_writes.held and self._dice.random() < 0.3:
                self._free_allocations(self._dice.choice(sorted(self.recorded_writes.held)))
            else:
                self._claim_allocations(str(uuid4()))
        return self.recorded_writes

    def _claim_allocations(self, consumer: str) -> None:
        chosen = self._dice.sample(self._providers, 2)
        body = {
            "allocations": {uuid: {"resources": {"VCPU": 1}} for uuid in chosen},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        status = self._send_request("PUT", consumer, body)
        amounts = (
            {(uuid, "VCPU"): 1 for uuid in chosen} if status in _POSSIBLE_WRITE_STATUSES else {}
        )
        self._record_write(consumer, amounts, status)
        if status == 204:
            self.recorded_writes.held.add(consumer)

    def _free_allocations(self, consumer: str) -> None:
        self.recorded_writes.held.discard(consumer)
        status = self._send_request("DELETE", consumer, None)
        if status in _POSSIBLE_WRITE_STATUSES:
            self._record_write(consumer, {}, status)
        else:
            self.recorded_writes.held.add(consumer)

    def _record_write(self, consumer: str, amounts: AllocatedAmounts, status: int | None) -> None:
        self.recorded_writes.writes.record_write(
            consumer, amounts, answered=status not in _UNKNOWN_RESULT_STATUSES
        )

    def _send_request(self, method: str, consumer: str, body: object) -> int | None:
        connection = HTTPConnection(self._dice.choice(self._addresses), timeout=120)
        content = None if body is None else json.dumps(body)
        try:
            connection.request(
                method, f"/placement/allocations/{consumer}", content, _REQUEST_HEADERS
            )
            status = connection.getresponse().status
            self.recorded_writes.statuses[f"{method} {status}"] += 1
        except (HTTPException, OSError):
            self.recorded_writes.statuses[f"{method} without response"] += 1
            time.sleep(0.02)  # the server may be starting
            return None
        finally:
            connection.close()
        return status


def claim_allocations_at_random(
    barrier: Barrier,
    which: int,
    urls: list[str],
    providers: list[str],
    started: Event,
    ended: Event,
) -> list[RecordedWrites]:
    """Set ``started``, then claim and free until ``ended`` is set."""
    claimer = AllocationClaimer(urls, providers, seed=which)
    barrier.wait(120)
    started.set()
    while not ended.is_set():
        claimer.claim_and_free_for_seconds(0.2)
    return [claimer.recorded_writes]


def check_recorded_writes(database: Database, clients: list[RecordedWrites]) -> Counter[str]:
    """Compare the database with the responses of all clients, and count the responses.

    Acknowledged writes are complete. Rejected writes have no rows. A write without a response has
    all of its rows or none.
    """
    statuses: Counter[str] = Counter()
    for recorded_writes in clients:
        statuses.update(recorded_writes.statuses)
        assert [fault.detail for fault in find_lost_writes(database, recorded_writes.writes)] == []
    with database.read() as connection:
        holding = set(connection.scalars(select(allocations.c.consumer_id)))
        stored = set(connection.scalars(select(consumers.c.uuid)))
    assert stored == holding, "consumers without allocations, or allocations without consumer"
    return statuses
