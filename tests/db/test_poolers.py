# SPDX-License-Identifier: Apache-2.0
"""PgBouncer with transaction pooling: each transaction may have another session.

Responses equal the responses through direct connections, whatever other clients did in the same
sessions.
"""

import os
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import STDOUT, Popen
from tempfile import TemporaryDirectory
from uuid import uuid4

import psycopg
import pytest
import requests
from sqlalchemy import create_engine, literal_column, select, text

from placement_sched.db.sql import FrequentStatement
from placement_sched.db.transaction import Database
from placement_sched.model.clock import utcnow
from placement_sched.nova.databases import NovaDatabase, parse_url
from placement_sched.nova.databases.placements import mapped_cells
from placement_sched.nova.databases.tables import API
from placement_sched.operations.prepare import sync
from tests.conftest import make_settings
from tests.deploy import find_program
from tests.support.invariants import assert_invariants
from tests.support.loopback import reserve_port
from tests.support.postgresql import ACCOUNT, run_postgresql
from tests.support.servers import environment, start_server, wait_until
from tests.support.versions import LATEST_HEADERS

pytestmark = [pytest.mark.system, pytest.mark.timeout(600)]

READS, CLAIMS, NOVA_READS = 2_000, 400, 400
CLIENTS = 8
HOSTS = 5
HEADERS = {"X-Auth-Token": "admin", **LATEST_HEADERS}
#: Few sessions for many clients, so that clients share them.
CONFIGURATION = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
max_client_conn = 200
default_pool_size = 4
ignore_startup_parameters = options
"""


@contextmanager
def run_pgbouncer(folder: Path, server: int) -> Iterator[int]:
    """Run PgBouncer in front of the PostgreSQL on port ``server``, and yield its port."""
    program = find_program("pgbouncer")
    with reserve_port() as reserved, (folder / "pgbouncer.log").open("w") as log:
        port = reserved.getsockname()[1]
        users = folder / "users.txt"
        users.write_text(f'"{ACCOUNT}" ""\n')
        file = folder / "pgbouncer.ini"
        file.write_text(CONFIGURATION.format(server=server, port=port, users=users))
        command = [program, str(file)]
        if os.geteuid() == 0:  # PgBouncer refuses to run as root
            account = (f"--reuid={ACCOUNT}", f"--regid={ACCOUNT}", "--init-groups")
            command = ["setpriv", *account, *command]
            folder.chmod(0o755)
        process = Popen(command, stdout=log, stderr=STDOUT)
        try:
            assert wait_until(lambda: accepts_connections(port), 30), (
                folder / "pgbouncer.log"
            ).read_text()
            yield port
        finally:
            process.terminate()
            process.wait(timeout=60)


def accepts_connections(port: int) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(f"host=127.0.0.1 port={port} user={ACCOUNT} dbname=postgres").close()
        return True
    return False


@pytest.fixture(scope="module")
def pooled_postgresql():
    with run_postgresql() as pooled_postgresql:
        for name in ("placement", "nova_api"):
            pooled_postgresql.query(f"CREATE DATABASE {name}")
        yield pooled_postgresql


@pytest.fixture
def pooled_url(pooled_postgresql):
    """Give a function that returns the pooled_url URL of a database."""
    with (
        TemporaryDirectory(prefix="placement_sched_pgbouncer_") as folder,
        run_pgbouncer(Path(folder), pooled_postgresql.port) as port,
    ):
        yield lambda name: pooled_postgresql.url(name).replace(
            f":{pooled_postgresql.port}/", f":{port}/"
        )


def run_concurrently(number, work):
    """Call ``work`` concurrently with each number below ``number``, and return the results."""
    with ThreadPoolExecutor(CLIENTS) as clients:
        return list(clients.map(work, range(number)))


def build_body_with_generation(number, **body):
    return {"resource_provider_generation": number, **body}


def test_two_workers_behind_a_pooler_answer_like_direct_connections(
    pooled_postgresql, pooled_url, tmp_path
):
    direct = Database(make_settings(pooled_postgresql.url("placement")))
    sync(direct, utcnow)
    sessions = [requests.Session() for _ in range(CLIENTS)]
    options = {
        "OS_API__AUTH_STRATEGY": "noauth2",
        "OS_PLACEMENT_DATABASE__CONNECTION": pooled_url("placement"),
    }
    with start_server(
        "--workers", "2", folder=tmp_path, variables=environment(**options)
    ) as service:
        base = f"{service.url}/placement"

        def send_request(method, path, number=0, **more):
            session = sessions[number % CLIENTS]
            return session.request(method, base + path, headers=HEADERS, timeout=60, **more)

        uuids = [str(uuid4()) for _ in range(HOSTS)]
        for number, uuid in enumerate(uuids):
            path = f"/resource_providers/{uuid}"
            stock = {"VCPU": {"total": 64 + number}, "MEMORY_MB": {"total": 4096 * number + 1}}
            trait = f"CUSTOM_T{number}"
            for method, place, body in (
                ("POST", "/resource_providers", {"name": f"cn{number}", "uuid": uuid}),
                ("PUT", f"/traits/{trait}", None),
                ("PUT", f"{path}/inventories", build_body_with_generation(0, inventories=stock)),
                ("PUT", f"{path}/traits", build_body_with_generation(1, traits=[trait])),
            ):
                assert send_request(method, place, json=body).ok
        paths = [
            f"/resource_providers{path}"
            for uuid in uuids
            for path in (
                f"/{uuid}",
                f"/{uuid}/inventories",
                f"/{uuid}/traits",
                f"/{uuid}/usages",
                f"/{uuid}/aggregates",
                f"?in_tree={uuid}",
                "?name=cn3&resources=VCPU:1",
            )
        ] + [
            "/allocation_candidates?resources=VCPU:1,MEMORY_MB:64",
            "/allocation_candidates?resources=VCPU:1&required=CUSTOM_T3",
            "/traits",
            "/usages?project_id=p",
        ]
        expected = {path: send_request("GET", path).json() for path in paths}
        statuses: Counter[int] = Counter()
        differences = []

        def send_read(number):
            path = random.Random(number).choice(paths)
            answer = send_request("GET", path, number)
            statuses[answer.status_code] += 1
            if answer.json() != expected[path]:
                differences.append((path, answer.text))

        run_concurrently(READS, send_read)
        assert statuses == {200: READS}
        assert not differences[:3]

        def send_claim(number):
            body = {
                "allocations": {uuids[number % HOSTS]: {"resources": {"VCPU": 1}}},
                "project_id": "p",
                "user_id": "u",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            return send_request("PUT", f"/allocations/{uuid4()}", number, json=body).status_code

        statuses = Counter(run_concurrently(CLAIMS, send_claim))
        capacity = sum(64 + number for number in range(HOSTS))
        assert statuses == {204: capacity, 409: CLAIMS - capacity}
        for number, uuid in enumerate(uuids):
            usages = send_request("GET", f"/resource_providers/{uuid}/usages").json()["usages"]
            assert usages["VCPU"] == 64 + number
    assert_invariants(direct)
    direct.dispose()


@pytest.mark.parametrize("is_pooled", [False, True], ids=["direct", "pooled_url"])
def test_statements_are_prepared_only_in_private_sessions(pooled_postgresql, pooled_url, is_pooled):
    url = pooled_url("placement") if is_pooled else pooled_postgresql.url("placement")
    database = Database(make_settings(url))
    statement = FrequentStatement(select(literal_column("1 + 1").label("sum")))
    with database.read() as connection:
        for _ in range(3):
            assert statement.rows(connection, {}) == [(2,)]
        driver = connection.connection.driver_connection
        assert driver.has_own_session is not is_pooled
        prepared = connection.scalars(text("SELECT statement FROM pg_prepared_statements")).all()
    assert any("1 + 1" in each for each in prepared) is not is_pooled
    database.dispose()


def test_nova_databases_are_read_through_a_pooler(pooled_postgresql, pooled_url):
    engine = create_engine(pooled_postgresql.url("nova_api"))
    API.create_all(engine)
    engine.dispose()
    database = NovaDatabase("nova_api", parse_url(pooled_url("nova_api"), "connection"))

    def read_nova_hosts(_number):
        with database.read() as connection:
            return list(mapped_cells(connection))

    # Prepared statements would be missing in the sessions of other clients.
    assert run_concurrently(NOVA_READS, read_nova_hosts) == [[]] * NOVA_READS
    database.close()
