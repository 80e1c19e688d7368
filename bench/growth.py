# SPDX-License-Identifier: Apache-2.0
"""How the time of a request grows with the cloud: clouds of several sizes asked in turns."""

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import orjson
from answers import Expected
from both_servers import Request, Server, WrongAnswer
from pairs import timed
from questions import Question
from selections import PLACED, Flavor, consumers, release, selected
from targets import GROWTH, HELD, Finding
from worlds.rows import uuid_of

#: Asks a server once, and returns the milliseconds that it took; the uuid is a new consumer's.
Call = Callable[[Server, str], float]


@dataclass(frozen=True, slots=True)
class Curve:
    """Milliseconds of one question, one a round, by size; of the peer one, where it was asked."""

    name: str
    ours_ms: Mapping[int, Sequence[float]]
    cpu_ms: Mapping[int, float]
    peer_ms: Mapping[int, float]

    @property
    def finding(self) -> Finding:
        """Return the growth from the size before the largest: the median over the rounds."""
        smaller, larger = sorted(self.ours_ms)[-2:]
        pairs = zip(self.ours_ms[smaller], self.ours_ms[larger], strict=True)
        best = min(self.ours_ms[larger]) / min(self.ours_ms[smaller])
        return Finding(
            f"growth {smaller} to {larger} hosts, {self.name}",
            statistics.median(large / small for small, large in pairs),
            GROWTH,
            f"of bests {best:.2f}, of CPU {self.cpu_ms[larger] / self.cpu_ms[smaller]:.2f}",
        )


def measure(
    questions: Sequence[Question],
    ours: Mapping[int, Server],
    peers: Mapping[int, Server],
    rounds: int,
) -> Iterator[Curve]:
    """Yield the curve of each question; ``ours`` and ``peers`` are servers by size of cloud.

    The sizes are asked in turns, so that other work on the machine weighs on all alike. Raises
    :class:`both_servers.WrongAnswer` for sizes at which there is a peer to compare with. The
    questions differ in their limit alone.
    """
    expected = {
        size: Expected(f"growth at {size}", peer.get(questions[0].everything))
        for size, peer in peers.items()
    }
    for question in questions:
        print(f"  growth, {question.name} ...", file=sys.stderr, flush=True)
        peer_ms = {}
        for size, peer in peers.items():
            peer_ms[size], body = timed(peer, question.path)
            expected[size].check("peer", body, question.limit)
        times: dict[int, list[float]] = {size: [] for size in ours}
        cpu_ms = dict.fromkeys(ours, 0.0)
        for server in ours.values():
            # Twice, so that summaries are kept and the database has planned.
            for _ in range(2):
                server.get(question.path)
        for _ in range(rounds):
            for size, server in ours.items():
                before = server.cpu_seconds()
                elapsed, body = timed(server, question.path)
                times[size].append(elapsed)
                if size in expected:
                    expected[size].check("ours", body, question.limit)
                cpu_ms[size] += (server.cpu_seconds() - before) * 1000 / rounds
        yield Curve(question.name, times, cpu_ms, peer_ms)


@dataclass(frozen=True, slots=True)
class Held:
    """What a cloud of each size took: to load, at the first request of a worker, to keep."""

    load_seconds: Mapping[int, float]
    first_ms: Mapping[int, float]
    resident_mb: Mapping[int, float]

    @property
    def finding(self) -> Finding:
        """Return the memory of a worker of the largest cloud, after all requests."""
        size = max(self.resident_mb)
        return Finding(f"memory of a worker, {size} hosts", self.resident_mb[size], HELD)


def measure_selections(ours: Mapping[int, Server], rounds: int) -> Iterator[Curve]:
    """Yield the curves of a selection without a claim and with one, and of a claim alone.

    What was claimed is deleted before the next is asked.
    """
    for name, call in CALLS.items():
        print(f"  growth, {name} ...", file=sys.stderr, flush=True)
        new = consumers(name)
        times: dict[int, list[float]] = {size: [] for size in ours}
        cpu_ms = dict.fromkeys(ours, 0.0)
        for number in range(rounds + 2):
            for size, server in ours.items():
                before = server.cpu_seconds()
                elapsed = call(server, next(new))
                if number >= 2:  # the first two warm up
                    times[size].append(elapsed)
                    cpu_ms[size] += (server.cpu_seconds() - before) * 1000 / rounds
        yield Curve(name, times, cpu_ms, {})


def _select(server: Server, consumer: str, *, claim: bool) -> float:
    one = selected("ours", server.address, Flavor(), consumer, claim=claim)
    if one.outcome != PLACED:
        raise WrongAnswer(f"{server.name}: {one.outcome} in a cloud that has room")
    if claim:
        release(server, [one])
    return one.ms


def _claim(server: Server, consumer: str) -> float:
    """Claim a host that a search has found."""
    terms = ",".join(f"{name}:{amount}" for name, amount in Flavor().resources.items())
    found = orjson.loads(server.get(f"/allocation_candidates?resources={terms}&limit=1"))
    body = {
        "allocations": found["allocation_requests"][0]["allocations"],
        "project_id": uuid_of("project", 1),
        "user_id": uuid_of("user", 1),
        "consumer_generation": None,
        "consumer_type": "INSTANCE",
    }
    message = server.address.message(Request("PUT", f"/allocations/{consumer}", body))
    began = time.perf_counter()
    reply = server.address.answer(message)
    ms = (time.perf_counter() - began) * 1000
    if reply.status != 204:
        raise WrongAnswer(f"{server.name}, claim: {reply.status} {reply.body[:500]!r}")
    server.address.ask(Request("DELETE", f"/allocations/{consumer}"))
    return ms


CALLS: Mapping[str, Call] = {
    "select_destinations": partial(_select, claim=False),
    "select_destinations with claim": partial(_select, claim=True),
    "PUT allocations": _claim,
}
