# SPDX-License-Identifier: Apache-2.0
"""Both services claim from the same providers at the same moment."""

import logging
import os
import random
from collections import Counter
from uuid import uuid4

import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.checks import Invariant
from placement_sched.store.placement import allocations, resource_providers
from tests.chaos.scale import TRIED
from tests.coexistence.conftest import peer_url
from tests.coexistence.ledger import create_ledger, writes_by_provider, writes_over_capacity
from tests.conftest import make_settings
from tests.differential.exchange import Request
from tests.differential.sides import Ours, Peer
from tests.support.invariants import assert_invariants
from tests.support.processes import run_in_processes
from tests.support.providers import make_provider
from tests.support.versions import PEER_LATEST

pytestmark = pytest.mark.system

LOG = logging.getLogger(__name__)

ROUNDS = int(os.environ.get("PLACEMENT_SCHED_TEST_RACE_ROUNDS", "20"))
CAPACITY = 8
#: Processes of each service; ``make test-only WHAT=chaos`` has eight.
EACH = int(os.environ.get("PLACEMENT_SCHED_TEST_RACE_EACH", "2"))
#: How often they may all be started before one is to have met another.
ATTEMPTS = 5

#: Which service answered (True: the peer's), what was asked, and the status and error code.
Answer = tuple[bool, tuple[str, str], int, str | None]


@pytest.fixture(scope="module")
def database(shared_url):
    database = Database(make_settings(shared_url))
    create_ledger(database)
    yield database
    database.dispose()


def open_side(which: int, url: str) -> Ours | Peer:
    return Ours(url) if which % 2 == 0 else Peer(peer_url(url))


def put_allocations_request(
    consumer: str, amounts: dict[str, int], generation: int | None
) -> Request:
    body = {
        "allocations": {
            provider: {"resources": {"VCPU": amount}} for provider, amount in amounts.items()
        },
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }
    return Request("PUT", f"/allocations/{consumer}", version=PEER_LATEST, document=body)


def claim_each_whole(barrier, which, url, providers) -> list[Answer]:
    service = open_side(which, url)
    told = []
    for provider in providers:
        consumer = str(uuid4())
        barrier.wait(120)
        reply = service.ask(put_allocations_request(consumer, {provider: CAPACITY}, None))
        told.append((which % 2 == 1, (provider, consumer), reply.status, reply.error.get("code")))
    service.close()
    return told


def change_amounts(barrier, which, url, providers, number) -> list[tuple[bool, str, dict, int]]:
    service, dice = open_side(which, url), random.Random(which)
    consumers = {str(uuid4()): (None, {}) for _ in range(3)}
    refused = 0
    barrier.wait(120)
    for _ in range(number):
        consumer = dice.choice(list(consumers))
        generation, _held = consumers[consumer]
        wanted = {provider: dice.randint(1, 4) for provider in providers}
        reply = service.ask(put_allocations_request(consumer, wanted, generation))
        if reply.status == 204:
            consumers[consumer] = ((generation or 0) + 1, wanted)
        else:
            refused += 1
            assert reply.status == 409 or which % 2 == 1, reply
    service.close()
    return [(which % 2 == 1, name, held, refused) for name, (_, held) in consumers.items()]


def test_concurrent_whole_claims_of_both_services_never_overcommit(
    database, shared_url, record_property
):
    attempts = 0
    while not race_for_whole_providers(database, shared_url):
        attempts += 1
        assert attempts < ATTEMPTS, "ours never won: the race was none"
    claims = (attempts + 1) * ROUNDS * 2 * EACH
    record_property(TRIED, f"{claims} claims of whole providers by both services")


def race_for_whole_providers(database: Database, shared_url: str) -> bool:
    providers = [make_provider(database, VCPU=CAPACITY) for _ in range(ROUNDS)]
    told = run_in_processes(2 * EACH, claim_each_whole, shared_url, providers)
    made = writes_by_provider(database)
    rounds = 0
    for provider in providers:
        ours = {
            consumer: (status, code)
            for peer, (asked, consumer), status, code in told
            if asked == provider and not peer
        }
        assert set(ours.values()) <= {(204, None), (409, "placement.undefined_code")}
        won = {consumer for consumer, (status, _code) in ours.items() if status == 204}
        assert len(won) <= 1
        held = used_by_consumer(database, provider)
        assert {held[consumer] for consumer in won} <= {CAPACITY}
        assert not held.keys() & (ours.keys() - won)
        too_many = writes_over_capacity(made[provider_id(database, provider)], CAPACITY)
        assert all(one.by_peer for one in too_many)
        rounds += bool(too_many)
    LOG.info("the peer allocated too much in %d of %d rounds", rounds, ROUNDS)
    # The peer leaves consumers of claims that it refuses, and allocates too much.
    assert_invariants(database, but={Invariant.OVER_CAPACITY, Invariant.NO_ALLOCATIONS})
    winners = Counter(peer for peer, _asked, status, _code in told if status == 204)
    return winners[False] > 0


@pytest.mark.all_databases
def test_concurrent_changes_of_both_services_are_atomic_and_fit(
    database, shared_url, record_property
):
    attempts = 0
    while not race_of_changes(database, shared_url):
        attempts += 1
        assert attempts < ATTEMPTS, "there was room for all, or one of the services never won"
    changes = (attempts + 1) * 2 * ROUNDS * 2 * EACH
    record_property(TRIED, f"{changes} changes of amounts by both services")


def race_of_changes(database: Database, shared_url: str) -> bool:
    both = True
    capacity = 2 * CAPACITY
    providers = [make_provider(database, VCPU=capacity) for _ in range(2)]
    told = run_in_processes(2 * EACH, change_amounts, shared_url, providers, 2 * ROUNDS)
    made = writes_by_provider(database)
    for provider in providers:
        held = used_by_consumer(database, provider)
        for peer, consumer, amounts, _refused in told:
            if not peer:
                assert held.get(consumer, 0) == amounts.get(provider, 0)
        history = made[provider_id(database, provider)]
        assert history[-1].after == sum(held.values())
        assert all(one.by_peer for one in writes_over_capacity(history, capacity))
        both = both and {one.by_peer for one in history} == {True, False}
    return both and any(refused for peer, _, _, refused in told if not peer)


def provider_id(database: Database, provider: str) -> int:
    with database.read() as connection:
        return resource_providers.by_uuid(connection, provider).id


def used_by_consumer(database: Database, provider: str) -> dict[str, int]:
    with database.read() as connection:
        _, rows = allocations.of_provider(connection, provider)
    assert len({row.consumer for row in rows}) == len(rows)
    return {row.consumer: row.used for row in rows}
