# SPDX-License-Identifier: Apache-2.0
"""Three servers of two workers behind HAProxy on PostgreSQL, each killed in turn.

Clients claim and free allocations, and compare the last responses with the database at the end.
"""

import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import psutil
import pytest
import requests

from placement_sched.db.transaction import Database
from placement_sched.store.placement import allocations
from tests.deploy.haproxy import start_proxy
from tests.support.invariants import assert_generations_grow, assert_invariants
from tests.support.loopback import reserve_port
from tests.support.providers import make_provider
from tests.support.servers import Server, environment, start_server, wait_until
from tests.support.versions import LATEST

pytestmark = pytest.mark.system

SERVERS, WORKERS, CLIENTS, PROVIDERS = 3, 2, 8, 6
#: Successful responses between two kills, and while a server is away.
MIN_RESPONSES = 60
#: Statuses of a proxy without a server, or of a server that cannot read whether a COMMIT succeeded.
UNCERTAIN = {502, 503, 504}
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {LATEST}"}


@dataclass
class Tally:
    """The responses to a client, and the allocations of its consumers according to them."""

    holds: dict[str, tuple[str, int]] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    #: Consumers with a request of unknown result.
    unsure: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    statuses: Counter[int] = field(default_factory=Counter)


class Writer(threading.Thread):
    """A client that claims for new consumers and frees its own until it is stopped."""

    def __init__(self, number: int, url: str, certificate: Path, providers: list[str]) -> None:
        super().__init__(daemon=True)
        self._dice = random.Random(number)
        self._url, self._providers = url, providers
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(certificate)
        self._session.headers.update(HEADERS)
        self._stopped = threading.Event()
        self.tally = Tally()

    def run(self) -> None:
        while not self._stopped.is_set():
            if len(self.tally.holds) > 4 and self._dice.random() < 0.5:
                self._free(self._dice.choice(list(self.tally.holds)))
            else:
                self._claim(str(uuid4()))

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=240)
        assert not self.is_alive()

    def _claim(self, consumer: str) -> None:
        provider, amount = self._dice.choice(self._providers), self._dice.randint(1, 3)
        body = {
            "allocations": {provider: {"resources": {"VCPU": amount}}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        status, code = self._send("PUT", consumer, body)
        if status == 204:
            self.tally.holds[consumer] = (provider, amount)
        elif status in UNCERTAIN:
            self.tally.unsure.add(consumer)
        else:
            self.tally.absent.add(consumer)
            if (status, code) != (409, "placement.undefined_code"):
                # The claim of a new consumer can only fail for lack of capacity.
                self.tally.wrong.append(f"claim: {status} {code}")

    def _free(self, consumer: str) -> None:
        del self.tally.holds[consumer]
        status, code = self._send("DELETE", consumer)
        if status == 204:
            self.tally.absent.add(consumer)
        else:
            self.tally.unsure.add(consumer)
            if status not in UNCERTAIN:
                self.tally.wrong.append(f"deletion: {status} {code}")

    def _send(self, method: str, consumer: str, body: object = None) -> tuple[int, str | None]:
        path = f"{self._url}/placement/allocations/{consumer}"
        try:
            answer = self._session.request(method, path, json=body, timeout=240)
        except requests.ConnectionError:
            self.tally.statuses[502] += 1
            return 502, None
        self.tally.statuses[answer.status_code] += 1
        try:
            code = answer.json()["errors"][0]["code"]
        except ValueError:
            code = None
        return answer.status_code, code


class ServerGroup:
    """Servers that keep their ports when they restart."""

    def __init__(self, folder: Path, url: str, stack: ExitStack) -> None:
        self._folder, self._url, self._stack = folder, url, stack
        sockets = [stack.enter_context(reserve_port()) for _ in range(SERVERS)]
        self.ports = [socket.getsockname()[1] for socket in sockets]
        self._servers = [self._start(port) for port in self.ports]

    def kill(self, index: int) -> None:
        """Kill a server and all its workers with SIGKILL."""
        server = psutil.Process(self._servers[index].process.pid)
        for process in [server, *server.children()]:
            process.kill()
        self._servers[index].process.wait(timeout=60)

    def restart(self, index: int) -> None:
        self._servers[index] = self._start(self.ports[index])

    def _start(self, port: int) -> Server:
        variables = environment(
            OS_PLACEMENT_DATABASE__CONNECTION=self._url,
            OS_OSLO_MIDDLEWARE__ENABLE_PROXY_HEADERS_PARSING="true",
        )
        log = self._folder / f"{port}-{uuid4().hex[:4]}.log"
        words = ("--port", str(port), "--workers", str(WORKERS))
        return self._stack.enter_context(
            start_server(*words, folder=self._folder, log=log, variables=variables)
        )


@pytest.fixture
def servers(database_url, tmp_path) -> Iterator[ServerGroup]:
    with ExitStack() as stack:
        yield ServerGroup(tmp_path, database_url, stack)


@pytest.mark.system
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_acknowledged_writes_remain_after_servers_are_killed(database, servers, tmp_path):
    providers = [make_provider(database, VCPU=40) for _ in range(PROVIDERS)]
    with (
        start_proxy(tmp_path, servers.ports) as (url, certificate),
        assert_generations_grow(database),
    ):
        writers = [Writer(number, url, certificate, providers) for number in range(CLIENTS)]
        for writer in writers:
            writer.start()

        def count_acknowledged() -> int:
            return sum(writer.tally.statuses[204] for writer in writers)

        def wait_for_writes() -> None:
            minimum = count_acknowledged() + MIN_RESPONSES
            assert wait_until(lambda: count_acknowledged() > minimum, 240)

        for index in range(SERVERS):
            wait_for_writes()
            servers.kill(index)
            wait_for_writes()
            servers.restart(index)
        for writer in writers:
            writer.stop()
    tallies = [writer.tally for writer in writers]
    assert [response for tally in tallies for response in tally.wrong] == []
    assert set().union(*(tally.statuses for tally in tallies)) <= {204, 409, *UNCERTAIN}
    check_allocations(database, tallies)
    assert_invariants(database)


def check_allocations(database: Database, tallies: list[Tally]) -> None:
    """Compare all allocations with the responses, and check that rejected claims are absent."""
    with database.read() as connection:
        rows = allocations.all_allocations(connection)
    held = {row.consumer.uuid: (row.provider_uuid, row.used) for row in rows}
    assert len(held) == len(rows)
    expected = {consumer: claim for tally in tallies for consumer, claim in tally.holds.items()}
    unsure = set().union(*(tally.unsure for tally in tallies))
    assert {consumer: held[consumer] for consumer in held.keys() - unsure} == expected
    assert not held.keys() & set().union(*(tally.absent for tally in tallies))
