# SPDX-License-Identifier: Apache-2.0
"""Three servers of two workers after HAProxy, on one PostgreSQL; one after the other is killed.

Clients claim and free meanwhile, and know of each consumer what was answered last.
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
#: Answers that clients must get between two kills, and while a server is away.
ENOUGH = 60
#: What a proxy answers for a server that is gone, or the server where the database does not say.
UNKNOWN = {502, 503, 504}
HEADERS = {"X-Auth-Token": "admin", "OpenStack-API-Version": f"placement {LATEST}"}


@dataclass
class Tally:
    """What one client was answered, and what each consumer holds by that; ``unsure`` may differ."""

    holds: dict[str, tuple[str, int]] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    false: list[str] = field(default_factory=list)
    answers: Counter[int] = field(default_factory=Counter)


class Writer(threading.Thread):
    """A client that claims for new consumers, and frees its own, until it is stopped."""

    def __init__(self, number: int, url: str, certificate: Path, providers: list[str]) -> None:
        super().__init__(daemon=True)
        self._dice = random.Random(number)
        self._url, self._providers = url, providers
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.verify = str(certificate)
        self._session.headers.update(HEADERS)
        self._over = threading.Event()
        self.tally = Tally()

    def run(self) -> None:
        while not self._over.is_set():
            if len(self.tally.holds) > 4 and self._dice.random() < 0.5:
                self._free(self._dice.choice(list(self.tally.holds)))
            else:
                self._claim(str(uuid4()))

    def stop(self) -> None:
        self._over.set()
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
        elif status in UNKNOWN:
            self.tally.unsure.add(consumer)
        else:
            self.tally.absent.add(consumer)
            if (status, code) != (409, "placement.undefined_code"):
                # Of a new consumer nothing but a lack of room is true.
                self.tally.false.append(f"claim: {status} {code}")

    def _free(self, consumer: str) -> None:
        del self.tally.holds[consumer]
        status, code = self._send("DELETE", consumer)
        if status == 204:
            self.tally.absent.add(consumer)
        else:
            self.tally.unsure.add(consumer)
            if status not in UNKNOWN:
                self.tally.false.append(f"deletion: {status} {code}")

    def _send(self, method: str, consumer: str, body: object = None) -> tuple[int, str | None]:
        path = f"{self._url}/placement/allocations/{consumer}"
        try:
            answer = self._session.request(method, path, json=body, timeout=240)
        except requests.ConnectionError:
            self.tally.answers[502] += 1
            return 502, None
        self.tally.answers[answer.status_code] += 1
        try:
            code = answer.json()["errors"][0]["code"]
        except ValueError:
            code = None
        return answer.status_code, code


class ServerPair:
    """The servers, each on a port of its own, which it keeps when it is started again."""

    def __init__(self, folder: Path, url: str, stack: ExitStack) -> None:
        self._folder, self._url, self._stack = folder, url, stack
        held = [stack.enter_context(reserve_port()) for _ in range(SERVERS)]
        self.ports = [one.getsockname()[1] for one in held]
        self._servers = [self._started(port) for port in self.ports]

    def kill(self, which: int) -> None:
        """Kill a server and all its workers at once, with SIGKILL."""
        server = psutil.Process(self._servers[which].process.pid)
        for one in [server, *server.children()]:
            one.kill()
        self._servers[which].process.wait(timeout=60)

    def start_again(self, which: int) -> None:
        self._servers[which] = self._started(self.ports[which])

    def _started(self, port: int) -> Server:
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
def site(database_url, tmp_path) -> Iterator[ServerPair]:
    with ExitStack() as stack:
        yield ServerPair(tmp_path, database_url, stack)


@pytest.mark.system
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_acknowledged_writes_survive_killed_servers(database, site, tmp_path):
    providers = [make_provider(database, VCPU=40) for _ in range(PROVIDERS)]
    with start_proxy(tmp_path, site.ports) as (url, certificate), assert_generations_grow(database):
        writers = [Writer(number, url, certificate, providers) for number in range(CLIENTS)]
        for writer in writers:
            writer.start()

        def done() -> int:
            return sum(writer.tally.answers[204] for writer in writers)

        for which in range(SERVERS):
            before = done()
            assert wait_until(lambda before=before: done() > before + ENOUGH, 240)
            site.kill(which)
            before = done()
            # The others answer all the same.
            assert wait_until(lambda before=before: done() > before + ENOUGH, 240)
            site.start_again(which)
        for writer in writers:
            writer.stop()
    tallies = [writer.tally for writer in writers]
    assert [answer for tally in tallies for answer in tally.false] == []
    assert set().union(*(tally.answers for tally in tallies)) <= {204, 409, *UNKNOWN}
    check_allocations(database, tallies)
    assert_invariants(database)


def check_allocations(database: Database, tallies: list[Tally]) -> None:
    """Compare what there is with what was answered: whole, and nothing of what was refused."""
    with database.read() as connection:
        rows = allocations.all_allocations(connection)
    held = {one.consumer.uuid: (one.provider_uuid, one.used) for one in rows}
    assert len(held) == len(rows)
    known = {consumer: what for tally in tallies for consumer, what in tally.holds.items()}
    unsure = set().union(*(tally.unsure for tally in tallies))
    assert {one: what for one, what in held.items() if one not in unsure} == known
    assert not held.keys() & set().union(*(tally.absent for tally in tallies))
