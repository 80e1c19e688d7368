# SPDX-License-Identifier: Apache-2.0
"""Races of claims by several processes: capacity is never exceeded, and writes are atomic.

A barrier starts the processes, each with its own connections to the same database.
``PLACEMENT_SCHED_TEST_RACE_ROUNDS`` is the number of rounds, 6 by default.
"""

import os
import random
from collections import Counter
from functools import partial
from uuid import UUID, uuid4

import pytest
from sqlalchemy import event

from placement_sched.db.transaction import Database
from placement_sched.errors import CapacityExceeded, ConcurrentUpdate, Conflict
from placement_sched.model.provider import UNCHECKED, Inventory
from placement_sched.model.request_stats import get_request_stats
from placement_sched.store.placement import allocations, inventories, resource_providers
from tests.chaos.run_length import TRIED_KEY
from tests.conftest import make_settings
from tests.store.placement.claims import build_claim, build_vcpu_claim, replace_allocations
from tests.support.concurrency import run_before_each_statement
from tests.support.processes import run_in_processes
from tests.support.providers import NOW, make_provider
from tests.verifier.verify import assert_invariants

pytestmark = [pytest.mark.all_databases, pytest.mark.slow]

RACE_ROUNDS = int(os.environ.get("PLACEMENT_SCHED_TEST_RACE_ROUNDS", "6"))


class ClaimingProcess:
    """A process that claims VCPU, and records the result of each round."""

    def __init__(self, url: str) -> None:
        self._database = Database(make_settings(url))
        self.results: list[tuple[int, type[Conflict] | None]] = []

    def write_claims(self, number: int, claims, generation=None) -> None:
        """Write the amounts by provider of each consumer in a round, all or none."""
        new = [
            build_claim(
                consumer, generation, on={uuid: {"VCPU": used} for uuid, used in on.items()}
            )
            for consumer, on in claims.items()
        ]
        self.write_and_record_result(number, partial(allocations.replace, claims=new, now=NOW))

    def write_and_record_result(self, number: int, work) -> None:
        error = None
        try:
            self._database.claim(work)
        except Conflict as conflict:
            error = type(conflict)
        self.results.append((number, error))


def claim_providers(barrier, which, url, claims):
    """Claim ``(consumer, provider, amount)`` at the same moment. None is a new consumer."""
    claimant = ClaimingProcess(url)
    for number, (consumer, provider, amount) in enumerate(claims):
        barrier.wait(120)
        claimant.write_claims(number, {consumer or str(uuid4()): {provider: amount}})
    return claimant.results


def claim_or_reduce_providers(barrier, which, url, providers):
    """Claim each whole provider, or reduce it, over its first generation."""
    claimant = ClaimingProcess(url)
    for number, uuid in enumerate(providers):
        barrier.wait(120)
        if which % 2:
            claimant.write_and_record_result(number, partial(reduce_inventory, uuid=uuid))
        else:
            claimant.write_claims(number, {str(uuid4()): {uuid: 8}})
    return claimant.results


def reduce_inventory(connection, uuid):
    provider = resource_providers.lock_by_uuid(connection, uuid, 0)
    small = Inventory(resource_class="VCPU", total=4)
    inventories.replace(connection, provider, [small], NOW)
    resource_providers.bump_generations(connection, [provider.id], NOW)


def move_consumers_at_random(barrier, which, url, providers, writes):
    """Move own and shared consumers at random between nearly full providers."""
    claimant, dice = ClaimingProcess(url), random.Random(which)
    names = [str(UUID(int=number)) for number in (1, 2, 100 + which, 200 + which)]
    barrier.wait(120)
    for number in range(writes):
        claims = {
            name: {
                provider: dice.randint(1, 4)
                for provider in dice.sample(providers, dice.randint(0, 3))
            }
            for name in dice.sample(names, dice.randint(1, 3))
        }
        claimant.write_claims(number, claims, UNCHECKED)
    return claimant.results


@pytest.fixture
def run_process_race(database, database_url, record_property):
    """Give a function that runs processes, and returns the results of each round."""

    def run_processes_and_count_errors(number, work, *arguments):
        results = run_in_processes(number, work, database_url, *arguments)
        assert_invariants(database)
        kind = database.reader.dialect.name
        record_property(TRIED_KEY, f"{len(results)} claims on {kind} ({work.__name__})")
        turns = sorted({turn for turn, _ in results})
        return [Counter(error for turn, error in results if turn == each) for each in turns]

    return run_processes_and_count_errors


