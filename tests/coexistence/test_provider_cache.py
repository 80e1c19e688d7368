# SPDX-License-Identifier: Apache-2.0
"""The provider cache of a worker sees each write of either service at once."""

from collections.abc import Iterator
from random import Random
from uuid import uuid4

import pytest
from orjson import dumps

from placement_sched.api.placement.allocation_candidates import render
from placement_sched.api.versions import Version
from placement_sched.candidates.cache import ProviderCache
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.providers import CachedProviders
from placement_sched.candidates.search import find, prepare, render_summaries
from placement_sched.db.migrate import sync_schema
from placement_sched.db.transaction import Database
from placement_sched.explain.report import SearchRun, explain
from placement_sched.explain.values import EVERYTHING
from placement_sched.model.candidates_query import (
    AggregateTerms,
    CandidatesQuery,
    RequestGroup,
    TraitTerms,
)
from placement_sched.store.compute.compute_nodes import NodeNames
from placement_sched.store.placement import change_log
from tests.candidates.reference import SHARING_TRAIT
from tests.coexistence.conftest import build_peer_url
from tests.coexistence.sent_requests import build_claim_request, build_request
from tests.conftest import make_settings
from tests.differential.sides import OpenStackPlacementPeer, OwnPlacement, Side

pytestmark = pytest.mark.system

CHANGE_COUNT = 120
INVENTORY_TOTAL = 4
PROVIDER_COUNT = 6
AGGREGATE_UUIDS = tuple(str(uuid4()) for _ in range(3))
TRAIT_NAMES = ("HW_CPU_X86_AVX", "CUSTOM_GOLD", SHARING_TRAIT)
CANDIDATES_QUERIES = (
    CandidatesQuery(groups=(RequestGroup(resources=(("VCPU", 2), ("MEMORY_MB", 1))),)),
    CandidatesQuery(
        groups=(
            RequestGroup(
                resources=(("VCPU", 1),), traits=TraitTerms((frozenset({"HW_CPU_X86_AVX"}),))
            ),
        )
    ),
    CandidatesQuery(
        groups=(
            RequestGroup(
                resources=(("VCPU", 1), ("DISK_GB", 1)),
                aggregates=AggregateTerms((), frozenset(AGGREGATE_UUIDS[:1])),
            ),
            RequestGroup(suffix="1", resources=(("MEMORY_MB", 1),)),
        ),
        group_policy="none",
    ),
)


