"""Clients that claim and free at random through faults, and what they know must be there."""

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
from tests.versions import LATEST_HEADERS

_HEADERS = {"X-Auth-Token": "admin", "Content-Type": "application/json", **LATEST_HEADERS}


@dataclass
class Ledger:
    """What a client was answered: which consumers hold something, and of which it does not know."""

    held: set[str] = field(default_factory=set)
    free: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    answers: Counter[str] = field(default_factory=Counter)


class Claimer:
    """Claims one VCPU of two providers at a time for new consumers, and frees some again."""

    def __init__(self, urls: list[str], providers: list[str], seed: int) -> None:
        self._addresses = [urlsplit(url).netloc for url in urls]
        self._providers = providers
        self._dice = random.Random(seed)
        self.ledger = Ledger()

    def work(self, seconds: float) -> Ledger:
        """Claim and free for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.ledger.held and self._dice.random() < 0.3:
                self._free(self._dice.choice(sorted(self.ledger.held)))
            else:
                self._claim(str(uuid4()))
        return self.ledger

    def _claim(self, consumer: str) -> None:
        chosen = self._dice.sample(self._providers, 2)
        body = {
            "allocations": {one: {"resources": {"VCPU": 1}} for one in chosen},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        self._settle(consumer, self._send("PUT", consumer, body), done="held", not_done="free")

    def _free(self, consumer: str) -> None:
        self.ledger.held.discard(consumer)
        status = self._send("DELETE", consumer, None)
        self._settle(consumer, status, done="free", not_done="held")

    def _settle(self, consumer: str, status: int | None, *, done: str, not_done: str) -> None:
        if status == 204:
            state = done
        elif status in {None, 503}:  # 503 may say that it is not known whether a COMMIT was done
            state = "unknown"
        else:
            state = not_done
        getattr(self.ledger, state).add(consumer)

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


def claim_at_random(
    barrier: Barrier, which: int, urls: list[str], providers: list[str], begun: Event, over: Event
) -> list[Ledger]:
    """Claim and free until it is over, as one process of several; set ``begun`` at first."""
    claimer = Claimer(urls, providers, seed=which)
    barrier.wait(120)
    begun.set()
    while not over.is_set():
        claimer.work(0.2)
    return [claimer.ledger]


def check(database: Database, ledgers: list[Ledger]) -> Counter[str]:
    """Hold what is in the database against what clients were answered; return their answers.

    What was acknowledged is there, whole; what was refused is not; of what had no answer all is
    there or nothing.
    """
    with database.read() as connection:
        rows = Counter(connection.scalars(select(allocations.c.consumer_id)))
        known = set(connection.scalars(select(consumers.c.uuid)))
    answers: Counter[str] = Counter()
    for ledger in ledgers:
        answers.update(ledger.answers)
        lost = {one for one in ledger.held if rows[one] != 2}
        assert not lost, f"acknowledged and not there, or not whole: {lost}"
        left = {one for one in ledger.free - ledger.unknown if rows[one]}
        assert not left, f"refused or freed, and there: {left}"
        half = {one for one in ledger.unknown if rows[one] not in {0, 2}}
        assert not half, f"half there: {half}"
    assert known == set(rows), "consumers without allocations, or the other way round"
    return answers
