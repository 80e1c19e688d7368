# SPDX-License-Identifier: Apache-2.0
"""What the first request of a worker takes, against those that follow."""

import statistics
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from both_servers import Server
from pairs import timed
from questions import Question
from targets import Finding, at_most

TARGET = at_most(4)
_WARM = 9


@dataclass(frozen=True, slots=True)
class Result:
    """Milliseconds of the very first request of fresh workers, and of later ones, a start each."""

    question: Question
    cold_ms: tuple[float, ...]
    warm_ms: tuple[float, ...]

    @property
    def finding(self) -> Finding:
        """Return cold by warm, by medians over the starts."""
        pairs = zip(self.cold_ms, self.warm_ms, strict=True)
        return Finding(
            f"cold by warm, {self.question.name}",
            statistics.median(cold / warm for cold, warm in pairs),
            TARGET,
            f"{statistics.median(self.cold_ms):.0f} ms by {statistics.median(self.warm_ms):.1f} ms",
        )


def measure(
    question: Question, start: Callable[[], AbstractContextManager[Server]], starts: int
) -> Result:
    """Start a server again and again; return the times of its first and its later requests."""
    print(f"  cold, {question.name} ...", file=sys.stderr, flush=True)
    cold, warm = [], []
    for _ in range(starts):
        with start() as server:
            cold.append(timed(server, question.path)[0])
            warm.append(statistics.median(timed(server, question.path)[0] for _ in range(_WARM)))
    return Result(question, tuple(cold), tuple(warm))
