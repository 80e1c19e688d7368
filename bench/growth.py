"""How the time of a request grows with the cloud: clouds of several sizes asked in turns."""

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from answers import Expected
from both_servers import Server
from pairs import timed
from questions import Question
from targets import GROWTH, Finding


@dataclass(frozen=True, slots=True)
class Curve:
    """Milliseconds of one question, one a round, by size; of the peer one, where it was asked."""

    question: Question
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
            f"growth {smaller} to {larger} hosts, {self.question.name}",
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
        yield Curve(question, times, cpu_ms, peer_ms)
