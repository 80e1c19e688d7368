"""SIGKILL at random moments, for servers, workers and databases: nothing acknowledged is lost.

Workers are also killed in ``tests/races/test_killed_workers.py``, nodes of a cluster in
``tests/galera``.
"""

import logging
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil
import psycopg
import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.chaos.ledger import check, claim_at_random
from tests.chaos.scale import TRIED, times
from tests.conftest import make_settings
from tests.invariants import assert_invariants, generations_only_grow
from tests.mariadb import mariadb
from tests.postgresql import one_server
from tests.processes import PROCESSES, race
from tests.providers import make_provider
from tests.servers import Server

LOG = logging.getLogger(__name__)
CLIENTS, WORKERS = 8, 3
#: How often each is killed; ``make chaos`` kills 210 times.
OF_A_WORKER, OF_A_SERVER = times(4, 25), times(2, 20)
OF_ONE_PROCESS, OF_A_DATABASE = times(3, 50), times(2, 35)
#: Seconds between two kills, drawn anew each time.
PAUSES = (0.05, 1.0)
#: Workers are killed at any moment, also while they start; at times all that there are serve.
PAUSES_OF_WORKERS = (0.05, 2.0)
pytestmark = pytest.mark.system


class Killer(threading.Thread):
    """Kills something so many times, after pauses of random length; then it is over."""

    def __init__(self, kill: Callable[[], None], many: int, pauses: tuple[float, float]) -> None:
        super().__init__(daemon=True)
        self._kill, self._many, self._pauses = kill, many, pauses
        self._stopped = threading.Event()
        self.over = PROCESSES.Event()
        self.killed = 0

    def run(self) -> None:
        try:
            while self.killed < self._many and not self._stopped.wait(self._pause()):
                self._kill()
                self.killed += 1
            self._stopped.wait(max(self._pauses))
        finally:
            self.over.set()

    def stop(self) -> None:
        self._stopped.set()
        self.join(timeout=120)

    def _pause(self) -> float:
        return random.uniform(*self._pauses)


def survives(
    database: Database,
    servers: list[Server],
    kill: Callable[[], None],
    many: int,
    pauses: tuple[float, float] = PAUSES,
) -> str:
    """Let clients claim while something is killed, and check what is there; say how much it was."""
    providers = [make_provider(database, VCPU=1_000_000) for _ in range(5)]
    urls = [server.url for server in servers]
    killer = Killer(kill, many, pauses)
    with generations_only_grow(database):
        killer.start()
        try:
            ledgers = race(CLIENTS, claim_at_random, urls, providers, killer.over)
        finally:
            killer.stop()
        for server in servers:
            server.wait_for("/healthz/ready", 200)
    answers = check(database, ledgers)
    LOG.info("%s kills: %s", killer.killed, dict(answers))
    assert killer.killed == many
    assert answers["PUT 204"] > 10 * CLIENTS
    assert {name.split()[1] for name in answers} <= {"204", "404", "409", "503", "without"}
    for server in servers:
        before, traceback, after = server.log.read_text().partition("Traceback")
        assert not traceback, before[-1000:] + traceback + after[:5000]
    assert_invariants(database)
    return f"{killer.killed} kills, {answers.total()} writes"


@contextmanager
def prepared(url: str) -> Iterator[Database]:
    """Give a database of one's own with the schema."""
    database = Database(make_settings(url))
    try:
        sync(database, utcnow)
        yield database
    finally:
        database.dispose()


def end(pids: list[int]) -> None:
    """Kill these processes, as far as they still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_one_worker_after_the_other_is_killed(serve, database, database_url, record_property):
    server = serve(*("--workers", str(WORKERS)), OS_PLACEMENT_DATABASE__CONNECTION=database_url)

    def kill() -> None:
        with suppress(psutil.NoSuchProcess, IndexError):
            ours = psutil.Process(server.process.pid).children()
            end([random.choice(ours).pid])

    tried = survives(database, [server], kill, OF_A_WORKER, PAUSES_OF_WORKERS)
    record_property(TRIED, f"workers: {tried}")


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_one_of_two_servers_is_killed_with_its_workers(
    serve, database, database_url, record_property
):
    variables = {"OS_PLACEMENT_DATABASE__CONNECTION": database_url}
    servers = [serve(**variables), serve(**variables)]

    def kill() -> None:
        number = random.randrange(len(servers))
        victim = servers[number]
        end([victim.process.pid, *victim.workers()])
        victim.process.wait(timeout=60)
        servers[number] = serve("--port", victim.url.rpartition(":")[2], **variables)

    tried = survives(database, servers, kill, OF_A_SERVER)
    record_property(TRIED, f"servers: {tried}")


def test_single_processes_of_postgresql_are_killed(serve, record_property):
    with one_server() as postgresql, prepared(postgresql.url()) as database:
        server = serve("--workers", "2", OS_PLACEMENT_DATABASE__CONNECTION=postgresql.url())

        def kill() -> None:
            # The postmaster then stops all others and recovers, as after a loss of power.
            busy = list[int]()
            while not busy:
                with suppress(psycopg.OperationalError):
                    busy = postgresql.ask(
                        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                        "AND pid != pg_backend_pid()"
                    )
            end([random.choice(busy)])

        tried = survives(database, [server], kill, OF_ONE_PROCESS)
        record_property(TRIED, f"processes of PostgreSQL: {tried}")


@pytest.mark.parametrize("kind", [one_server, mariadb], ids=["postgresql", "mariadb"])
def test_whole_database_is_killed_and_started_again(kind, serve, record_property):
    with kind() as server_of_data:
        url = server_of_data.url() if kind is one_server else server_of_data.new_database()
        with prepared(url) as database:
            server = serve("--workers", "2", OS_PLACEMENT_DATABASE__CONNECTION=url)

            def kill() -> None:
                server_of_data.kill()
                server_of_data.start()

            tried = survives(database, [server], kill, OF_A_DATABASE)
    record_property(TRIED, f"{type(server_of_data).__name__}: {tried}")
