# SPDX-License-Identifier: Apache-2.0
"""Races of claims by several processes: capacity is never exceeded, and writes are atomic.

A barrier starts the processes, each with its own application on the same database.
``PLACEMENT_SCHED_TEST_RACE_ROUNDS`` is the number of rounds, 10 by default.
"""

import os
import random
from collections import Counter
from uuid import UUID, uuid4

import pytest
from webtest import TestApp

from placement_sched.app import create_app
from placement_sched.db.transaction import Database
from placement_sched.store.placement import allocations
from tests.chaos.scale import TRIED
from tests.conftest import make_settings
from tests.support.invariants import assert_invariants
from tests.support.processes import run_in_processes
from tests.support.providers import make_provider
from tests.support.versions import LATEST

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]

ROUNDS = int(os.environ.get("PLACEMENT_SCHED_TEST_RACE_ROUNDS", "10"))

#: The round, status and error code of a response.
Result = tuple[int, int, str | None]


class Claimant:
    """The client of a process: it writes allocations through an application of its own."""

    def __init__(self, url: str) -> None:
        self._client = TestApp(create_app(make_settings(url)))

    def put(self, consumer: str, provider: str, amount: int) -> tuple[int, str | None]:
        body = {"allocations": {provider: {"resources": {"VCPU": amount}}}, **_owner(None)}
        return self._send("PUT", f"/placement/allocations/{consumer}", body)

    def post(self, claims: dict[str, dict[str, int]]) -> tuple[int, str | None]:
        """Replace the allocations of each consumer, whatever its generation."""
        body = {
            consumer: {
                "allocations": {
                    provider: {"resources": {"VCPU": amount}} for provider, amount in on.items()
                },
                "project_id": "project",
                "user_id": "user",
            }
            for consumer, on in claims.items()
        }
        return self._send("POST", "/placement/allocations", body, version="1.23")

    def _send(self, method, path, body, version=LATEST) -> tuple[int, str | None]:
        headers = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {version}"}
        send = self._client.put_json if method == "PUT" else self._client.post_json
        answer = send(path, body, headers=headers, expect_errors=True)
        code = answer.json["errors"][0]["code"] if answer.status_code >= 400 else None
        return answer.status_code, code


def _owner(generation):
    return {
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }


def claim_each_whole(barrier, which, url, providers):
    """Claim each whole provider for a new consumer, in all processes at the same moment."""
    claimant = Claimant(url)
    results = []
    for number, provider in enumerate(providers):
        barrier.wait(120)
        results.append((number, *claimant.put(str(uuid4()), provider, 8)))
    return results


def create_same_consumers(barrier, which, url, provider, consumers):
    """Create the same consumers as the other processes."""
    claimant = Claimant(url)
    results = []
    for number, consumer in enumerate(consumers):
        barrier.wait(120)
        results.append((number, *claimant.put(consumer, provider, 1)))
    return results


def move_consumers_at_random(barrier, which, url, providers, writes):
    """Move own and shared consumers at random between nearly full providers."""
    claimant, dice = Claimant(url), random.Random(which)
    names = [str(UUID(int=number)) for number in (1, 2, 100 + which, 200 + which)]
    barrier.wait(120)
    return [
        (
            number,
            *claimant.post(
                {
                    name: {
                        provider: dice.randint(1, 4)
                        for provider in dice.sample(providers, dice.randint(0, 3))
                    }
                    for name in dice.sample(names, dice.randint(1, 3))
                }
            ),
        )
        for number in range(writes)
    ]


@pytest.mark.parametrize("claimants", [2, 6])
def test_one_of_concurrent_claims_on_a_whole_provider_succeeds(
    database, database_url, claimants, record_property
):
    providers = [make_provider(database, VCPU=8) for _ in range(ROUNDS)]
    results = run_in_processes(claimants, claim_each_whole, database_url, providers)
    for number, provider in enumerate(providers):
        answers = Counter(result[1:] for result in results if result[0] == number)
        assert answers == {(204, None): 1, (409, "placement.undefined_code"): claimants - 1}, (
            f"round {number}"
        )
        assert used_amounts(database, provider) == [8]
    assert_invariants(database)
    record_property(TRIED, describe_results(database, results, "claims of whole providers"))


def test_one_of_concurrent_creations_of_a_consumer_succeeds(
    database, database_url, record_property
):
    provider = make_provider(database, VCPU=1000)
    consumers = [str(uuid4()) for _ in range(ROUNDS)]
    results = run_in_processes(3, create_same_consumers, database_url, provider, consumers)
    for number in range(ROUNDS):
        answers = Counter(result[1:] for result in results if result[0] == number)
        assert answers == {(204, None): 1, (409, "placement.concurrent_update"): 2}
    assert used_amounts(database, provider) == [1] * ROUNDS
    assert_invariants(database)
    record_property(TRIED, describe_results(database, results, "claims of the same consumers"))


def test_random_concurrent_moves_never_overcommit_or_block(database, database_url, record_property):
    providers = [make_provider(database, VCPU=8) for _ in range(4)]
    results = run_in_processes(4, move_consumers_at_random, database_url, providers, ROUNDS * 2)
    assert {(status, code) for _, status, code in results} <= {
        (204, None),
        (409, "placement.undefined_code"),
    }
    assert any(status == 204 for _, status, _ in results)
    for provider in providers:
        assert sum(used_amounts(database, provider)) <= 8
    assert_invariants(database)
    record_property(TRIED, describe_results(database, results, "moves at random"))


def describe_results(database: Database, results: list[Result], noun: str) -> str:
    return f"{len(results)} {noun} on {database.reader.dialect.name}"


def used_amounts(database: Database, provider: str) -> list[int]:
    with database.read() as connection:
        return [row.used for row in allocations.of_provider(connection, provider)[1]]
