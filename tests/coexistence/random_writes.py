# SPDX-License-Identifier: Apache-2.0
"""Random writes to a few providers by either of two services that share a database."""

from collections.abc import Callable
from random import Random
from uuid import uuid4

from tests.differential.exchange import Request
from tests.differential.sides import Side
from tests.support.versions import PEER_LATEST

CAPACITY = 4
PROVIDERS = 6

Ask = Callable[..., dict]


class Cloud:
    """A few providers and consumers that either service changes at random."""

    def __init__(self, sides: tuple[Side, Side], dice: Random) -> None:
        self._sides, self._dice = sides, dice
        self._providers = [str(uuid4()) for _ in range(PROVIDERS)]
        self._consumers: list[str] = []
        for uuid in self._providers:
            self._write("POST", "/resource_providers", {"name": uuid, "uuid": uuid})
            self.put_inventories(uuid, CAPACITY)

    def change(self) -> None:
        write = self._dice.choice(
            [self._claim, self._claim, self._move, self._free, self._change_inventory]
        )
        write()

    def put_inventories(self, uuid: str, total: int) -> None:
        current = self._write("GET", f"/resource_providers/{uuid}/inventories")
        self._write(
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
            self._dice.choice(self._providers), self._dice.randint(CAPACITY, 2 * CAPACITY)
        )

    def _claim(self) -> None:
        consumer = str(uuid4())
        if self._put_allocations(consumer, None):
            self._consumers.append(consumer)

    def _move(self) -> None:
        if self._consumers:
            consumer = self._dice.choice(self._consumers)
            held = self._write("GET", f"/allocations/{consumer}")
            self._put_allocations(consumer, held["consumer_generation"])

    def _free(self) -> None:
        if self._consumers:
            self._write("DELETE", f"/allocations/{self._consumers.pop()}")

    def _put_allocations(self, consumer: str, generation: int | None) -> bool:
        amounts = {"VCPU": self._dice.randint(1, 3), "MEMORY_MB": self._dice.randint(1, 2)}
        body = {
            "allocations": {self._dice.choice(self._providers): {"resources": amounts}},
            "project_id": "project",
            "user_id": "user",
            "consumer_generation": generation,
            "consumer_type": "INSTANCE",
        }
        return self._send_to_either("PUT", f"/allocations/{consumer}", body).status == 204

    def _write(self, method: str, target: str, document: object = ...) -> dict:
        reply = self._send_to_either(method, target, document)
        assert reply.status in {200, 201, 204}, (method, target, reply)
        return reply.document

    def _send_to_either(self, method: str, target: str, document: object):
        request = Request(method, target, version=PEER_LATEST, document=document)
        return self._dice.choice(self._sides).get_answer(request)
