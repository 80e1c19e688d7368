"""SIGKILL, for a server and for the processes of its database: nothing acknowledged is lost.

Workers alone are killed in ``tests/races/test_killed_workers.py``.
"""

import logging
import os
import random
import signal
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress

import psycopg
import pytest

from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.operations.prepare import sync
from tests.chaos.ledger import check, claim_at_random
from tests.chaos.scale import TRIED, times
from tests.conftest import make_settings
from tests.postgresql import one_server
from tests.processes import race
from tests.providers import make_provider

LOG = logging.getLogger(__name__)
SECONDS = times(6, 60)
CLIENTS = 8
pytestmark = pytest.mark.system


class Killer(threading.Thread):
    """Kills something again and again, after pauses of random length."""

    def __init__(self, kill: Callable[[], None], least: float, most: float) -> None:
        super().__init__(daemon=True)
        self._kill = kill
        self._pause = lambda: random.uniform(least, most)
        self._over = threading.Event()
        self.killed = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.wait(self._pause()):
                self._kill()
                self.killed += 1
        except BaseException as failure:
            self.failure = failure
            raise

    def stop(self) -> None:
        self._over.set()
        self.join(timeout=120)
        assert self.failure is None


@pytest.fixture
def kill_during_claims(serve) -> Callable[..., str]:
    """Give a function that lets clients claim while a killer works, and checks what is there."""

    def work(database: Database, servers: list, killer: Killer) -> str:
        providers = [make_provider(database, VCPU=1_000_000) for _ in range(5)]
        killer.start()
        urls = [server.url for server in servers]
        ledgers = race(CLIENTS, claim_at_random, urls, providers, SECONDS)
        killer.stop()
        answers = check(database, ledgers)
        LOG.info("%s kills: %s", killer.killed, dict(answers))
        assert killer.killed
        assert answers["PUT 204"] > 10 * CLIENTS
        assert {name.split()[1] for name in answers} <= {"204", "404", "409", "503", "without"}
        return f"{killer.killed} kills, {answers.total()} writes"

    return work


def test_database_processes_are_killed(serve, kill_during_claims, record_property):
    with one_server() as postgresql, ExitStack() as stack:
        settings = make_settings(postgresql.url())
        database = Database(settings)
        stack.callback(database.dispose)
        sync(database, utcnow)
        server = serve("--workers", "2", OS_PLACEMENT_DATABASE__CONNECTION=postgresql.url())

        def kill() -> None:
            # The postmaster then stops all others and recovers, as after a loss of power.
            with suppress(psycopg.OperationalError, ProcessLookupError):
                busy = postgresql.ask(
                    "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                    "AND pid != pg_backend_pid()"
                )
                if busy:
                    os.kill(random.choice(busy), signal.SIGKILL)

        tried = kill_during_claims(database, [server], Killer(kill, 0.5, 1.5))
        server.wait_for("/healthz/ready", 200)
        record_property(TRIED, tried)


@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_one_of_two_servers_is_killed_with_its_workers(
    serve, database, database_url, kill_during_claims, record_property
):
    variables = {"OS_PLACEMENT_DATABASE__CONNECTION": database_url}
    stays, goes = serve(**variables), serve(**variables)
    victims = [goes]

    def kill() -> None:
        if not victims:
            victims.append(serve("--port", goes.url.rpartition(":")[2], **variables))
            return
        victim = victims.pop()
        for pid in [victim.process.pid, *victim.workers()]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        victim.process.wait(timeout=60)

    tried = kill_during_claims(database, [stays, goes], Killer(kill, 1, 2))
    record_property(TRIED, tried)