@pytest.mark.parametrize("claimants", [3, pytest.param(6, marks=pytest.mark.exhaustive)])
def test_one_of_concurrent_claims_of_a_provider_succeeds(database, run_process_race, claimants):
    providers = [make_provider(database, VCPU=8) for _ in range(RACE_ROUNDS)]
    claims = [(None, provider, 8) for provider in providers]
    results = run_process_race(claimants, claim_providers, claims)
    assert results == [{None: 1, CapacityExceeded: claimants - 1}] * RACE_ROUNDS
    assert [list_used_amounts(database, provider) for provider in providers] == [[8]] * RACE_ROUNDS


def test_claim_does_not_use_capacity_that_is_removed_concurrently(database, run_process_race):
    """Each increments the generation, so a reduction that succeeds is before the claims."""
    providers = [make_provider(database, VCPU=8) for _ in range(RACE_ROUNDS)]
    for results in run_process_race(4, claim_or_reduce_providers, providers):
        assert results[None] == 1


def test_one_of_concurrent_creations_of_a_consumer_succeeds(database, run_process_race):
    provider = make_provider(database, VCPU=1000)
    claims = [(str(uuid4()), provider, 1) for _ in range(RACE_ROUNDS)]
    results = run_process_race(3, claim_providers, claims)
    assert results == [{None: 1, ConcurrentUpdate: 2}] * RACE_ROUNDS
    assert list_used_amounts(database, provider) == [1] * RACE_ROUNDS


def test_random_concurrent_moves_end_without_overcommitted_providers_or_deadlock(
    database, run_process_race
):
    providers = [make_provider(database, VCPU=8) for _ in range(4)]
    errors = sum(
        run_process_race(4, move_consumers_at_random, providers, RACE_ROUNDS * 2), Counter()
    )
    assert set(errors) <= {None, CapacityExceeded}
    assert errors[None]


def release_consumer(connection, consumer):
    """Write a claim of no resources."""
    allocations.replace(connection, [build_claim(consumer)], NOW)


def delete_consumer(connection, consumer):
    allocations.remove(connection, [consumer])


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
@pytest.mark.parametrize("release", [release_consumer, delete_consumer])
def test_release_of_a_consumer_created_between_its_statements_is_complete(
    database, settings, release
):
    provider, consumers = make_provider(database, VCPU=1000), []

    def create_consumer():
        replace_allocations(concurrent_writer, build_vcpu_claim(provider, 1, consumers[-1]))

    def release_new_consumer():
        consumers.append(str(uuid4()))
        database.write(partial(release, consumer=consumers[-1]))

    with Database(settings) as concurrent_writer:
        for _ in run_before_each_statement(database, release_new_consumer, create_consumer):
            assert_invariants(database)
    assert len(consumers) > 2


# The failed insert on MariaDB locks the existing row.
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_claim_is_repeated_if_its_consumer_is_created_and_deleted_between_its_statements(
    database, settings
):
    provider = make_provider(database, VCPU=8)
    claim = build_vcpu_claim(provider, 1, generation=None)
    replace_allocations(database, build_vcpu_claim(provider, 1))  # creates the project and user
    with Database(settings) as concurrent_writer:
        changes = iter(
            [
                partial(allocations.replace, claims=[claim], now=NOW),
                partial(delete_consumer, consumer=claim.consumer),
            ]
        )
        executed = []

        def change_consumer_from_its_insert_on(_connection, _cursor, statement, *_):
            executed.append(statement)
            has_inserted = any(" INTO consumers" in each for each in executed)
            if has_inserted and (change := next(changes, None)):
                concurrent_writer.write(change)

        event.listen(database.writer, "before_cursor_execute", change_consumer_from_its_insert_on)
        replace_allocations(database, claim)
    assert list_used_amounts(database, provider) == [1, 1]
    assert get_request_stats().retries == 1


def list_used_amounts(database: Database, provider: str) -> list[int]:
    with database.read() as connection:
        return [row.used for row in allocations.get_by_provider_uuid(connection, provider)[1]]
