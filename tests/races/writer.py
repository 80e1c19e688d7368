# SPDX-License-Identifier: Apache-2.0
"""One of many clients that write allocations and inventories at random, and remember what held.

A request ends in one of three ways: acknowledged, refused, or without an answer because the worker
that had it was killed. What had no answer was done wholly or not at all: the consumers' generations
say which, and no one else touches this writer's consumers.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from placement_sched.db.transaction import Database
from tests.conftest import make_settings
from tests.races.journal import wait_for_writes
from tests.support.versions import LATEST

#: The totals that an inventory is given at random: the largest is the room of a provider at most.
TOTALS = range(24, 41)
#: Seconds after which it is a fault that no worker answers.
_PATIENCE = 120
_HEADERS = {
    "X-Auth-Token": "admin",
    "X-Roles": "admin,service",
    "OpenStack-API-Version": f"placement {LATEST}",
    "Content-Type": "application/json",
}

#: What a consumer holds: units of VCPU by provider.
Amounts = Mapping[str, int]


@dataclass(frozen=True)
class CapacityReduction:
    """A total given to a provider's inventory, over the generation that the writer had seen.

    ``sure`` is False where no answer said whether it was done.
    """

    provider: str
    over: int
    total: int
    sure: bool


@dataclass(frozen=True)
class WriterResult:
    """What a writer knows at the end."""

    holds: Mapping[str, Amounts]
    shrinks: tuple[CapacityReduction, ...]
    #: How often each kind of request ended in each status; None is no answer.
    ends: Counter[tuple[str, int | None]]


@dataclass
class _Consumer:
    generation: int | None = None
    amounts: Amounts = field(default_factory=dict)


class Writer:
    """Writes to a server, which works on ``database``, until told to stop."""

    def __init__(self, url: str, seed: int, providers: list[str], database: Database) -> None:
        self._address = urlsplit(url).netloc
        self._database = database
        self._dice = random.Random(seed)
        self._providers = providers
        self._consumers = {str(uuid4()): _Consumer() for _ in range(3)}
        self._shrinks: list[CapacityReduction] = []
        self._ends: Counter[tuple[str, int | None]] = Counter()

    def write_until(self, end: float) -> WriterResult:
        """Write at random until the wall clock says ``end``."""
        kinds = [self._put] * 6 + [self._post] * 4 + [self._delete, self._reshape, self._reshape]
        kinds += [self._shrink] * 2
        while time.time() < end:
            self._dice.choice(kinds)()
        return WriterResult(
            {name: consumer.amounts for name, consumer in self._consumers.items()},
            tuple(self._shrinks),
            self._ends,
        )

    def _put(self) -> None:
        (name,) = self._choose(1)
        wanted = self._amounts()
        body = self._claim(name, wanted)
        self._record_result({name: wanted}, self._send("PUT", f"/allocations/{name}", body))

    def _post(self) -> None:
        wanted = {name: self._amounts(least=0) for name in self._choose(2)}
        body = {name: self._claim(name, amounts) for name, amounts in wanted.items()}
        self._record_result(wanted, self._send("POST", "/allocations", body))

    def _delete(self) -> None:
        (name,) = self._choose(1)
        self._record_result({name: {}}, self._send("DELETE", f"/allocations/{name}"))

    def _shrink(self) -> None:
        provider, total = self._dice.choice(self._providers), self._dice.choice(TOTALS)
        over = self._generation_of(provider)
        body = {"resource_provider_generation": over, "total": total}
        status = self._send("PUT", f"/resource_providers/{provider}/inventories/VCPU", body)
        if status in {200, None}:
            self._shrinks.append(CapacityReduction(provider, over, total, sure=status == 200))

    def _reshape(self) -> None:
        """Give a provider another total and a consumer other amounts, both or neither."""
        provider, total = self._dice.choice(self._providers), self._dice.choice(TOTALS)
        (name,), wanted = self._choose(1), self._amounts()
        over = self._generation_of(provider)
        body = {
            "inventories": {
                provider: {
                    "resource_provider_generation": over,
                    "inventories": {"VCPU": {"total": total}},
                }
            },
            "allocations": {name: self._claim(name, wanted)},
        }
        if self._record_result({name: wanted}, self._send("POST", "/reshaper", body)):
            self._shrinks.append(CapacityReduction(provider, over, total, sure=True))

    def _choose(self, number: int) -> list[str]:
        return self._dice.sample(list(self._consumers), number)

    def _amounts(self, least: int = 1) -> Amounts:
        number = self._dice.randint(least, 3)
        chosen = self._dice.sample(self._providers, number)
        return {provider: self._dice.randint(1, 6) for provider in chosen}

    def _claim(self, name: str, amounts: Amounts) -> dict[str, Any]:
        return {
            "allocations": {
                provider: {"resources": {"VCPU": amount}} for provider, amount in amounts.items()
            },
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": self._consumers[name].generation,
            "consumer_type": "INSTANCE",
        }

    def _generation_of(self, provider: str) -> int:
        generation: int = self._get(f"/resource_providers/{provider}")["generation"]
        return generation

    def _record_result(self, wanted: Mapping[str, Amounts], status: int | None) -> bool:
        """Note what the consumers hold now; return whether the request was done."""
        done = status == 204 if status is not None else self._was_applied(wanted)
        if done:
            for name, amounts in wanted.items():
                known = self._consumers[name].generation
                generation = (known or 0) + 1 if amounts else None
                self._consumers[name] = _Consumer(generation, amounts)
        return done

    def _was_applied(self, wanted: Mapping[str, Amounts]) -> bool:
        """Return whether a request without an answer was done; it must be so for all or none."""
        wait_for_writes(self._database)
        told = set()
        for name, amounts in wanted.items():
            found = self._find(name)
            known = self._consumers[name]
            if found == known and amounts == known.amounts == {}:
                continue  # Nothing was to be done for this one.
            after = _Consumer((known.generation or 0) + 1 if amounts else None, amounts)
            assert found in (known, after), f"{name}: {found}, neither {known} nor {after}"
            told.add(found == after)
        assert len(told) <= 1, f"a request was half done: {wanted}"
        return told == {True}

    def _find(self, name: str) -> _Consumer:
        told = self._get(f"/allocations/{name}")
        amounts = {
            provider: one["resources"]["VCPU"] for provider, one in told["allocations"].items()
        }
        return _Consumer(told.get("consumer_generation"), amounts)

    def _get(self, path: str) -> dict[str, Any]:
        """Return what the server says, asking until a worker answers."""
        end = time.monotonic() + _PATIENCE
        answer = None
        while time.monotonic() < end:
            answer = self._ask("GET", path)
            if answer is not None and answer[0] == 200:
                document: dict[str, Any] = json.loads(answer[1])
                return document
            time.sleep(0.05)
        raise AssertionError(f"{path}: {answer}")

    def _send(self, method: str, path: str, body: object = None) -> int | None:
        answer = self._ask(method, path, body)
        status = None if answer is None else answer[0]
        self._ends[f"{method} /{path.split('/')[1]}", status] += 1
        return status

    def _ask(self, method: str, path: str, body: object = None) -> tuple[int, bytes] | None:
        connection = HTTPConnection(self._address, timeout=120)
        try:
            connection.request(
                method,
                f"/placement{path}",
                body=None if body is None else json.dumps(body),
                headers=_HEADERS,
            )
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (HTTPException, ConnectionError):
            return None
        finally:
            connection.close()


def write_at_random(barrier, which, url, providers, seconds, database_url) -> list[WriterResult]:
    """Write for so many seconds, as one process of several."""
    database = Database(make_settings(database_url, placement_database__lock_timeout=120))
    writer = Writer(url, which, providers, database)
    barrier.wait(120)
    try:
        return [writer.write_until(time.time() + seconds)]
    finally:
        database.dispose()
