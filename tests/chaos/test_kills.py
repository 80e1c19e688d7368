# SPDX-License-Identifier: Apache-2.0
"""SIGKILL of servers and databases at random moments.

No acknowledged write is lost. ``test_killed_workers`` kills workers, and
``test_galera_failures`` kills nodes of a cluster.
"""

import os
import random
import signal
from contextlib import ExitStack, suppress

import psycopg
import pytest

from tests.chaos.fault_injection import claim_during_faults, open_database_with_schema
from tests.chaos.run_length import TRIED_KEY, choose_count
from tests.support.loopback import reserve_port
from tests.support.mariadb import run_mariadb
from tests.support.postgresql import run_postgresql
from tests.support.servers import Server

#: Numbers of kills per test. ``make test-only WHAT=chaos`` kills 200 times.
SERVER_KILLS, PROCESS_KILLS, DATABASE_KILLS = (
    choose_count(2, 10),
    choose_count(3, 140),
    choose_count(2, 20),
)


def kill_processes(pids: list[int]) -> None:
    """Kill processes that still run."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.mark.chaos
@pytest.mark.parametrize("database_url", ["postgresql", "mysql"], indirect=True)
def test_no_acknowledged_claim_is_lost_when_servers_are_killed(
    serve, database, database_url, record_property
):
    with ExitStack() as stack:
        # The ports stay reserved while the server is down, because other tests run concurrently.
        ports = [stack.enter_context(reserve_port()).getsockname()[1] for _ in range(2)]

        def start_server(port: int) -> Server:
            options = ("--port", str(port))
            return serve(*options, OS_PLACEMENT_DATABASE__CONNECTION=database_url)

        servers = [start_server(port) for port in ports]

        def kill_random_server() -> None:
            number = random.randrange(len(servers))
            victim = servers[number]
            kill_processes([victim.process.pid, *victim.workers()])
            victim.process.wait(timeout=60)
            servers[number] = start_server(ports[number])

        summary = claim_during_faults(database, servers, kill_random_server, SERVER_KILLS)
    record_property(TRIED_KEY, f"servers: {summary}")


@pytest.mark.chaos
def test_no_acknowledged_claim_is_lost_when_postgresql_processes_are_killed(serve, record_property):
    with run_postgresql() as postgresql, open_database_with_schema(postgresql.url()) as database:
        server = serve("--workers", "2", OS_PLACEMENT_DATABASE__CONNECTION=postgresql.url())

        def kill_client_backend() -> None:
            # The postmaster then stops all other processes and recovers, as after a power loss.
            backends = list[int]()
            while not backends:
                with suppress(psycopg.OperationalError):
                    backends = postgresql.query(
                        "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' "
                        "AND pid != pg_backend_pid()"
                    )
            kill_processes([random.choice(backends)])

        summary = claim_during_faults(database, [server], kill_client_backend, PROCESS_KILLS)
        record_property(TRIED_KEY, f"processes of PostgreSQL: {summary}")


@pytest.mark.chaos
@pytest.mark.parametrize("run_server", [run_postgresql, run_mariadb], ids=["postgresql", "mariadb"])
def test_no_acknowledged_claim_is_lost_when_the_database_server_is_killed(
    run_server, serve, record_property
):
    with run_server() as data_server:
        url = data_server.url() if run_server is run_postgresql else data_server.new_database()
        with open_database_with_schema(url) as database:
            server = serve("--workers", "2", OS_PLACEMENT_DATABASE__CONNECTION=url)

            def kill_database_server() -> None:
                data_server.kill()
                data_server.start()

            summary = claim_during_faults(database, [server], kill_database_server, DATABASE_KILLS)
    record_property(TRIED_KEY, f"{type(data_server).__name__}: {summary}")
