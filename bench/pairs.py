# SPDX-License-Identifier: Apache-2.0
"""Asks both servers the same in turns, and holds every answer against the peer's whole one."""

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from answers import Check
from both_servers import Request, Server
from counting import Counter
from targets import Finding, Target


class Asked(Protocol):
    """What both are asked in turns, a line of the table."""

    @property
    def name(self) -> str:
        """Return what it is called there."""
        ...

    @property
    def time(self) -> Target | None:
        """Return what is promised of our own milliseconds."""
        ...

    def ratio_target(self, peer_ms: float) -> Target | None:
        """Return what is promised of the ratio to a peer that needs ``peer_ms``."""
        ...

    def requests(self, number: int) -> Sequence[Request]:
        """Return the requests of round ``number``, the same for both; the time is that of one."""
        ...

    def checked_by(self, peer: Server) -> Check:
        """Return what holds an answer against the peer's."""
        ...


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a question is asked: ``rounds`` times, but once ``seconds`` are over no more."""

    rounds: int
    seconds: float


@dataclass(slots=True)
class Side:
    """What was measured of one server: milliseconds a request, one figure a round.

    Of CPU milliseconds it is the mean.
    """

    ms: list[float] = field(default_factory=list)
    cpu_ms: float = 0.0
    size: int = 0
    peak_mb: float = 0.0

    @property
    def median(self) -> float:
        """Return the median of the milliseconds."""
        return statistics.median(self.ms)


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured of one question; of the peer nothing where it was left out."""

    question: Asked
    candidates: int | None
    ours: Side
    peer: Side | None
    first_ms: float
    statements: int

    @property
    def ratios(self) -> tuple[float, float, float]:
        """Return how many times ours the peer takes.

        First the median over the pairs of requests, then by the quickest of each, which other
        work on the machine hardly sways, then by the CPU time of the servers' processes.
        """
        if self.peer is None:
            raise ValueError("the peer was left out")
        # The peer may have been asked less often, for want of patience.
        pairs = zip(self.ours.ms, self.peer.ms, strict=False)
        return (
            statistics.median(theirs / own for own, theirs in pairs),
            min(self.peer.ms) / min(self.ours.ms),
            self.peer.cpu_ms / max(self.ours.cpu_ms, 0.001),
        )

    def findings(self) -> Iterator[Finding]:
        """Yield the figures of which something is promised."""
        name = self.question.name
        if self.question.time is not None:
            note = f"best {min(self.ours.ms):.1f} ms"
            yield Finding(name, self.ours.median, self.question.time, note)
        if self.peer is not None:
            target = self.question.ratio_target(self.peer.median)
            ratio, best, cpu = self.ratios
            if target is not None:
                yield Finding(name, ratio, target, f"of bests {best:.0f}, of CPU {cpu:.0f}")


def race(
    question: Asked, ours: Server, peer: Server | None, patience: Patience, count: Counter
) -> Result:
    """Return what was measured; raise :class:`both_servers.WrongAnswer` with the difference."""
    print(f"  {question.name} ...", file=sys.stderr, flush=True)
    first = question.requests(0)[0]
    first_ms, (body,) = timed_all(ours, [first])
    check = None
    if peer is not None:
        check = question.checked_by(peer)
        check("ours", first, body)
    servers = (ours,) if peer is None else (ours, peer)
    sides = {server.name: Side() for server in servers}
    candidates = _ask_in_turns(question, servers, sides, check, patience)
    return Result(
        question=question,
        candidates=candidates,
        ours=sides["ours"],
        peer=sides.get("peer"),
        first_ms=first_ms,
        statements=count(first),
    )


def _ask_in_turns(
    question: Asked,
    servers: Sequence[Server],
    sides: Mapping[str, Side],
    check: Check | None,
    patience: Patience,
) -> int | None:
    """Ask each server in each round, and take down what it took; return how many candidates."""
    candidates = None
    spent = dict.fromkeys(sides, 0.0)
    for server in servers:
        server.forget_peak()
    for number in range(patience.rounds):
        requests = question.requests(number)
        for server in servers if number % 2 else servers[::-1]:
            side = sides[server.name]
            if side.ms and spent[server.name] > patience.seconds * 1000:
                continue
            before = server.cpu_seconds()
            elapsed, bodies = timed_all(server, requests)
            spent[server.name] += elapsed
            side.ms.append(elapsed / len(requests))
            side.size = len(bodies[-1])
            if check is not None:
                for request, body in zip(requests, bodies, strict=True):
                    candidates = check(server.name, request, body)
            # What a server does after its answer went out is counted as well.
            side.cpu_ms += (server.cpu_seconds() - before) * 1000 / len(requests)
    for server in servers:
        side = sides[server.name]
        side.cpu_ms /= len(side.ms)
        side.peak_mb = server.peak_mb()
    return candidates


def timed(server: Server, path: str) -> tuple[float, bytes]:
    """Return the milliseconds that an answer took, and its body."""
    elapsed, (body,) = timed_all(server, [Request("GET", path)])
    return elapsed, body


def timed_all(server: Server, requests: Sequence[Request]) -> tuple[float, list[bytes]]:
    """Return the milliseconds that answers took, one after the other, and their bodies."""
    started = time.perf_counter()
    bodies = [server.answer(request) for request in requests]
    return (time.perf_counter() - started) * 1000, bodies
