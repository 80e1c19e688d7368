# SPDX-License-Identifier: Apache-2.0
"""Compares writes with openstack-placement on the same database.

``make bench WHAT=writes``, or ``python bench/writes.py --help``. Each response is checked. After
each line, both servers must show everything that was acknowledged. Otherwise the exit status is 1.

With ``--triggers`` both are openstack-placement, on two databases of equal content. Only the first
has the triggers of placement-sched, so the ratio shows their cost.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count, islice
from random import Random
from typing import Any

import harness
import services
from harness import Databases, Times, WrongResponse
from load import open_database
from responses import read_response, require_equal
from selections import claim_request
from services import Address, Reply, Request, Server
from worlds import CUSTOM_TRAITS, PROJECTS, USERS, FlatWorld, random_uuid, uuid_of

from placement_sched.db.triggers import make_triggers, remove_triggers

#: Worker processes of each server, and client processes, which are more to keep the workers busy.
WORKERS, CLIENTS = 2, 4
#: The amounts of each consumer, and the free capacity of the hosts that are claimed.
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}
FREE = "VCPU:16,MEMORY_MB:1024,DISK_GB:16"
CONSUMERS_PER_POST = 20
Pairs = Sequence[tuple[Request, Reply]]


class Claims:
    """New consumers on a host each, by ``PUT``, or many in a ``POST``."""

    def __init__(
        self, name: str, size: int, server: Server, hosts: Sequence[str], consumers: int
    ) -> None:
        self.name, self.size = name, size
        self._consumers, self._hosts = consumers, hosts
        self._random, self._turn = Random(name), count()
        self._expected = {host: Counter(_usages(server, host)) for host in hosts}

    def requests(self, _number: int) -> list[Request]:
        """Return claims of new consumers."""
        if self._consumers == 1:
            return [claim for _, claim in self._claims(self.size)]
        return [
            Request("POST", "/allocations", {uuid: claim.body for uuid, claim in claims})
            for claims in (self._claims(self._consumers) for _ in range(self.size))
        ]

    def _claims(self, number: int) -> Iterator[tuple[str, Request]]:
        for turn in islice(self._turn, number):
            consumer = random_uuid(self._random)
            host = self._hosts[turn % len(self._hosts)]
            claim = claim_request(consumer, {host: {"resources": AMOUNTS}})
            claim.body["project_id"] = uuid_of("project", turn % PROJECTS)
            claim.body["user_id"] = uuid_of("user", turn % USERS)
            yield consumer, claim

    def check(self, pairs: Pairs) -> None:
        """Add the claims to the expected usages."""
        for request, reply in pairs:
            _require(request, reply, 204)
            for claim in [request.body] if request.method == "PUT" else request.body.values():
                for host, each in claim["allocations"].items():
                    self._expected[host].update(each["resources"])

    def check_state(self, server: Server) -> None:
        """Compare the usages of each host."""
        for host, expected in self._expected.items():
            require_equal(f"{server.name}: usages of {host}", _usages(server, host), expected)


class Changes:
    """New inventories or traits of providers, each a little different from the old."""

    def __init__(
        self, name: str, size: int, server: Server, providers: Sequence[str], noun: str
    ) -> None:
        # The generation is that of the last batch, so a batch writes once to a provider.
        self.name, self.size = name, min(size, len(providers))
        self._noun, self._turn = noun, count()
        self._held = {
            _path(uuid, noun): server.address.get(_path(uuid, noun)) for uuid in providers
        }

    def requests(self, _number: int) -> list[Request]:
        """Return a change of another provider in each request."""
        paths = list(self._held)
        return [
            Request("PUT", path, self._change(self._held[path], turn))
            for turn in islice(self._turn, self.size)
            for path in [paths[turn % len(paths)]]
        ]

    def _change(self, held: dict[str, Any], turn: int) -> dict[str, Any]:
        if self._noun == "traits":
            other = CUSTOM_TRAITS[turn % len(CUSTOM_TRAITS)]
            return {**held, "traits": sorted({other}.symmetric_difference(held["traits"]))}
        memory = held["inventories"]["MEMORY_MB"]
        memory = {**memory, "reserved": memory["reserved"] % 4096 + 1}
        return {**held, "inventories": {**held["inventories"], "MEMORY_MB": memory}}

    def check(self, pairs: Pairs) -> None:
        """Compare each response with the request. The generation must increase by 1."""
        for request, reply in pairs:
            _require(request, reply, 200)
            generation = request.body["resource_provider_generation"] + 1
            expected = {**request.body, "resource_provider_generation": generation}
            require_equal(request.path, read_response(reply.body), expected)
            self._held[request.path] = expected

    def check_state(self, server: Server) -> None:
        """Compare each provider with the last acknowledged change."""
        for path, held in self._held.items():
            require_equal(f"{server.name}: {path}", server.address.get(path), held)


Batch = Claims | Changes


def _path(uuid: str, noun: str) -> str:
    return f"/resource_providers/{uuid}/{noun}"


def _usages(server: Server, host: str) -> Any:
    return server.address.get(_path(host, "usages"))["usages"]


def _require(request: Request, reply: Reply, status: int) -> None:
    if reply.status != status:
        text = f"{reply.status} {reply.body[:500]!r}"
        raise WrongResponse(f"{request.method} {request.path}: {text}")


def _build_batches(world: FlatWorld, server: Server, share: float) -> Iterator[Batch]:
    """Yield the lines of the table. Hosts of claims and of changes differ."""

    def size(number: int) -> int:
        return max(int(number * share), 2)

    hosts = [uuid_of("host", number) for number in range(world.size)]
    free = server.address.get(f"/resource_providers?resources={FREE}")["resource_providers"]
    claimed = sorted({each["uuid"] for each in free} & set(hosts[: world.size // 2]))[:3000]
    changed = hosts[world.size // 2 :][:1600]
    yield Claims("PUT allocations", size(500), server, claimed, 1)
    yield Claims("POST 20 allocations", size(50), server, claimed, CONSUMERS_PER_POST)
    yield Changes("PUT inventories", size(600), server, changed[::2], "inventories")
    yield Changes("PUT traits", size(600), server, changed[1::2], "traits")


def _send(clients: Executor, address: Address, requests: Sequence[Request]) -> tuple[float, Pairs]:
    """Send requests from all clients, and return seconds and responses."""
    parts = [requests[first::CLIENTS] for first in range(CLIENTS)]
    results = list(clients.map(_send_part, [address] * CLIENTS, parts))
    pairs = [
        pair
        for part, (*_, replies) in zip(parts, results, strict=True)
        for pair in zip(part, replies, strict=True)
    ]
    return max(end for _, end, _ in results) - min(start for start, _, _ in results), pairs


def _send_part(address: Address, requests: Sequence[Request]) -> tuple[float, float, list[Reply]]:
    """Send requests on a new connection, because old connections may all use the same worker."""
    address.close()
    messages = [address.message(request) for request in requests]
    start = time.monotonic()
    replies = [address.send(message) for message in messages]
    return start, time.monotonic(), replies


def _measure_batches(
    batches: Sequence[Batch], servers: Sequence[Server], rounds: int, clients: Executor
) -> dict[str, Times]:
    """Send the batches of both servers in turns, and check the responses."""

    def send(server: Server, batch: Batch, number: int) -> float:
        requests = batch.requests(number)
        seconds, pairs = _send(clients, server.address, requests)
        batch.check(pairs)
        return seconds * 1000 / len(requests)

    times = harness.take_turns(
        {
            each.name: lambda number, each=each, batch=batch: send(each, batch, number)
            for each, batch in zip(servers, batches, strict=True)
        },
        rounds,
        clocks={each.name: each.cpu_seconds for each in servers},
    )
    for each in times.values():
        each.cpu_ms /= batches[0].size
    return times


@contextmanager
def _run_peers(databases: Databases, world: FlatWorld) -> Iterator[tuple[Server, ...]]:
    """Run openstack-placement on two databases, the second without triggers."""
    with ExitStack() as stack:
        servers = []
        for name, change in (("with triggers", make_triggers), ("without", remove_triggers)):
            url = databases.fill_new(world)
            with open_database(url.render_as_string(hide_password=False)) as database:
                database.write(change)
            servers.append(replace(stack.enter_context(services.peer(url, WORKERS)), name=name))
        yield tuple(servers)


def main() -> int:
    """Compare the services on each database."""
    parser = harness.Options(__doc__)
    parser.add_sized("--hosts", 10_000, 500, "hosts of the cloud")
    parser.add_sized("--rounds", 7, 2, "batches of each line")
    parser.add_argument(
        "--triggers", action="store_true", help="measure what triggers cost openstack-placement"
    )
    options = parser.parse()

    def measure(kind: str, databases: Databases) -> None:
        world = FlatWorld(options.hosts)
        share = 0.2 if options.quick else 1.0
        run = (
            _run_peers(databases, world)
            if options.triggers
            else services.both(databases.find_or_fill(world), has_peer=True, workers=WORKERS)
        )
        rows = []
        with harness.client_processes(CLIENTS) as clients, run as servers:
            names = [each.name for each in servers]
            if options.triggers:
                lines = zip(*(_build_batches(world, each, share) for each in servers), strict=True)
            else:
                lines = ((batch, batch) for batch in _build_batches(world, servers[0], share))
            for batches in lines:
                batch = batches[0]
                harness.report_progress(batch.name)
                ours, peer = _measure_batches(batches, servers, options.rounds, clients).values()
                for server, sent in zip(servers, batches, strict=True):
                    sent.check_state(server)
                rates = [
                    f"{1000 / each.median:.1f} ({1000 / each.best:.1f})" for each in (ours, peer)
                ]
                ratio, best, cpu = harness.compare(ours, peer)
                cells = (f"{ratio:.2f} ({best:.2f})", ours.cpu_ms, peer.cpu_ms, cpu)
                rows.append((batch.name, batch.size, *rates, *cells))
        columns = (
            *("request", "a round", *(f"{name} req/s (best)" for name in names)),
            *("ratio (of bests)", *(f"{name} CPU ms" for name in names), "CPU ratio"),
        )
        title = f"{kind}: {options.hosts} hosts, {WORKERS} workers each, {CLIENTS} clients"
        print(harness.build_section(title, harness.build_table(columns, rows)), flush=True)

    return harness.run_on_databases(options, measure)


if __name__ == "__main__":
    sys.exit(main())
