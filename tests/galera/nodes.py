# SPDX-License-Identifier: Apache-2.0
"""What tests ask of applications that each are on another node of a cluster."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from webtest import TestResponse

from tests.conftest import Client
from tests.galera.cluster import Cluster
from tests.support.concurrency import run_concurrently
from tests.support.versions import LATEST_HEADERS

#: How often each race is run: a few times in a suite, 300 times for a proof.
ROUNDS = int(os.environ.get("PLACEMENT_SCHED_TEST_GALERA_ROUNDS", "15"))
#: What one node is asked: its number, a method, a path, a body, and a microversion that is not the
#: newest one where it is to be another.
Ask = tuple[int, str, str, Any] | tuple[int, str, str, Any, str]


@dataclass(frozen=True)
class Nodes:
    """Applications on one database, each on another node."""

    cluster: Cluster
    database: str
    clients: tuple[Client, ...]

    def request(
        self, node: int, method: str, path: str, body: Any = None, version: str | None = None
    ) -> TestResponse:
        """Send a request through a node; return the answer, whatever it is."""
        client, headers = self.clients[node], LATEST_HEADERS
        if version is not None:
            headers = {"OpenStack-API-Version": version}
        if body is None:
            return client.request(path, method=method, headers=headers, expect_errors=True)
        send = {"POST": client.post_json, "PUT": client.put_json}[method]
        return send(path, body, headers=headers, expect_errors=True)

    def create(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that succeeds through the first node, and wait until all nodes have it."""
        answer = self.request(0, method, path, body)
        assert answer.status_int < 300, answer.text
        self.cluster.settle()
        return answer.json if answer.body else None

    def send_concurrently(self, *requests: Ask) -> list[TestResponse]:
        """Send requests at the same moment, each in a thread; wait until all nodes have them."""
        answers = run_concurrently(*(partial(self.request, *request) for request in requests))
        assert None not in answers
        self.cluster.settle()
        return answers

    def read_rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which are the same on all nodes once all have them."""
        self.cluster.settle()
        first, *others = [one.query(statement, self.database) for one in self.cluster.running]
        assert all(one == first for one in others)
        return first


def node_pairs(rounds: int = ROUNDS) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the numbers of rounds, each with two nodes: every pair, in either order, in turn."""
    both = [(one, other) for one in range(3) for other in range(3) if one != other]
    for number in range(rounds):
        yield number, both[number % len(both)]


def failed_rounds(rounds: Iterator[Any], race: Callable[..., None]) -> list[str]:
    """Run a race in each round; return what was wrong in those in which it did not hold."""
    wrong = []
    for one in rounds:
        try:
            race(*one)
        except AssertionError as failure:
            wrong.append(f"{one}: {failure}")
    return wrong


def statuses(answers: Iterable[TestResponse]) -> list[int]:
    """Return the statuses of answers in ascending order."""
    return sorted(one.status_int for one in answers)