class ChangingCloud:
    """A few providers and consumers that either service changes at random."""

    def __init__(self, sides: tuple[Side, Side], random: Random) -> None:
        self._sides, self._random = sides, random
        self._providers = [str(uuid4()) for _ in range(PROVIDER_COUNT)]
        self._consumers: list[str] = []
        for uuid in self._providers:
            self._write_to_either("POST", "/resource_providers", {"name": uuid, "uuid": uuid})
            self.put_inventories(uuid, INVENTORY_TOTAL)

    def make_random_change(self) -> None:
        claims = [
            self._claim_resources,
            self._claim_resources,
            self._move_allocations,
            self._free_allocations,
            self._change_inventory,
        ]
        writes = [
            *(self._random.choice(claims), self._random.choice(claims)),
            *(self._change_traits, self._change_aggregates),
            *(self._create_provider, self._delete_provider),
        ]
        self._random.choice(writes)()

    def put_inventories(self, uuid: str, total: int) -> None:
        current = self._write_to_either("GET", f"/resource_providers/{uuid}/inventories")
        self._write_to_either(
            "PUT",
            f"/resource_providers/{uuid}/inventories",
            {
                "resource_provider_generation": current["resource_provider_generation"],
                "inventories": {
                    name: {"total": total} for name in ("VCPU", "MEMORY_MB", "DISK_GB")
                },
            },
        )

    def _change_inventory(self) -> None:
        self.put_inventories(
            self._random.choice(self._providers),
            self._random.randint(INVENTORY_TOTAL, 2 * INVENTORY_TOTAL),
        )

    def _claim_resources(self) -> None:
        consumer = str(uuid4())
        if self._put_allocations(consumer, None):
            self._consumers.append(consumer)

    def _move_allocations(self) -> None:
        if self._consumers:
            consumer = self._random.choice(self._consumers)
            held = self._write_to_either("GET", f"/allocations/{consumer}")
            self._put_allocations(consumer, held["consumer_generation"])

    def _free_allocations(self) -> None:
        if self._consumers:
            self._write_to_either("DELETE", f"/allocations/{self._consumers.pop()}")

    def _put_allocations(self, consumer: str, generation: int | None) -> bool:
        amounts = {"VCPU": self._random.randint(1, 3), "MEMORY_MB": self._random.randint(1, 2)}
        claimed = {self._random.choice(self._providers): amounts}
        request = build_claim_request(consumer, claimed, generation)
        return self._random.choice(self._sides).send_request(request).status == 204

    def _write_to_either(self, method: str, target: str, document: object = ...) -> dict:
        reply = self._send_to_either(method, target, document)
        assert reply.status in {200, 201, 204}, (method, target, reply)
        return reply.document

    def _send_to_either(self, method: str, target: str, document: object):
        request = build_request(method, target, document)
        return self._random.choice(self._sides).send_request(request)

    def _choose_provider(self) -> tuple[str, int]:
        uuid = self._random.choice(self._providers)
        provider = self._write_to_either("GET", f"/resource_providers/{uuid}")
        return f"/resource_providers/{uuid}", provider["generation"]

    def _change_traits(self) -> None:
        path, generation = self._choose_provider()
        self._write_to_either("PUT", "/traits/CUSTOM_GOLD")
        traits = self._random.sample(TRAIT_NAMES, self._random.randint(0, 2))
        body = {"resource_provider_generation": generation, "traits": traits}
        self._write_to_either("PUT", f"{path}/traits", body)

    def _change_aggregates(self) -> None:
        path, generation = self._choose_provider()
        aggregates = self._random.sample(AGGREGATE_UUIDS, self._random.randint(0, 2))
        body = {"resource_provider_generation": generation, "aggregates": aggregates}
        self._write_to_either("PUT", f"{path}/aggregates", body)

    def _create_provider(self) -> None:
        uuid = str(uuid4())
        body = {"name": uuid, "uuid": uuid}
        if self._random.random() < 0.5:
            body["parent_provider_uuid"] = self._random.choice(self._providers)
        self._write_to_either("POST", "/resource_providers", body)
        self._providers.append(uuid)
        self.put_inventories(uuid, 3)

    def _delete_provider(self) -> None:
        uuid = self._random.choice(self._providers)
        if len(self._providers) > 3:
            reply = self._send_to_either("DELETE", f"/resource_providers/{uuid}", ...)
            if reply.status == 204:
                self._providers.remove(uuid)


@pytest.fixture(scope="module")
def both_services(shared_db_url: str) -> Iterator[tuple[OwnPlacement, OpenStackPlacementPeer]]:
    ours = OwnPlacement(shared_db_url)
    peer = OpenStackPlacementPeer(build_peer_url(shared_db_url))
    yield ours, peer
    ours.close()
    peer.close()


def _search_and_render(connection, source, query, settings):
    search = prepare(source, query)
    result = find(source, search, settings, Random(1))
    trees = source.list_tree_providers([provider.id for provider in result.providers])
    summaries = render_summaries(source, trees)
    run = SearchRun(connection, source, search, result, settings, NodeNames())
    return (
        render(result.requests, Version(1, 39)),
        b"".join(summaries),
        dumps(explain(run, EVERYTHING).as_json()),
    )


@pytest.mark.parametrize("seed", range(2))
def test_search_in_the_cache_equals_the_database_after_writes_of_both_services(
    shared_db_url, both_services, seed
):
    settings = make_settings(shared_db_url)
    database, cache = Database(settings), ProviderCache(change_log)
    sync_schema(database)  # creates the triggers
    cloud = ChangingCloud(both_services, Random(seed))
    responses = set()
    for number in range(CHANGE_COUNT):
        cloud.make_random_change()
        with database.read() as connection:
            assert cache.refresh(connection)
            query = CANDIDATES_QUERIES[number % len(CANDIDATES_QUERIES)]
            cached = _search_and_render(connection, CachedProviders(cache), query, settings)
            loaded = LoadedProviders(connection)
            assert cached == _search_and_render(connection, loaded, query, settings)
            responses.add(cached)
    assert cache.figures.full_readings == 1
    assert len(responses) > CHANGE_COUNT // 4
    database.dispose()
