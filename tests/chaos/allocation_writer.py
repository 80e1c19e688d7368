# SPDX-License-Identifier: Apache-2.0
"""A client that writes allocations at random and records the results.

A request is acknowledged, rejected, or without a response because its worker was killed. Without a
response it was applied completely or not at all. The consumers' generations distinguish the two,
because no other client changes the consumers of this writer.
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

from placement_sched.db.transaction import Connection, Database
from tests.conftest import make_settings
from tests.support.versions import LATEST

#: The total of each inventory.
TOTAL_VCPUS = 40
#: Statements that wait for every open transaction that has written allocations.
_LOCK_STATEMENTS = {
    "sqlite": (),
    "postgresql": ("LOCK TABLE allocations IN SHARE MODE",),
    "mysql": ("LOCK TABLES allocations READ", "UNLOCK TABLES"),
}
#: Maximum seconds until a worker responds.
_MAX_RESPONSE_SECONDS = 120
_REQUEST_HEADERS = {
    "X-Auth-Token": "admin",
    "X-Roles": "admin,service",
    "OpenStack-API-Version": f"placement {LATEST}",
    "Content-Type": "application/json",
}

#: The VCPU that a consumer has allocated, by provider.
VcpusByProvider = Mapping[str, int]


@dataclass(frozen=True)
class WriterResult:
    amounts: Mapping[str, VcpusByProvider]
    #: Number of requests by kind and status. The status is None without a response.
    statuses: Counter[tuple[str, int | None]]


@dataclass
class _ConsumerState:
    generation: int | None = None
    amounts: VcpusByProvider = field(default_factory=dict)


def wait_for_transactions(database: Database) -> None:
    """Wait until no transaction is open, including transactions of killed clients.

    A server may take a while to read the last packets of a killed client, such as a COMMIT, or to
    notice its end. SQLite has no server, so transactions end with their process.
    """

    def lock_allocations(connection: Connection) -> None:
        for statement in _LOCK_STATEMENTS[database.url.get_backend_name()]:
            connection.exec_driver_sql(statement)

    database.write(lock_allocations)


class AllocationWriter:
    """A writer to a server that works on ``database``."""

    def __init__(self, url: str, seed: int, providers: list[str], database: Database) -> None:
        self._address = urlsplit(url).netloc
        self._database = database
        self._dice = random.Random(seed)
        self._providers = providers
        self._consumers = {str(uuid4()): _ConsumerState() for _ in range(3)}
        self._statuses: Counter[tuple[str, int | None]] = Counter()

    def write_allocations_until(self, end: float) -> WriterResult:
        kinds = (
            [self._put_allocations] * 6
            + [self._post_allocations] * 4
            + [self._delete_allocations, self._post_reshaper, self._post_reshaper]
        )
        while time.time() < end:
            self._dice.choice(kinds)()
        return WriterResult(
            {name: consumer.amounts for name, consumer in self._consumers.items()}, self._statuses
        )

    def _put_allocations(self) -> None:
        (name,) = self._draw_consumers(1)
        claimed = self._draw_amounts()
        body = self._build_claim(name, claimed)
        self._send_write({name: claimed}, "PUT", f"/allocations/{name}", body)

    def _post_allocations(self) -> None:
        claimed = {name: self._draw_amounts(least=0) for name in self._draw_consumers(2)}
        body = {name: self._build_claim(name, amounts) for name, amounts in claimed.items()}
        self._send_write(claimed, "POST", "/allocations", body)

    def _delete_allocations(self) -> None:
        (name,) = self._draw_consumers(1)
        self._send_write({name: {}}, "DELETE", f"/allocations/{name}")

    def _post_reshaper(self) -> None:
        """Write a provider's inventory and a consumer's allocations in a single request."""
        provider = self._dice.choice(self._providers)
        (name,), claimed = self._draw_consumers(1), self._draw_amounts()
        generation = self._read_document(f"/resource_providers/{provider}")["generation"]
        inventories = {"VCPU": {"total": TOTAL_VCPUS}}
        body = {
            "inventories": {
                provider: {"resource_provider_generation": generation, "inventories": inventories}
            },
            "allocations": {name: self._build_claim(name, claimed)},
        }
        self._send_write({name: claimed}, "POST", "/reshaper", body)

    def _draw_consumers(self, number: int) -> list[str]:
        return self._dice.sample(list(self._consumers), number)

    def _draw_amounts(self, least: int = 1) -> VcpusByProvider:
        number = self._dice.randint(least, 3)
        chosen = self._dice.sample(self._providers, number)
        return {provider: self._dice.randint(1, 6) for provider in chosen}

    def _build_claim(self, name: str, amounts: VcpusByProvider) -> dict[str, Any]:
        return {
            "allocations": {
                provider: {"resources": {"VCPU": amount}} for provider, amount in amounts.items()
            },
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": self._consumers[name].generation,
            "consumer_type": "INSTANCE",
        }

    def _send_write(
        self, claimed: Mapping[str, VcpusByProvider], method: str, path: str, body: object = None
    ) -> None:
        """Send a write, count its status, and record the allocations if it was applied."""
        response = self._send_request(method, path, body)
        status = None if response is None else response[0]
        self._statuses[f"{method} /{path.split('/')[1]}", status] += 1
        is_applied = status == 204 if status is not None else self._was_request_applied(claimed)
        if is_applied:
            for name, amounts in claimed.items():
                generation = self._consumers[name].generation
                next_generation = (generation or 0) + 1 if amounts else None
                self._consumers[name] = _ConsumerState(next_generation, amounts)

    def _was_request_applied(self, claimed: Mapping[str, VcpusByProvider]) -> bool:
        """Read from the server whether a request without a response was applied."""
        wait_for_transactions(self._database)
        results = set()
        for name, amounts in claimed.items():
            current, before = self._read_consumer(name), self._consumers[name]
            if current == before and amounts == before.amounts == {}:
                continue  # The request does not change this consumer.
            after = _ConsumerState((before.generation or 0) + 1 if amounts else None, amounts)
            assert current in (before, after), f"{name}: {current}, neither {before} nor {after}"
            results.add(current == after)
        assert len(results) <= 1, f"a request was half applied: {claimed}"
        return results == {True}

    def _read_consumer(self, name: str) -> _ConsumerState:
        document = self._read_document(f"/allocations/{name}")
        amounts = {
            provider: allocation["resources"]["VCPU"]
            for provider, allocation in document["allocations"].items()
        }
        return _ConsumerState(document.get("consumer_generation"), amounts)

    def _read_document(self, path: str) -> dict[str, Any]:
        """Return a document, repeating the request until a worker responds."""
        end = time.monotonic() + _MAX_RESPONSE_SECONDS
        response = None
        while time.monotonic() < end:
            response = self._send_request("GET", path)
            if response is not None and response[0] == 200:
                document: dict[str, Any] = json.loads(response[1])
                return document
            time.sleep(0.05)
        raise AssertionError(f"{path}: {response}")

    def _send_request(
        self, method: str, path: str, body: object = None
    ) -> tuple[int, bytes] | None:
        connection = HTTPConnection(self._address, timeout=120)
        try:
            connection.request(
                method,
                f"/placement{path}",
                body=None if body is None else json.dumps(body),
                headers=_REQUEST_HEADERS,
            )
            response = connection.getresponse()
            return response.status, response.read()
        except (HTTPException, ConnectionError):
            return None
        finally:
            connection.close()


def write_at_random(barrier, seed, url, providers, seconds, database_url) -> list[WriterResult]:
    """Write at random for this number of seconds in a process of several."""
    database = Database(make_settings(database_url, placement_database__lock_timeout=120))
    writer = AllocationWriter(url, seed, providers, database)
    barrier.wait(120)
    try:
        return [writer.write_allocations_until(time.time() + seconds)]
    finally:
        database.dispose()
