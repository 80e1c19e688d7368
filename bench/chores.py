# SPDX-License-Identifier: Apache-2.0
"""What the writes' race asks for, and what every answer to it must be.

A chore makes batches of requests, checks the answers, and when done checks what the database then
holds: all that was acknowledged, whichever server did it, and nothing else.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count, islice
from random import Random
from typing import Any, Protocol, cast
from uuid import UUID

import orjson
from answers import comparable, in_order
from both_servers import Reply, Request, Server, WrongAnswer
from plain_http import PEER_LATEST
from worlds.flat import FlatWorld
from worlds.hardware import CUSTOM_TRAITS
from worlds.rows import PROJECTS, USERS, uuid_of

#: What each consumer takes, and how much room the hosts chosen for the claims must have.
TAKEN = {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}
_ROOM = "VCPU:16,MEMORY_MB:1024,DISK_GB:16"
CONSUMERS_A_POST = 20


class Chore(Protocol):
    """One line of the table."""

    @property
    def name(self) -> str:
        """Return what it is called there."""
        ...

    @property
    def size(self) -> int:
        """Return how many requests a round has."""
        ...

    def batch(self, number: int) -> list[Request]:
        """Return the requests of round ``number``; writes are others each time they are asked."""
        ...

    def check(self, requests: Sequence[Request], replies: Sequence[Reply]) -> None:
        """Raise :class:`WrongAnswer` where a reply is not what it should be."""
        ...

    def finish(self, server: Server) -> None:
        """Raise :class:`WrongAnswer` where what ``server`` now shows is not what was done."""
        ...


class Reading:
    """Asks both for the same, and holds their answers against each other."""

    def __init__(
        self, name: str, paths: Sequence[str], size: int, version: str = PEER_LATEST
    ) -> None:
        self.name, self.size = name, size
        self._paths, self._version = paths, version
        self._answers: dict[tuple[str, ...], list[Any]] = {}

    def batch(self, number: int) -> list[Request]:
        """Return the requests of round ``number``: the same for both."""
        first = number * self.size
        return [
            Request("GET", self._paths[position % len(self._paths)], version=self._version)
            for position in range(first, first + self.size)
        ]

    def check(self, requests: Sequence[Request], replies: Sequence[Reply]) -> None:
        """Hold these replies against those that the other gave."""
        found = [comparable(_body(*pair, 200)) for pair in zip(requests, replies, strict=True)]
        paths = tuple(request.path for request in requests)
        for path, one, other in zip(
            paths, found, self._answers.setdefault(paths, found), strict=True
        ):
            if one != other:
                raise WrongAnswer(f"{path}:\n  {str(one)[:500]}\nbut\n  {str(other)[:500]}")

    def finish(self, server: Server) -> None:
        """Find nothing at fault: reading leaves nothing."""


class Claiming:
    """New consumers, each on one host: by ``PUT`` alone, or by ``POST`` twenty at once."""

    def __init__(
        self, name: str, hosts: Sequence[str], server: Server, size: int, many: int
    ) -> None:
        self.name, self.size = name, size
        self._many, self._hosts = many, hosts
        self._random = Random(f"{name} {many}")
        self._turn = count()
        self._expected = {host: Counter(_usages(server, host)) for host in hosts}

    def batch(self, _number: int) -> list[Request]:
        """Return requests for unknown consumers."""
        return [self._request() for _ in range(self.size)]

    def _request(self) -> Request:
        if self._many == 1:
            ((consumer, claim),) = self._claims()
            return Request("PUT", f"/allocations/{consumer}", claim)
        return Request("POST", "/allocations", dict(self._claims()))

    def _claims(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for turn in islice(self._turn, self._many):
            consumer = str(UUID(int=self._random.getrandbits(128), version=4))
            yield (
                consumer,
                {
                    "allocations": {self._hosts[turn % len(self._hosts)]: {"resources": TAKEN}},
                    "project_id": uuid_of("project", turn % PROJECTS),
                    "user_id": uuid_of("user", turn % USERS),
                    "consumer_generation": None,
                    "consumer_type": "INSTANCE",
                },
            )

    def check(self, requests: Sequence[Request], replies: Sequence[Reply]) -> None:
        """Note what was acknowledged, which must be all."""
        for request, reply in zip(requests, replies, strict=True):
            if reply.status != 204:
                raise _refused(request, reply)
            body: Any = request.body
            for claim in [body] if request.method == "PUT" else body.values():
                for host, asked in claim["allocations"].items():
                    self._expected[host].update(asked["resources"])

    def finish(self, server: Server) -> None:
        """Compare each host's usages with what they were and what was acknowledged since."""
        for host, expected in self._expected.items():
            if (found := _usages(server, host)) != expected:
                raise WrongAnswer(f"{server.name}: usages of {host}: {found} but {dict(expected)}")


