# SPDX-License-Identifier: Apache-2.0
"""Requests to applications on different nodes of a cluster."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import permutations
from typing import Any

import pytest
from webtest import TestResponse

from tests.conftest import AdminClient
from tests.galera.cluster import GaleraCluster
from tests.support.concurrency import run_concurrently
from tests.support.versions import LATEST_HEADERS

#: Rounds of each race: few in a suite, 300 for a proof.
ROUNDS_PER_RACE = int(os.environ.get("PLACEMENT_SCHED_TEST_GALERA_ROUNDS", "6"))
#: A request: number of the node, method, path, body, and a microversion other than the newest.
NodeRequest = tuple[int, str, str, Any] | tuple[int, str, str, Any, str]


@dataclass(frozen=True)
class NodeApplications:
    """Applications that share a database through different nodes."""

    cluster: GaleraCluster
    database: str
    clients: tuple[AdminClient, ...]

    def send_request(
        self, node: int, method: str, path: str, body: Any = None, version: str | None = None
    ) -> TestResponse:
        """Send a request through a node, and return the response of any status."""
        client, headers = self.clients[node], LATEST_HEADERS
        if version is not None:
            headers = {"OpenStack-API-Version": version}
        if body is None:
            return client.request(path, method=method, headers=headers, expect_errors=True)
        send = {"POST": client.post_json, "PUT": client.put_json}[method]
        return send(path, body, headers=headers, expect_errors=True)

    def create_and_replicate(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request that succeeds to the first node, and wait until it is replicated."""
        response = self.send_request(0, method, path, body)
        assert response.status_int < 300, response.text
        self.cluster.wait_until_nodes_applied_all_commits()
        return response.json if response.body else None

    def send_concurrently(self, *requests: NodeRequest) -> list[TestResponse]:
        """Send requests concurrently, and wait until all nodes have applied them."""
        responses = run_concurrently(
            *(partial(self.send_request, *request) for request in requests)
        )
        assert None not in responses
        self.cluster.wait_until_nodes_applied_all_commits()
        return responses

    def read_rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which must be equal on all nodes."""
        self.cluster.wait_until_nodes_applied_all_commits()
        first, *others = [
            node.query(statement, self.database) for node in self.cluster.running_nodes
        ]
        assert all(rows == first for rows in others)
        return first


def race_in_rounds(race: Callable[..., None]) -> Callable[..., None]:
    """Run a test in several rounds, each with its number and the next ordered pair of nodes.

    The first argument of the test is a fixture. All rounds run, and the failures are reported.
    """
    fixture = next(iter(signature(race).parameters))
    pairs = list(permutations(range(3), 2))

    def run_rounds(request: pytest.FixtureRequest) -> None:
        nodes, failures = request.getfixturevalue(fixture), []
        for number in range(ROUNDS_PER_RACE):
            pair = pairs[number % len(pairs)]
            try:
                race(nodes, number, pair)
            except AssertionError as failure:
                failures.append(f"{number}, {pair}: {failure}")
        assert failures == []

    return run_rounds


def sort_statuses(responses: Iterable[TestResponse]) -> list[int]:
    return sorted(response.status_int for response in responses)
