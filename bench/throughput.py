# SPDX-License-Identifier: Apache-2.0
"""Reads per second: workers of both servers asked the same by several clients at once, in turns."""

import multiprocessing
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from answers import Expected
from both_servers import Address, Request, Server, WrongAnswer
from questions import Question
from targets import Finding, Target

WORKERS, CLIENTS = 2, 4
TARGET = Target(50, 100)


@dataclass(frozen=True, slots=True)
class Result:
    """Requests per second, one figure a round, and the mean of CPU milliseconds a request."""

    question: Question
    rates: dict[str, list[float]]
    cpu_ms: dict[str, float]

    @property
    def finding(self) -> Finding:
        """Return the ratio of the rates, by medians."""
        ours, peer = self.rates["ours"], self.rates["peer"]
        return Finding(
            f"reads per second, {self.question.name}",
            statistics.median(ours) / statistics.median(peer),
            TARGET,
            f"of bests {max(ours) / max(peer):.0f}, of CPU "
            f"{self.cpu_ms['peer'] / self.cpu_ms['ours']:.0f}",
        )


def race(question: Question, servers: tuple[Server, Server], rounds: int, seconds: float) -> Result:
    """Let all clients ask one server for ``seconds``, then the other; return the rates.

    Raises :class:`WrongAnswer`: every different answer is held against the peer's whole one.
    """
    expected = Expected(question.name, servers[1].get(question.everything))
    rates: dict[str, list[float]] = {server.name: [] for server in servers}
    used: dict[str, list[float]] = {server.name: [] for server in servers}
    with ProcessPoolExecutor(CLIENTS, multiprocessing.get_context("spawn")) as clients:
        for number in range(rounds + 1):
            for server in servers if number % 2 else servers[::-1]:
                print(f"  {server.name}, round {number} ...", file=sys.stderr, flush=True)
                before = server.cpu_seconds()
                shown = [server.address, question.path, seconds if number else min(seconds, 3)]
                shares = list(clients.map(_ask_for, *([one] * CLIENTS for one in shown)))
                cpu_ms = (server.cpu_seconds() - before) * 1000
                for body in {body for share in shares for body in share.bodies}:
                    expected.check(server.name, body, question.limit)
                asked = sum(share.asked for share in shares)
                if number:  # the first round warms up
                    rates[server.name].append(sum(share.rate for share in shares))
                    used[server.name].append(cpu_ms / asked)
    cpu = {name: statistics.median(figures) for name, figures in used.items()}
    return Result(question, rates, cpu)


@dataclass(frozen=True, slots=True)
class Share:
    """What one client did: requests, requests per second, and the different bodies it saw."""

    asked: int
    rate: float
    bodies: tuple[bytes, ...]


def _ask_for(address: Address, path: str, seconds: float) -> Share:
    """Ask the same again and again, at least once: what a client process does.

    A request is waited for though time be over, and its whole time counts.
    """
    message, asked = address.message(Request("GET", path)), 0
    bodies: list[bytes] = []
    started = time.monotonic()
    while not asked or time.monotonic() - started < seconds:
        reply = address.answer(message)
        asked += 1
        if reply.status != 200:
            raise WrongAnswer(f"{path}: {reply.status} {reply.body[:500]!r}")
        if reply.body not in bodies:
            bodies.append(reply.body)
    return Share(asked, asked / (time.monotonic() - started), tuple(bodies))