class Rewriting:
    """Replaces what providers have of one noun (``inventories``, ``traits``), changed a little."""

    def __init__(
        self, name: str, noun: str, providers: Sequence[str], server: Server, size: int
    ) -> None:
        # A batch that wrote to a provider twice could not know its generation.
        self.name, self.size = name, min(size, len(providers))
        self._noun = noun
        self._turn = count()
        self._held = {uuid: orjson.loads(server.get(_path(uuid, noun))) for uuid in providers}
        self._uuids = list(providers)

    def batch(self, _number: int) -> list[Request]:
        """Return requests that each change another provider."""
        return [
            Request("PUT", _path(uuid, self._noun), self._changed(self._held[uuid], turn))
            for turn in islice(self._turn, self.size)
            for uuid in [self._uuids[turn % len(self._uuids)]]
        ]

    def _changed(self, held: dict[str, Any], turn: int) -> dict[str, Any]:
        if self._noun == "traits":
            other = CUSTOM_TRAITS[turn % len(CUSTOM_TRAITS)]
            return {**held, "traits": sorted({other}.symmetric_difference(held["traits"]))}
        memory = held["inventories"]["MEMORY_MB"]
        memory = {**memory, "reserved": memory["reserved"] % 4096 + 1}
        return {**held, "inventories": {**held["inventories"], "MEMORY_MB": memory}}

    def check(self, requests: Sequence[Request], replies: Sequence[Reply]) -> None:
        """Compare each answer with what was sent; generations rise by one."""
        for request, reply in zip(requests, replies, strict=True):
            found = orjson.loads(_body(request, reply, 200))
            body = cast("dict[str, Any]", request.body)
            sent = {
                **body,
                "resource_provider_generation": body["resource_provider_generation"] + 1,
            }
            if in_order(found) != in_order(sent):
                raise WrongAnswer(f"{request.path}: {found}, but sent: {sent}")
            self._held[request.path.split("/")[2]] = found

    def finish(self, server: Server) -> None:
        """Compare what each provider has with what was acknowledged last."""
        for uuid, held in self._held.items():
            found = orjson.loads(server.get(_path(uuid, self._noun)))
            if in_order(found) != in_order(held):
                raise WrongAnswer(f"{server.name}: {self._noun} of {uuid}: {found}, but {held}")


def chores(world: FlatWorld, server: Server, share: float) -> Iterator[Chore]:
    """Yield what is raced, in order; ``share`` scales the sizes of the rounds.

    A round of the quickest requests takes some tenths of a second, or the time in which the
    clients begin, one after the other, would be most of what is measured.

    Hosts that are claimed are none of those whose inventories and traits change, so that every
    provider's generation is known.
    """
    hosts = [uuid_of("host", number) for number in range(world.size)]
    answer = orjson.loads(server.get(f"/resource_providers?resources={_ROOM}"))
    with_room = {provider["uuid"] for provider in answer["resource_providers"]}
    claimed = [uuid for uuid in hosts[: world.size // 2] if uuid in with_room][:3000]

    def size(number: int) -> int:
        return max(int(number * share), 2)

    yield Claiming("PUT allocations", claimed, server, size(500), 1)
    yield Claiming("POST 20 allocations", claimed, server, size(50), CONSUMERS_A_POST)
    rewritten = hosts[world.size // 2 :][:1600]
    yield Rewriting("PUT inventories", "inventories", rewritten[::2], server, size(600))
    yield Rewriting("PUT traits", "traits", rewritten[1::2], server, size(600))
    yield Reading(f"GET {world.size} providers", ["/resource_providers"], 8)
    yield Reading("GET usages of a provider", [_path(uuid, "usages") for uuid in hosts], size(1000))
    large, *others = [f"/usages?project_id={uuid_of('project', n)}" for n in range(PROJECTS)]
    # From 1.38 on, when they are grouped by consumer type, the peer fails on PostgreSQL.
    yield Reading("GET usages of a project", others, size(1000), "1.37")
    yield Reading("GET usages of a large project", [large], size(800), "1.37")


def _path(uuid: str, noun: str) -> str:
    return f"/resource_providers/{uuid}/{noun}"


def _usages(server: Server, host: str) -> dict[str, int]:
    usages: dict[str, int] = orjson.loads(server.get(_path(host, "usages")))["usages"]
    return usages


def _body(request: Request, reply: Reply, status: int) -> bytes:
    if reply.status != status:
        raise _refused(request, reply)
    return reply.body


def _refused(request: Request, reply: Reply) -> WrongAnswer:
    return WrongAnswer(f"{request.method} {request.path}: {reply.status} {reply.body[:500]!r}")
