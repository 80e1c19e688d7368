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
from tests.coexistence.ledger import excesses, open_ledger, writes
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
    open_ledger(database)
    yield database
    database.dispose()


def side(which: int, url: str) -> Ours | Peer:
    return Ours(url) if which % 2 == 0 else Peer(peer_url(url))


def claim(consumer: str, amounts: dict[str, int], generation: int | None) -> Request:
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
    service = side(which, url)
    told = []
    for provider in providers:
        consumer = str(uuid4())
        barrier.wait(120)
        reply = service.ask(claim(consumer, {provider: CAPACITY}, None))
        told.append((which % 2 == 1, (provider, consumer), reply.status, reply.error.get("code")))
    service.close()
    return told


def change_amounts(barrier, which, url, providers, number) -> list[tuple[bool, str, dict, int]]:
    service, dice = side(which, url), random.Random(which)
    consumers = {str(uuid4()): (None, {}) for _ in range(3)}
    refused = 0
    barrier.wait(120)
    for _ in range(number):
        consumer = dice.choice(list(consumers))
        generation, _held = consumers[consumer]
        wanted = {provider: dice.randint(1, 4) for provider in providers}
        reply = service.ask(claim(consumer, wanted, generation))
        if reply.status == 204:
            consumers[consumer] = ((generation or 0) + 1, wanted)
        else:
            refused += 1
            assert reply.status == 409 or which % 2 == 1, reply
    service.close()
    return [(which % 2 == 1, name, held, refused) for name, (_, held) in consumers.items()]


def test_when_all_claim_a_whole_provider_no_claim_of_ours_is_one_too_many(
    database, shared_url, record_property
):
    attempts = 0
    while not ours_won_as_all_claimed(database, shared_url):
        attempts += 1
        assert attempts < ATTEMPTS, "ours never won: the race was none"
    claims = (attempts + 1) * ROUNDS * 2 * EACH
    record_property(TRIED, f"{claims} claims of whole providers by both services")


def ours_won_as_all_claimed(database: Database, shared_url: str) -> bool:
    providers = [make_provider(database, VCPU=CAPACITY) for _ in range(ROUNDS)]
    told = run_in_processes(2 * EACH, claim_each_whole, shared_url, providers)
    made = writes(database)
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
        held = holdings(database, provider)
        assert {held[consumer] for consumer in won} <= {CAPACITY}
        assert not held.keys() & (ours.keys() - won)
        too_many = excesses(made[number(database, provider)], CAPACITY)
        assert all(one.by_peer for one in too_many)
        rounds += bool(too_many)
    LOG.info("the peer allocated too much in %d of %d rounds", rounds, ROUNDS)
    # The peer leaves consumers of claims that it refuses, and allocates too much.
    assert_invariants(database, but={Invariant.OVER_CAPACITY, Invariant.NO_ALLOCATIONS})
    winners = Counter(peer for peer, _asked, status, _code in told if status == 204)
    return winners[False] > 0


@pytest.mark.all_databases
def test_when_all_change_what_they_hold_ours_is_whole_and_never_too_much(
    database, shared_url, record_property
):
    attempts = 0
    while not all_changed_at_once(database, shared_url):
        attempts += 1
        assert attempts < ATTEMPTS, "there was room for all, or one of the services never won"
    changes = (attempts + 1) * 2 * ROUNDS * 2 * EACH
    record_property(TRIED, f"{changes} changes of amounts by both services")


def all_changed_at_once(database: Database, shared_url: str) -> bool:
    both = True
    capacity = 2 * CAPACITY
    providers = [make_provider(database, VCPU=capacity) for _ in range(2)]
    told = run_in_processes(2 * EACH, change_amounts, shared_url, providers, 2 * ROUNDS)
    made = writes(database)
    for provider in providers:
        held = holdings(database, provider)
        for peer, consumer, amounts, _refused in told:
            if not peer:
                assert held.get(consumer, 0) == amounts.get(provider, 0)
        history = made[number(database, provider)]
        assert history[-1].after == sum(held.values())
        assert all(one.by_peer for one in excesses(history, capacity))
        both = both and {one.by_peer for one in history} == {True, False}
    return both and any(refused for peer, _, _, refused in told if not peer)


def number(database: Database, provider: str) -> int:
    with database.read() as connection:
        return resource_providers.by_uuid(connection, provider).id


def holdings(database: Database, provider: str) -> dict[str, int]:
    with database.read() as connection:
        _, rows = allocations.of_provider(connection, provider)
    assert len({row.consumer for row in rows}) == len(rows)
    return {row.consumer: row.used for row in rows}
