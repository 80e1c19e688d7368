"""Asks both servers the same in turns, and holds every answer against the peer's whole one."""

import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from answers import Expected
from both_servers import Request, Server
from counting import Counter
from questions import Question
from targets import Finding


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a question is asked: ``rounds`` times, but once ``seconds`` are over no more."""

    rounds: int
    seconds: float


@dataclass(slots=True)
class Side:
    """What was measured of one server: milliseconds, one a round; a mean of CPU milliseconds."""

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

    question: Question
    candidates: int
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
    question: Question, ours: Server, peer: Server | None, patience: Patience, count: Counter
) -> Result:
    """Return what was measured; raise :class:`both_servers.WrongAnswer` with the difference."""
    print(f"  {question.name} ...", file=sys.stderr, flush=True)
    first_ms, body = timed(ours, question.path)
    expected = None
    if peer is not None:
        expected = Expected(question.name, peer.get(question.everything))
        expected.check("ours", body, question.limit)
    servers = (ours,) if peer is None else (ours, peer)
    sides = {server.name: Side() for server in servers}
    candidates = _ask_in_turns(question, servers, sides, expected, patience)
    return Result(
        question=question,
        candidates=candidates,
        ours=sides["ours"],
        peer=sides.get("peer"),
        first_ms=first_ms,
        statements=count(Request("GET", question.path)),
    )


def _ask_in_turns(
    question: Question,
    servers: Sequence[Server],
    sides: Mapping[str, Side],
    expected: Expected | None,
    patience: Patience,
) -> int:
    """Ask each server once a round, and take down what it took; return how many candidates."""
    candidates = 0
    for server in servers:
        server.forget_peak()
    for number in range(patience.rounds):
        for server in servers if number % 2 else servers[::-1]:
            side = sides[server.name]
            if side.ms and sum(side.ms) > patience.seconds * 1000:
                continue
            before = server.cpu_seconds()
            elapsed, body = timed(server, question.path)
            side.ms.append(elapsed)
            side.size = len(body)
            if expected is not None:
                candidates = expected.check(server.name, body, question.limit)
            # What a server does after its answer went out is counted as well.
            side.cpu_ms += (server.cpu_seconds() - before) * 1000
    for server in servers:
        side = sides[server.name]
        side.cpu_ms /= len(side.ms)
        side.peak_mb = server.peak_mb()
    return candidates


def timed(server: Server, path: str) -> tuple[float, bytes]:
    """Return the milliseconds that an answer took, and its body."""
    started = time.perf_counter()
    body = server.get(path)
    return (time.perf_counter() - started) * 1000, body
