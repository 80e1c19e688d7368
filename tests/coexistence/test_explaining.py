"""An explanation that remembers who had room tells what one without memory does.

Whichever of the two services writes meanwhile: claims, moves, frees, other inventories.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random
from uuid import uuid4

import pytest

from placement_sched.candidates.explain.node_names import NodeNames
from placement_sched.candidates.explain.report import SearchRun, explain
from placement_sched.candidates.loader import LoadedProviders
from placement_sched.candidates.search import find, prepare
from placement_sched.db.transaction import Database
from placement_sched.model.placement.candidate import Usages
from placement_sched.model.placement.query import CandidatesQuery, RequestGroup
from placement_sched.model.results.stages import EVERYTHING, CandidatesReport
from tests.coexistence.conftest import peer_url
from tests.conftest import make_settings
from tests.differential.exchange import Request
from tests.differential.sides import Ours, Peer, Side
from tests.versions import PEER_LATEST

pytestmark = pytest.mark.system

CAPACITY = 4
PROVIDERS = 6
CHANGES = 80
FLAVORS = [(("VCPU", 1),), (("VCPU", 3),), (("VCPU", 2), ("MEMORY_MB", 2))]

Ask = Callable[..., dict]


class Cloud:
    """Some providers and consumers, and changes to them that one of the services makes."""

    def __init__(self, sides: tuple[Side, Side], dice: Random) -> None:
        self._sides, self._dice = sides, dice
        self._providers = [str(uuid4()) for _ in range(PROVIDERS)]
        self._consumers: list[str] = []
        for uuid in self._providers:
            self._write("POST", "/resource_providers", {"name": uuid, "uuid": uuid})
            self.stock(uuid, CAPACITY)

    def change(self) -> None:
        """Claim, move, free or restock at random; to be refused for want of room is no change."""
        way = self._dice.choice([self._claim, self._claim, self._move, self._free, self._restock])
        way()

    def stock(self, uuid: str, total: int) -> None:
        """Give a provider so much of everything."""
        known = self._write("GET", f"/resource_providers/{uuid}/inventories")
        self._write(
            "PUT",
            f"/resource_providers/{uuid}/inventories",
            {
                "resource_provider_generation": known["resource_provider_generation"],
                "inventories": {
                    name: {"total": total} for name in ("VCPU", "MEMORY_MB", "DISK_GB")
                },
            },
        )

    def _restock(self) -> None:
        self.stock(self._dice.choice(self._providers), self._dice.randint(CAPACITY, 2 * CAPACITY))

    def _claim(self) -> None:
        consumer = str(uuid4())
        if self._put(consumer, None):
            self._consumers.append(consumer)

    def _move(self) -> None:
        if self._consumers:
            consumer = self._dice.choice(self._consumers)
            held = self._write("GET", f"/allocations/{consumer}")
            self._put(consumer, held["consumer_generation"])

    def _free(self) -> None:
        if self._consumers:
            self._write("DELETE", f"/allocations/{self._consumers.pop()}")

    def _put(self, consumer: str, generation: int | None) -> bool:
        amounts = {"VCPU": self._dice.randint(1, 3), "MEMORY_MB": self._dice.randint(1, 2)}
        body = {
            "allocations": {self._dice.choice(self._providers): {"resources": amounts}},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": generation,
            "consumer_type": "INSTANCE",
        }
        return self._ask("PUT", f"/allocations/{consumer}", body).status == 204

    def _write(self, method: str, target: str, document: object = ...) -> dict:
        reply = self._ask(method, target, document)
        assert reply.status in {200, 201, 204}, (method, target, reply)
        return reply.document

    def _ask(self, method: str, target: str, document: object):
        request = Request(method, target, version=PEER_LATEST, document=document)
        return self._dice.choice(self._sides).ask(request)


@pytest.fixture(scope="module")
def sides(shared_url: str) -> Iterator[tuple[Ours, Peer]]:
    ours, peer = Ours(shared_url), Peer(peer_url(shared_url))
    yield ours, peer
    ours.close()
    peer.close()


@pytest.fixture(scope="module")
def told(shared_url: str) -> Iterator[Callable[..., CandidatesReport]]:
    """Explain the search for so much, of which one candidate is wanted.

    Without ``memory`` by what is there alone: not even by what the search has just found.
    """
    settings = make_settings(shared_url)
    database = Database(settings)

    def told(resources: tuple[tuple[str, int], ...], memory: NodeNames | None) -> CandidatesReport:
        query = CandidatesQuery(groups=(RequestGroup(resources=resources),), limit=1)
        with database.read() as connection:
            search = prepare(LoadedProviders(connection), query)
            found = find(LoadedProviders(connection), search, settings, Random(1))
            if memory is None:
                memory, found = NodeNames(), replace(found, usages=Usages())
            return explain(
                SearchRun(connection, LoadedProviders(connection), search, found, settings),
                EVERYTHING,
                memory,
            )

    yield told
    database.dispose()


@pytest.mark.parametrize("seed", range(2))
def test_who_had_room_is_remembered_only_while_it_is_true(sides, told, seed):
    dice, memory = Random(seed), NodeNames()
    cloud = Cloud(sides, dice)
    seen = set()
    for _ in range(CHANGES):
        cloud.change()
        flavor = dice.choice(FLAVORS)
        remembering = told(flavor, memory)
        assert remembering == told(flavor, None)
        seen.add(remembering.steps[0].after)
    assert len(seen) > 2
