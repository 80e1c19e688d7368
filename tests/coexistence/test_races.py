# SPDX-License-Identifier: Apache-2.0
"""Races of both services for the same providers."""

import logging
import os
import random
from collections import Counter
from uuid import uuid4

import pytest

from placement_sched.db.transaction import Database
from placement_sched.store.checks import Invariant
from placement_sched.store.placement import allocations, resource_providers
from tests.chaos.run_length import TRIED_KEY
from tests.coexistence.conftest import build_peer_url
from tests.coexistence.ledger import (
    create_ledger,
    find_writes_over_capacity,
    read_writes_by_provider,
)
from tests.coexistence.sent_requests import build_claim_request
from tests.conftest import make_settings
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement
from tests.support.processes import run_in_processes
from tests.support.providers import make_provider
from tests.verifier.verify import assert_invariants

pytestmark = pytest.mark.system

LOG = logging.getLogger(__name__)

ROUND_COUNT = int(os.environ.get("PLACEMENT_SCHED_TEST_RACE_ROUNDS", "20"))
VCPU_TOTAL = 8
#: Number of processes of each service: eight in ``make test-only WHAT=chaos``.
PROCESSES_PER_SERVICE = int(os.environ.get("PLACEMENT_SCHED_TEST_RACE_EACH", "2"))
#: Maximum number of races until both services have had a success.
MAX_ATTEMPTS = 5

#: Whether the peer answered, the provider and consumer, the status and the error code.
ClaimResult = tuple[bool, tuple[str, str], int, str | None]


@pytest.fixture(scope="module")
def database(shared_db_url):
    database = Database(make_settings(shared_db_url))
    create_ledger(database)
    yield database
    database.dispose()


def open_service(which: int, url: str) -> OwnPlacement | OpenStackPlacementPeer:
    return OwnPlacement(url) if which % 2 == 0 else OpenStackPlacementPeer(build_peer_url(url))


def claim_whole_providers(barrier, which, url, providers) -> list[ClaimResult]:
    service = open_service(which, url)
    results = []
    for provider in providers:
        consumer = str(uuid4())
        barrier.wait(120)
        reply = service.send_request(
            build_claim_request(consumer, {provider: {"VCPU": VCPU_TOTAL}})
        )
        code = reply.error.get("code")
        results.append((which % 2 == 1, (provider, consumer), reply.status, code))
    service.close()
    return results


def change_amounts_at_random(
    barrier, which, url, providers, number
) -> list[tuple[bool, str, dict, int]]:
    service, rng = open_service(which, url), random.Random(which)
    consumers = {str(uuid4()): (None, {}) for _ in range(3)}
    rejections = 0
    barrier.wait(120)
    for _ in range(number):
        consumer = rng.choice(list(consumers))
        generation, _held = consumers[consumer]
        amounts = {provider: rng.randint(1, 4) for provider in providers}
        claimed = {provider: {"VCPU": amount} for provider, amount in amounts.items()}
        reply = service.send_request(build_claim_request(consumer, claimed, generation))
        if reply.status == 204:
            consumers[consumer] = ((generation or 0) + 1, amounts)
        else:
            rejections += 1
            assert reply.status == 409 or which % 2 == 1, reply
    service.close()
    return [(which % 2 == 1, name, held, rejections) for name, (_, held) in consumers.items()]


def test_claims_of_our_service_never_overcommit_in_races_with_the_peer(
    database, shared_db_url, record_property
):
    attempts = 0
    while not race_for_whole_providers(database, shared_db_url):
        attempts += 1
        assert attempts < MAX_ATTEMPTS, "our service never won, so there was no race"
    claims = (attempts + 1) * ROUND_COUNT * 2 * PROCESSES_PER_SERVICE
    record_property(TRIED_KEY, f"{claims} claims of whole providers by both services")


def race_for_whole_providers(database: Database, shared_db_url: str) -> bool:
    providers = [make_provider(database, VCPU=VCPU_TOTAL) for _ in range(ROUND_COUNT)]
    results = run_in_processes(
        2 * PROCESSES_PER_SERVICE, claim_whole_providers, shared_db_url, providers
    )
    writes = read_writes_by_provider(database)
    rounds = 0
    for provider in providers:
        ours = {
            consumer: (status, code)
            for by_peer, (claimed, consumer), status, code in results
            if claimed == provider and not by_peer
        }
        assert set(ours.values()) <= {(204, None), (409, "placement.undefined_code")}
        won = {consumer for consumer, (status, _code) in ours.items() if status == 204}
        assert len(won) <= 1
        held = read_amounts_by_consumer(database, provider)
        assert {held[consumer] for consumer in won} <= {VCPU_TOTAL}
        assert not held.keys() & (ours.keys() - won)
        excesses = find_writes_over_capacity(
            writes[read_provider_id(database, provider)], VCPU_TOTAL
        )
        assert all(write.by_peer for write in excesses)
        rounds += bool(excesses)
    LOG.info("the peer allocated too much in %d of %d rounds", rounds, ROUND_COUNT)
    # The peer overcommits, and leaves the consumers of claims that it rejects.
    assert_invariants(database, but={Invariant.OVER_CAPACITY, Invariant.NO_ALLOCATIONS})
    winners = Counter(by_peer for by_peer, _claim, status, _code in results if status == 204)
    return winners[False] > 0


@pytest.mark.all_databases
def test_our_changes_in_races_with_the_peer_are_complete_and_within_capacity(
    database, shared_db_url, record_property
):
    attempts = 0
    while not race_changes_of_allocations(database, shared_db_url):
        attempts += 1
        assert attempts < MAX_ATTEMPTS, "no claim was rejected, or a service never won"
    changes = (attempts + 1) * 2 * ROUND_COUNT * 2 * PROCESSES_PER_SERVICE
    record_property(TRIED_KEY, f"{changes} changes of amounts by both services")


def race_changes_of_allocations(database: Database, shared_db_url: str) -> bool:
    both_wrote = True
    capacity = 2 * VCPU_TOTAL
    providers = [make_provider(database, VCPU=capacity) for _ in range(2)]
    results = run_in_processes(
        2 * PROCESSES_PER_SERVICE,
        change_amounts_at_random,
        shared_db_url,
        providers,
        2 * ROUND_COUNT,
    )
    writes = read_writes_by_provider(database)
    for provider in providers:
        held = read_amounts_by_consumer(database, provider)
        for by_peer, consumer, amounts, _rejections in results:
            if not by_peer:
                assert held.get(consumer, 0) == amounts.get(provider, 0)
        history = writes[read_provider_id(database, provider)]
        assert history[-1].after == sum(held.values())
        assert all(write.by_peer for write in find_writes_over_capacity(history, capacity))
        both_wrote = both_wrote and {write.by_peer for write in history} == {True, False}
    return both_wrote and any(rejections for by_peer, _, _, rejections in results if not by_peer)


def read_provider_id(database: Database, provider: str) -> int:
    with database.read() as connection:
        return resource_providers.get_by_uuid(connection, provider).id


def read_amounts_by_consumer(database: Database, provider: str) -> dict[str, int]:
    with database.read() as connection:
        _, rows = allocations.get_by_provider_uuid(connection, provider)
    assert len({row.consumer for row in rows}) == len(rows)
    return {row.consumer: row.used for row in rows}
